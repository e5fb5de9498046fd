"""Directories of certificates, as Kubernetes and others write them."""

from __future__ import annotations

from pathlib import Path

from sidecar.tls.files import TlsFiles
from tests.certificates import CA

ROOT = CA()
NAMES = ("tls.crt", "tls.key", "ca.crt")


def write_all(directory: Path, leaf) -> TlsFiles:
    directory.mkdir(exist_ok=True)
    (directory / "tls.crt").write_bytes(leaf.chain_pem)
    (directory / "tls.key").write_bytes(leaf.key_pem)
    (directory / "ca.crt").write_bytes(ROOT.pem)
    return named(directory)


def named(directory: Path, **more) -> TlsFiles:
    return TlsFiles(directory / "tls.crt", directory / "tls.key", directory / "ca.crt", **more)


def publish(volume: Path, leaf, number: int) -> TlsFiles:
    """As the kubelet does it: a new directory, and ``..data`` renamed to point to it."""
    volume.mkdir(exist_ok=True)
    write_all(volume / f"..{number}", leaf)
    (volume / "..data_tmp").symlink_to(f"..{number}")
    (volume / "..data_tmp").rename(volume / "..data")
    for name in NAMES:
        if not (volume / name).is_symlink():
            (volume / name).symlink_to(f"..data/{name}")
    return named(volume)
