"""What the benchmarks ran on, as far as it bears on the numbers. Called by ``__main__``."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Mapping
from pathlib import Path


def machine() -> Mapping[str, str]:
    """Processor, kernel and limits, by name, in the order of the page."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {
        "processor": f"{_line_of('/proc/cpuinfo', 'model name')}, {os.cpu_count()} cores",
        "memory": f"{int(_line_of('/proc/meminfo', 'MemTotal').split()[0]) >> 20} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "descriptors": f"{soft} of {hard}",
        "pipes for a user": f"{Path('/proc/sys/fs/pipe-user-pages-soft').read_text().strip()} pages",
    }


def use_all_descriptors() -> None:
    """Raise the limit to what is allowed, for this process and those that it starts."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _line_of(path: str, key: str) -> str:
    """The value behind *key* in one of the kernel's tables."""
    for line in Path(path).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return "unknown"
