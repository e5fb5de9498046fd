from __future__ import annotations

import threading
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding

from sidecar.errors import StartError
from sidecar.tls.contexts import server_context
from sidecar.tls.files import read_files
from sidecar.tls.rotation import CLOSER, INTERVAL, SETTLED, Rotation
from tests.certificates import CA, HOUR, now, pem
from tests.tls_handshakes import plain_client, shake
from tests.tls_volumes import ROOT, named, publish, write_all


@pytest.fixture
def fast_clock():
    """Threads need real time, so time can't jump; it passes 20 times as fast."""
    return trio.testing.MockClock(rate=20)


async def until(holds):
    """Wait for what a thread's work brings about: nothing here tells when it has."""
    with trio.fail_after(100):
        while not holds():
            await trio.sleep(CLOSER)


class RecordingWitness:
    """Keeps what it was told, and when."""

    def __init__(self):
        self.told = []
        self.news = trio.Event()

    def _hear(self, what, value):
        self.told.append((what, value, trio.current_time()))
        self.news.set()
        self.news = trio.Event()

    def swapped(self, served, before):
        self._hear("swapped", (served, before))

    def refused(self, problems):
        self._hear("refused", problems)

    def waits(self, start):
        self._hear("waits", start)

    def broken(self, error):
        self._hear("broken", error)

    def all(self, what):
        return [value for each, value, _ in self.told if each == what]

    async def nth(self, what, count):
        """The value of the *count*-th event of this kind, and when it came."""
        with trio.fail_after(60):
            while len(found := [(value, at) for each, value, at in self.told if each == what]) < count:
                await self.news.wait()
        return found[count - 1]


class Clock:
    def __init__(self):
        self.time = now()

    def __call__(self):
        return self.time


@asynccontextmanager
async def rotating(files, build=server_context, **more):
    witness, clock = RecordingWitness(), Clock()
    rotation = Rotation(files, build=build, witness=witness, wall_clock=clock, **more)
    await rotation.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rotation.run)
        yield rotation, witness, clock
        nursery.cancel_scope.cancel()


def serial(rotation):
    """Of the certificate that a client sees now, in a handshake that succeeds."""
    found = shake(rotation.served.context, plain_client(ROOT.issue(), ROOT))
    assert found.succeeded
    return found.client.get_peer_certificate(as_cryptography=True).serial_number


def serial_of(leaf):
    return leaf.certificate.serial_number


class CountedReads:
    """Reads files, and counts."""

    def __init__(self):
        self.count = 0
        self.fault = None

    def __call__(self, paths):
        self.count += 1
        if self.fault:
            raise self.fault
        return read_files(paths)

    async def more(self, readings):
        """Wait for some more readings."""
        target = self.count + readings
        await until(lambda: self.count >= target)


async def test_everything_is_served_once_it_is_started(fast_clock, tmp_path):
    leaf = ROOT.issue()
    async with rotating(write_all(tmp_path, leaf)) as (rotation, witness, _):
        assert serial(rotation) == serial_of(leaf)
        assert rotation.served.not_before == leaf.certificate.not_valid_before_utc.timestamp()
        assert rotation.served.not_after == leaf.certificate.not_valid_after_utc.timestamp()
        assert rotation.served.ca_not_after == ROOT.certificate.not_valid_after_utc.timestamp()
        assert rotation.problems == ()
        assert witness.all("swapped") == [(rotation.served, None)]


async def test_three_publications_in_a_row_are_served_and_no_handshake_fails(fast_clock, tmp_path):
    async with rotating(publish(tmp_path, ROOT.issue(), 0)) as (rotation, witness, _):
        for number in range(1, 4):
            leaf = ROOT.issue()
            publish(tmp_path, leaf, number)
            published = trio.current_time()
            await until(lambda leaf=leaf: serial(rotation) == serial_of(leaf))
            assert trio.current_time() - published < 20 * INTERVAL  # a busy machine; as a rule it is 1.1
        assert len(witness.all("swapped")) == 4
        assert witness.all("refused") == []


async def test_a_certificate_whose_key_comes_later_is_no_fault(fast_clock, tmp_path):
    files = write_all(tmp_path, ROOT.issue())
    counted = CountedReads()
    async with rotating(files, read=counted) as (rotation, witness, _):
        before = rotation.served
        leaf = ROOT.issue()
        files.certificate.write_bytes(leaf.chain_pem)
        await until(lambda: rotation.problems)
        assert rotation.served is before
        files.key.write_bytes(leaf.key_pem)
        await witness.nth("swapped", 2)
        assert serial(rotation) == serial_of(leaf)
        assert rotation.problems == ()


async def test_a_pair_that_stays_bad_is_refused_once_and_the_old_one_is_kept(fast_clock, tmp_path):
    first = ROOT.issue()
    files = write_all(tmp_path, first)
    counted = CountedReads()
    async with rotating(files, read=counted) as (rotation, witness, _):
        written = trio.current_time()
        files.certificate.write_bytes(ROOT.issue().chain_pem)
        problems, at = await witness.nth("refused", 1)
        assert problems == (f"{files.key}: isn't the key of the certificate in {files.certificate}",)
        assert at - written >= SETTLED
        await counted.more(3)
        assert len(witness.all("refused")) == 1
        assert serial(rotation) == serial_of(first)


