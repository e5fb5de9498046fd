"""Pipes: a bounded number, used again, and none that is too small to be of use."""

import fcntl
import os

import pytest

from sidecar.relay import pipes
from sidecar.relay.pipes import PIPE_SIZE, PipePool
from tests.turns import descriptors


def test_there_are_as_many_as_the_pool_may_have():
    pool = PipePool(2)
    first, second = pool.take(), pool.take()
    assert first is not None
    assert second is not None
    assert pool.take() is None
    pool.give_back(first, empty=True)
    assert pool.take() == first
    assert pool.out == 2
    for pipe in (first, second):
        pool.give_back(pipe, empty=False)
    assert pool.out == 0


def test_one_that_holds_somebodys_bytes_is_closed_and_an_empty_one_kept():
    before = descriptors()
    pool = PipePool(4)
    empty, full = pool.take(), pool.take()
    os.write(full.write, b"somebody's")
    pool.give_back(full, empty=False)
    pool.give_back(empty, empty=True)
    assert descriptors() == before + 2
    pool.close()
    assert descriptors() == before


def test_it_is_large_and_does_not_block():
    pool = PipePool(1)
    pipe = pool.take()
    assert fcntl.fcntl(pipe.write, fcntl.F_GETPIPE_SZ) == pipe.size >= min(PIPE_SIZE, 65536)
    with pytest.raises(BlockingIOError):
        os.read(pipe.read, 1)
    pool.give_back(pipe, empty=True)
    pool.close()


def test_of_a_user_who_gets_only_tiny_ones_none_is_taken(monkeypatch):
    """As the kernel does beyond pipe-user-pages-soft: no larger one is allowed, and new ones have two pages."""
    real = fcntl.fcntl

    def tiny(fd, command, *rest):
        if command == fcntl.F_SETPIPE_SZ:
            raise PermissionError
        return 8192 if command == fcntl.F_GETPIPE_SZ else real(fd, command, *rest)

    monkeypatch.setattr(pipes.fcntl, "fcntl", tiny)
    before = descriptors()
    pool = PipePool(4)
    assert pool.take() is None
    assert pool.out == 0
    assert descriptors() == before


def test_without_descriptors_there_is_none(monkeypatch):
    def none_left(_flags):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(pipes.os, "pipe2", none_left)
    pool = PipePool(4)
    assert pool.take() is None
    assert pool.out == 0
