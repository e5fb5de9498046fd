"""Where keys and certificates are kept: whole or not at all, and keys for their owner alone."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime

import pytest

from sidecar.certs import store
from sidecar.certs.authority import Authority
from sidecar.certs.errors import CertsError
from sidecar.certs.store import keep_authority, keep_pair, read_authority

NOW = datetime.now(UTC).replace(microsecond=0)
NAME = "spiffe://example.org/prod-eu/replica-a/2"


@pytest.fixture(scope="module")
def authority():
    return Authority.create("example.org", now=NOW, days=30)


@pytest.fixture
def pair(authority):
    return authority.issue("server", NAME, now=NOW, days=1)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_keys_are_their_owners_whatever_the_umask(tmp_path, authority, pair, umask):
    keep_authority(tmp_path, authority)
    keep_pair(tmp_path, pair, authority, replace=False)
    assert mode(tmp_path / "ca.key") == mode(tmp_path / "tls.key") == 0o600
    assert mode(tmp_path / "ca.crt") == mode(tmp_path / "tls.crt") == 0o644


def test_a_key_is_never_readable_by_others_while_it_is_written(tmp_path, authority, monkeypatch):
    seen = []
    fsync = os.fsync

    def look(descriptor):
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    keep_authority(tmp_path, authority)
    assert seen == [0o644, 0o600, 0o644]  # .gitignore, the key, the certificate


def test_a_kept_authority_is_read_back(tmp_path, authority):
    keep_authority(tmp_path / "new" / "certs", authority)
    assert read_authority(tmp_path / "new" / "certs").certificate == authority.certificate


@pytest.mark.parametrize("there", ["ca.crt", "ca.key"])
def test_an_authority_is_never_overwritten_nor_half(tmp_path, authority, there):
    (tmp_path / there).write_text("precious")
    with pytest.raises(CertsError, match=f"{there} is there already"):
        keep_authority(tmp_path, authority)
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "precious"


def test_git_ignores_keys_and_an_own_list_is_left_alone(tmp_path, authority):
    keep_authority(tmp_path / "a", authority)
    assert "*.key\n" in (tmp_path / "a" / ".gitignore").read_text()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / ".gitignore").write_text("*\n")
    keep_authority(tmp_path / "b", authority)
    assert (tmp_path / "b" / ".gitignore").read_text() == "*\n"


def test_a_pair_is_replaced_only_where_that_is_asked_for(tmp_path, authority, pair):
    keep_pair(tmp_path, pair, authority, replace=False)
    other = authority.issue("server", NAME, now=NOW, days=1)
    with pytest.raises(CertsError, match="give --replace"):
        keep_pair(tmp_path, other, authority, replace=False)
    assert (tmp_path / "tls.key").read_bytes() == pair.key
    keep_pair(tmp_path, other, authority, replace=True)
    assert (tmp_path / "tls.key").read_bytes() == other.key
    assert (tmp_path / "tls.crt").read_bytes() == other.certificate
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ca.crt", "tls.crt", "tls.key"]


def test_a_write_that_fails_leaves_nothing_of_it(tmp_path, authority, pair, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.os, "fsync", full)
    with pytest.raises(CertsError, match="can't be written: No space left on device"):
        keep_pair(tmp_path, pair, authority, replace=False)
    assert list(tmp_path.iterdir()) == []


def test_an_authority_that_is_missing_says_how_to_make_one(tmp_path):
    with pytest.raises(CertsError, match=r"ca\.crt isn't there: make a CA with `sidecar certs init"):
        read_authority(tmp_path)


def test_an_authority_that_is_damaged_is_named(tmp_path, authority):
    keep_authority(tmp_path, authority)
    (tmp_path / "ca.key").write_text("damaged")
    with pytest.raises(CertsError, match=f"{tmp_path}: is no CA"):
        read_authority(tmp_path)


def test_one_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "ca.crt").mkdir()
    with pytest.raises(CertsError, match=r"ca\.crt can't be read: Is a directory"):
        read_authority(tmp_path)
