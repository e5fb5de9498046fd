from pathlib import Path

import pytest

from sidecar.authority.files import read_files
from sidecar.demo.volume import MountedFile


@pytest.fixture
def mounted(tmp_path):
    return MountedFile(tmp_path / "volume" / "generation")


def test_what_was_published_last_is_what_a_sidecar_reads(mounted):
    for text in ("1", "2", "3"):
        mounted.publish(text)
        assert read_files([mounted.path]) == {mounted.path: f"{text}\n".encode()}


def test_the_file_is_reached_through_a_symlink_that_is_swapped_as_the_kubelet_does(mounted):
    mounted.publish("1")
    data = mounted.path.parent / "..data"
    before = data.resolve()
    mounted.publish("2")
    assert mounted.path.readlink() == Path("..data/generation")
    assert data.is_symlink()
    assert data.resolve() != before


def test_only_the_current_publication_is_kept(mounted):
    mounted.publish("1")
    mounted.publish("2")
    data = mounted.path.parent / "..data"
    assert set(mounted.path.parent.iterdir()) == {data, data.resolve(), mounted.path}


def test_whoever_has_opened_the_file_reads_what_it_said_then(mounted):
    mounted.publish("1")
    with mounted.path.open() as opened:
        mounted.publish("2")
        assert opened.read() == "1\n"