async def test_a_poke_says_again_what_is_wrong(fast_clock, tmp_path):
    files = write_all(tmp_path, ROOT.issue())
    async with rotating(files) as (rotation, witness, _):
        files.key.unlink()
        await witness.nth("refused", 1)
        rotation.poke()
        problems, _ = await witness.nth("refused", 2)
        assert problems == rotation.problems == (f"{files.key}: doesn't exist",)


async def test_a_poke_reads_at_once(tmp_path):
    counted = CountedReads()
    clock = trio.testing.MockClock()  # stands still: no interval ever passes

    async def poked():
        async with rotating(write_all(tmp_path, ROOT.issue()), read=counted) as (rotation, _, _):
            before = counted.count
            rotation.poke()
            while counted.count == before:
                await trio.testing.wait_all_tasks_blocked()

    await trio.to_thread.run_sync(partial(trio.run, poked, clock=clock))


async def test_a_bad_pair_that_is_repaired_is_served(fast_clock, tmp_path):
    files = write_all(tmp_path, ROOT.issue())
    async with rotating(files) as (rotation, witness, _):
        files.key.write_bytes(b"")
        await witness.nth("refused", 1)
        leaf = ROOT.issue()
        write_all(tmp_path, leaf)
        await witness.nth("swapped", 2)
        assert serial(rotation) == serial_of(leaf)


async def test_a_bad_pair_holds_up_no_new_list(fast_clock, tmp_path):
    write_all(tmp_path, ROOT.issue())
    crl, revoked = tmp_path / "crl.pem", ROOT.issue()
    crl.write_bytes(pem(ROOT.crl()))
    files = named(tmp_path, crl=crl)
    async with rotating(files) as (rotation, witness, _):
        assert shake(rotation.served.context, plain_client(revoked)).succeeded
        files.key.write_bytes(b"")
        crl.write_bytes(pem(ROOT.crl(revoked)))
        (served, before), _ = await witness.nth("swapped", 2)
        assert not shake(served.context, plain_client(revoked)).succeeded
        assert served.material.crls.revoke(*before.peers.of(_verified(before, revoked)).revocable)
        assert serial(rotation)  # everybody else is served


def _verified(served, leaf):
    found = shake(served.context, plain_client(leaf))
    assert found.succeeded
    return found.server


async def test_a_new_root_is_taken(fast_clock, tmp_path):
    files, new = write_all(tmp_path, ROOT.issue()), CA("new")
    async with rotating(files) as (rotation, witness, _):
        assert not shake(rotation.served.context, plain_client(new.issue())).succeeded
        files.client_ca.write_bytes(ROOT.pem + new.pem)
        await witness.nth("swapped", 2)
        assert shake(rotation.served.context, plain_client(new.issue())).succeeded
        assert shake(rotation.served.context, plain_client(ROOT.issue())).succeeded


async def test_a_bundle_that_loses_its_end_is_refused_whole(fast_clock, tmp_path):
    files, other = write_all(tmp_path, ROOT.issue()), CA("other")
    files.client_ca.write_bytes(ROOT.pem + other.pem)
    async with rotating(files) as (rotation, witness, _):
        files.client_ca.write_bytes((ROOT.pem + other.pem)[:-40])
        problems, _ = await witness.nth("refused", 1)
        assert "block 2" in problems[0]
        assert shake(rotation.served.context, plain_client(other.issue())).succeeded


async def test_a_bundle_seen_half_written_is_never_taken(fast_clock, tmp_path):
    files, other = write_all(tmp_path, ROOT.issue()), CA("other")
    before = read_files(files.paths)
    half = {**before, files.client_ca: other.pem}  # a whole bundle, to look at
    after = {**before, files.client_ca: other.pem + ROOT.pem}
    readings = [before, before, half, after]

    def read(paths):
        return readings.pop(0) if readings else after

    async with rotating(files, read=read) as (_, witness, _):
        (served, _), _ = await witness.nth("swapped", 2)
        assert served.material.roots.certificates == (other.certificate, ROOT.certificate)


async def test_other_text_around_the_same_blocks_changes_nothing(fast_clock, tmp_path):
    files = write_all(tmp_path, ROOT.issue())
    counted = CountedReads()
    async with rotating(files, read=counted) as (rotation, _, _):
        before = rotation.served
        files.client_ca.write_bytes(b"# ours\n" + ROOT.pem)
        await counted.more(4)
        assert rotation.served is before


async def test_a_pair_of_tomorrow_is_served_when_it_starts(fast_clock, tmp_path):
    first, tomorrow = ROOT.issue(), ROOT.issue(start=20)
    files = write_all(tmp_path, first)
    async with rotating(files) as (rotation, witness, clock):
        write_all(tmp_path, tomorrow)
        start, _ = await witness.nth("waits", 1)
        assert serial(rotation) == serial_of(first)
        clock.time = start
        (served, _), _ = await witness.nth("swapped", 2)
        assert served.material.own.chain == tomorrow.chain
        assert witness.all("waits") == [start]
        assert witness.all("refused") == []


