"""Certificates are rotated under a running sidecar: no handshake fails, and what is bad is never served."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from OpenSSL import SSL
from processes import eventually
from replica import SIDECAR, LocalProcess, Sidecar, configuration
from tls_client import ALLOW, ROOT, TlsClient, connected, tls_block, write_pair

from tests.certificates import HOUR
from tests.tls_volumes import ROOT as VOLUME_ROOT
from tests.tls_volumes import publish

CLIENT = ROOT.issue()


class Diallers:
    """Two controllers that connect again and again, each as soon as it was admitted and has left."""

    def __init__(self, sidecar: Sidecar, local_process: LocalProcess, root=ROOT) -> None:
        self._sidecar, self._local_process, self._leaf = sidecar, local_process, root.issue()
        self._stop = threading.Event()
        self.serials: list[int] = []
        self.failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._dial) for _ in range(2)]

    def _dial(self) -> None:
        while not self._stop.is_set():
            try:
                with connected(self._sidecar.connect(), self._leaf) as client:
                    assert client.state().admitted
                    self.serials.append(client.serial)
            except BaseException as failure:  # noqa: BLE001  told to the test
                self.failures.append(failure)

    def _accept(self) -> None:
        while not self._stop.is_set():
            if not self._local_process.untouched:
                self._local_process.accept().close()

    def __enter__(self):
        self._threads.append(threading.Thread(target=self._accept))
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for each in self._threads:
            each.join()

    def see(self, serial: int) -> bool:
        """Whether *serial* is served within a few seconds."""
        seen = len(self.serials)
        return eventually(lambda: serial in self.serials[seen:] or serial in self.serials[-4:])


def test_three_rotations_by_a_swapped_link_fail_no_handshake(
    start: Callable[..., Sidecar], own_local_process: LocalProcess, tmp_path: Path
) -> None:
    volume = tmp_path / "tls"
    files = publish(volume, VOLUME_ROOT.issue(), 0)
    block = {"certificate": str(files.certificate), "key": str(files.key), "client_ca": str(files.client_ca)}
    sidecar = start(listener={"tls": block | {"allow": [ALLOW]}})
    with Diallers(sidecar, own_local_process, VOLUME_ROOT) as diallers:
        for number in range(1, 4):
            leaf = VOLUME_ROOT.issue(end=HOUR + number)
            publish(volume, leaf, number)
            assert diallers.see(leaf.certificate.serial_number)
            expiry = leaf.certificate.not_valid_after_utc.timestamp()
            assert sidecar.scrape().total("certificate_expiry_timestamp_seconds", kind="served") == expiry
    assert diallers.failures == []
    assert sidecar.scrape().total("tls_reloads_total", result="ok") == 3
    assert sidecar.scrape().total("tls_reloads_total", result="failed") == 0


def test_a_certificate_and_then_its_key_fail_no_handshake(
    start: Callable[..., Sidecar], own_local_process: LocalProcess, tmp_path: Path
) -> None:
    sidecar = start(listener={"tls": tls_block(tmp_path, ROOT.issue())})
    leaf = ROOT.issue()
    with Diallers(sidecar, own_local_process) as diallers:
        (tmp_path / "tls.crt").write_bytes(leaf.chain_pem)
        seen = len(diallers.serials)
        assert eventually(lambda: len(diallers.serials) > seen + 20)  # handshakes go on in between
        assert leaf.certificate.serial_number not in diallers.serials
        (tmp_path / "tls.key").write_bytes(leaf.key_pem)
        assert diallers.see(leaf.certificate.serial_number)
    assert diallers.failures == []


def test_a_bad_pair_leaves_the_old_one_served_and_is_counted_and_named(
    start: Callable[..., Sidecar], own_local_process: LocalProcess, tmp_path: Path
) -> None:
    old = ROOT.issue(end=2 * HOUR)
    sidecar = start(listener={"tls": tls_block(tmp_path, old)})
    (tmp_path / "tls.key").write_bytes(ROOT.issue().key_pem)
    assert eventually(lambda: sidecar.lines("certificate_refused"))
    (line,) = sidecar.lines("certificate_refused")
    assert line["problems"] == [f"{tmp_path}/tls.key: isn't the key of the certificate in {tmp_path}/tls.crt"]
    scrape = sidecar.scrape()
    assert scrape.total("tls_reloads_total", result="failed") == 1
    expiry = old.certificate.not_valid_after_utc.timestamp()
    assert scrape.total("certificate_expiry_timestamp_seconds", kind="served") == expiry
    with connected(sidecar.connect(), CLIENT) as client:
        assert client.serial == old.certificate.serial_number
        assert client.state().admitted
        own_local_process.accept().close()


def test_a_certificate_of_the_near_future_is_served_when_it_starts(
    start: Callable[..., Sidecar], tmp_path: Path
) -> None:
    old = ROOT.issue()
    sidecar = start(listener={"tls": tls_block(tmp_path, old)})
    new = ROOT.issue(start=8)
    write_pair(tmp_path, new)
    assert eventually(lambda: sidecar.lines("certificate_waits"))
    assert served(sidecar) == old.certificate.serial_number
    assert eventually(lambda: served(sidecar) == new.certificate.serial_number, seconds=30)


def served(sidecar: Sidecar) -> int:
    with connected(sidecar.connect(), CLIENT) as client:
        return client.serial


def test_a_sighup_looks_at_the_files_again_and_says_again_what_is_wrong(
    start: Callable[..., Sidecar], tmp_path: Path
) -> None:
    sidecar = start(listener={"tls": tls_block(tmp_path, ROOT.issue())})
    (tmp_path / "ca.crt").write_bytes(ROOT.pem + b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    assert eventually(lambda: len(sidecar.lines("certificate_refused")) == 1)
    assert "block 2" in sidecar.lines("certificate_refused")[0]["problems"][0]
    sidecar.page("/reload", method="POST", admin=True)
    assert eventually(lambda: len(sidecar.lines("certificate_refused")) == 2)


def test_a_new_root_beside_the_old_one_lets_the_peers_of_both_in(
    start: Callable[..., Sidecar], own_local_process: LocalProcess, tmp_path: Path
) -> None:
    old, new = ROOT, VOLUME_ROOT
    bundle = b"# the old one\r\n" + old.pem.replace(b"\n", b"\r\n") + b"\n# the new one\n" + new.pem
    sidecar = start(listener={"tls": tls_block(tmp_path, ROOT.issue(), roots=bundle)})
    for root in (old, new):
        with connected(sidecar.connect(), root.issue()) as client:
            assert client.state().admitted
            own_local_process.accept().close()


def test_without_a_certificate_in_date_the_sidecar_isnt_ready_and_says_so(
    start: Callable[..., Sidecar], tmp_path: Path
) -> None:
    sidecar = start(listener={"tls": tls_block(tmp_path, ROOT.issue(start=HOUR, end=2 * HOUR))})
    page = sidecar.page("/readyz")
    assert page.status == 503
    assert "no certificate in date" in page.body
    with sidecar.counting(tls_failed=1), sidecar.connect() as sock, pytest.raises(SSL.Error):
        TlsClient(sock, CLIENT)
    write_pair(tmp_path, ROOT.issue())
    assert eventually(lambda: sidecar.page("/readyz").status == 200)


def test_files_that_cant_be_used_end_the_start_and_are_all_named(tmp_path: Path) -> None:
    block = tls_block(tmp_path, ROOT.issue())
    (tmp_path / "tls.key").unlink()
    (tmp_path / "ca.crt").write_bytes(b"")
    file = tmp_path / "sidecar.yaml"
    file.write_text(yaml.safe_dump(configuration("127.0.0.1:1", listener={"tls": block})))
    done = subprocess.run([*SIDECAR, "run", str(file)], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert f"{tmp_path}/tls.key: doesn't exist" in done.stderr
    assert f"{tmp_path}/ca.crt: holds no certificate" in done.stderr
    assert "Traceback" not in done.stderr
