from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.tls import files as files_module
from sidecar.tls.files import MAX_BYTES, TlsFiles, Unreadable, load, read_files
from sidecar.tls.material import TlsFilesError
from tests.certificates import CA, pem
from tests.tls_volumes import ROOT, named, publish, write_all


def test_everything_a_block_names_is_loaded(tmp_path):
    leaf, other = ROOT.issue(), CA("other")
    write_all(tmp_path, leaf)
    (tmp_path / "partner.crt").write_bytes(other.pem)
    (tmp_path / "crl.pem").write_bytes(pem(ROOT.crl()))
    material = load(named(tmp_path, trust_domains={"partner.org": tmp_path / "partner.crt"}, crl=tmp_path / "crl.pem"))
    assert material.own.chain == leaf.chain
    assert material.roots.certificates == (ROOT.certificate, other.certificate)
    assert material.roots.domains_of([other.certificate]) == {"partner.org"}
    assert len(material.crls.lists) == 1


def test_a_pair_is_read_from_one_publication(tmp_path, monkeypatch):
    first, second = ROOT.issue(), ROOT.issue()
    files = publish(tmp_path, first, 1)
    read, seen = files_module._read_file, []

    def swap_after_the_first(path, directory):
        content = read(path, directory)
        if not seen:
            publish(tmp_path, second, 2)
        seen.append(path)
        return content

    monkeypatch.setattr(files_module, "_read_file", swap_after_the_first)
    assert load(files).own.chain == first.chain  # whole, though no longer the newest
    assert load(files).own.chain == second.chain


def test_a_publication_deleted_while_it_is_read_is_read_anew(tmp_path, monkeypatch):
    first, second = ROOT.issue(), ROOT.issue()
    files = publish(tmp_path, first, 1)
    read, seen = files_module._read_file, []

    def replace_after_the_first(path, directory):
        content = read(path, directory)
        if not seen:
            publish(tmp_path, second, 2)
            for name in ("tls.crt", "tls.key", "ca.crt"):
                (tmp_path / "..1" / name).unlink()
        seen.append(path)
        return content

    monkeypatch.setattr(files_module, "_read_file", replace_after_the_first)
    assert load(files).own.chain == second.chain


def test_a_directory_behind_a_symlink_is_resolved_once(tmp_path, monkeypatch):
    first, second = ROOT.issue(), ROOT.issue()
    write_all(tmp_path / "one", first)
    write_all(tmp_path / "two", second)
    (tmp_path / "current").symlink_to("one")
    read, seen = files_module._read_file, []

    def swap_after_the_first(path, directory):
        content = read(path, directory)
        if not seen:
            (tmp_path / "next").symlink_to("two")
            (tmp_path / "next").rename(tmp_path / "current")
        seen.append(path)
        return content

    monkeypatch.setattr(files_module, "_read_file", swap_after_the_first)
    assert load(named(tmp_path / "current")).own.chain == first.chain


def test_a_directory_that_is_replaced_again_and_again_is_given_up(tmp_path, monkeypatch):
    files = publish(tmp_path, ROOT.issue(), 0)
    monkeypatch.setattr(files_module, "_is_current", lambda directory, now: False)
    files.key.unlink()
    (tmp_path / "..0" / "tls.key").unlink()
    assert "replaced 5 times" in read_files(files.paths)[files.key].why


def refusal(files: TlsFiles) -> str:
    with pytest.raises(TlsFilesError) as caught:
        load(files)
    return str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    files = write_all(tmp_path, ROOT.issue())
    files.key.unlink()
    assert refusal(files) == f"{files.key}: doesn't exist"


def test_a_missing_directory_is_named_with_its_file(tmp_path):
    files = named(tmp_path / "none")
    assert refusal(files) == f"{files.certificate}: can't be read: No such file or directory"


def test_one_unreadable_file_leaves_the_others_readable(tmp_path):
    files = write_all(tmp_path, ROOT.issue())
    files.key.unlink()
    contents = read_files(files.paths)
    assert contents[files.key] == Unreadable("doesn't exist")
    assert contents[files.certificate] == files.certificate.read_bytes()


def test_a_file_that_is_too_long_is_refused(tmp_path):
    files = write_all(tmp_path, ROOT.issue())
    files.client_ca.write_bytes(b"#" * (MAX_BYTES + 1))
    assert refusal(files) == f"{files.client_ca}: is longer than {MAX_BYTES} bytes"


def test_a_file_of_the_full_length_is_read(tmp_path):
    files = write_all(tmp_path, ROOT.issue())
    files.client_ca.write_bytes(ROOT.pem.ljust(MAX_BYTES, b"\n"))
    assert load(files).roots.certificates == (ROOT.certificate,)


def test_a_fifo_is_refused_and_not_waited_for(tmp_path):
    files = write_all(tmp_path, ROOT.issue())
    files.key.unlink()
    os.mkfifo(files.key)
    assert refusal(files) == f"{files.key}: is no regular file"


def test_a_directory_in_a_files_place_is_refused(tmp_path):
    files = write_all(tmp_path, ROOT.issue())
    files.key.unlink()
    files.key.mkdir()
    assert refusal(files) == f"{files.key}: is no regular file"


def test_a_crl_that_is_named_and_missing_is_no_absent_check(tmp_path):
    write_all(tmp_path, ROOT.issue())
    assert refusal(named(tmp_path, crl=tmp_path / "crl.pem")) == f"{tmp_path / 'crl.pem'}: doesn't exist"


def test_reading_leaves_no_descriptor_open(tmp_path):
    files = write_all(tmp_path, ROOT.issue())
    before = len(list(Path("/proc/self/fd").iterdir()))
    load(files)
    read_files([files.key, tmp_path / "none", tmp_path / "none" / "none"])
    assert len(list(Path("/proc/self/fd").iterdir())) == before