async def test_where_the_only_pair_starts_later_nothing_is_served_until_then(fast_clock, tmp_path):
    leaf = ROOT.issue(start=20)
    async with rotating(write_all(tmp_path, leaf)) as (rotation, witness, clock):
        assert rotation.served is None
        clock.time += HOUR / 2
        await witness.nth("swapped", 1)
        assert rotation.served.material.own.chain == leaf.chain


async def test_an_expired_pair_on_disk_is_refused_and_the_better_one_kept(fast_clock, tmp_path):
    first = ROOT.issue()
    files = write_all(tmp_path, first)
    async with rotating(files) as (rotation, witness, _):
        write_all(tmp_path, ROOT.issue(end=-60))
        problems, _ = await witness.nth("refused", 1)
        assert problems[0].startswith(f"{files.certificate}: the certificate expired at ")
        assert serial(rotation) == serial_of(first)


async def test_a_key_that_openssl_doesnt_serve_is_refused(fast_clock, tmp_path):
    files = write_all(tmp_path, ROOT.issue())
    async with rotating(files) as (_, witness, _):
        write_all(tmp_path, ROOT.issue(key=rsa.generate_private_key(65537, 1024)))
        problems, _ = await witness.nth("refused", 1)
        assert problems == (f"{files.certificate}: OpenSSL refuses it: ee key too small",)


async def test_a_list_that_openssl_doesnt_take_is_refused_and_the_old_one_kept(fast_clock, tmp_path):
    write_all(tmp_path, ROOT.issue())
    crl, revoked = tmp_path / "crl.pem", ROOT.issue()
    crl.write_bytes(pem(ROOT.crl(revoked)))
    number = bytes.fromhex("0403020101")  # its number, which is then no integer
    damaged = ROOT.crl().public_bytes(Encoding.DER).replace(number, bytes.fromhex("0403030101"))
    async with rotating(named(tmp_path, crl=crl)) as (rotation, witness, _):
        crl.write_bytes(pem(x509.load_der_x509_crl(damaged)))
        problems, _ = await witness.nth("refused", 1)
        assert problems[0].startswith(f"{crl}: OpenSSL refuses it: ")
        assert not shake(rotation.served.context, plain_client(revoked)).succeeded


async def test_a_fault_of_ours_ends_nothing(fast_clock, tmp_path):
    leaf = ROOT.issue()
    files = write_all(tmp_path, ROOT.issue())
    counted = CountedReads()
    async with rotating(files, read=counted) as (rotation, witness, _):
        counted.fault = fault = RuntimeError("can't start new thread")
        assert (await witness.nth("broken", 1))[0] is fault
        await counted.more(3)
        assert witness.all("broken") == [fault]  # once, and not once a second
        counted.fault = None
        write_all(tmp_path, leaf)
        await witness.nth("swapped", 2)
        assert serial(rotation) == serial_of(leaf)


async def test_what_was_read_in_a_broken_moment_is_judged_afterwards(fast_clock, tmp_path):
    files, builds = write_all(tmp_path, ROOT.issue()), []

    def build(material):
        builds.append(material)
        if len(builds) == 2:
            raise MemoryError
        return server_context(material)

    async with rotating(files, build=build) as (rotation, witness, _):
        leaf = ROOT.issue()
        write_all(tmp_path, leaf)
        await witness.nth("broken", 1)
        await witness.nth("swapped", 2)
        assert serial(rotation) == serial_of(leaf)


async def start_of(files):
    with trio.fail_after(100):
        async with rotating(files):
            pytest.fail("it has started")


async def test_bad_files_end_the_start_with_everything_that_is_wrong(fast_clock, tmp_path):
    files = write_all(tmp_path, ROOT.issue())
    files.key.unlink()
    files.client_ca.write_bytes(b"")
    began = trio.current_time()
    with pytest.raises(StartError, match=r"tls.key: doesn't exist\n.*ca.crt: holds no certificate"):
        await start_of(files)
    assert trio.current_time() - began >= SETTLED


async def test_files_that_come_a_moment_after_the_start_are_waited_for(fast_clock, tmp_path):
    leaf = ROOT.issue()
    files = write_all(tmp_path, leaf)
    files.key.unlink()
    counted = CountedReads()

    async def write_the_key():
        await counted.more(1)
        files.key.write_bytes(leaf.key_pem)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write_the_key)
        async with rotating(files, read=counted) as (rotation, _, _):
            assert serial(rotation) == serial_of(leaf)


async def test_a_file_system_that_hangs_holds_up_neither_the_loop_nor_the_end(fast_clock, tmp_path):
    files = write_all(tmp_path, ROOT.issue())
    hangs, goes_on = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()
    seen = []

    def read(paths):
        if seen:
            token.run_sync_soon(hangs.set)
            goes_on.wait()
        seen.append(paths)
        return read_files(paths)

    try:
        async with rotating(files, read=read) as (rotation, _, _):
            await hangs.wait()
            assert serial(rotation)
    finally:
        goes_on.set()
