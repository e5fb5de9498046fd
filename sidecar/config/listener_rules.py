"""Rules for listeners: among each other, and each with the sections that it takes its defaults from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from sidecar.config.addresses import Handoff, HostPort, UnixPath, is_local, overlap
from sidecar.config.assignment_rules import check_require
from sidecar.config.case import Case, Finding, ListenerRule, Rule
from sidecar.config.effective import enforcement_of, tlv_types
from sidecar.config.listener_model import ListenerSection, TlsSection
from sidecar.config.problems import KeyPath, spell
from sidecar.config.section import Unread
from sidecar.config.tls import tls_of
from sidecar.errors import MalformedValue


def _names_are_unique(case: Case) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, listener in enumerate(case.file.listeners):
        first = seen.setdefault(listener.name, index)
        if first != index:
            yield ("listeners", index, "name"), f"is also the name of listeners[{first}]: each listener needs its own"


def _every_address_is_taken_once(case: Case) -> Iterator[Finding]:
    taken = list(_addresses(case))
    for index, (path, address) in enumerate(taken):
        other = next((other for other, before in taken[:index] if overlap(address, before)), None)
        if other is not None:
            yield path, f"takes the address of {spell(other)}: choose another port or path"


def _addresses(case: Case) -> Iterator[tuple[KeyPath, HostPort | UnixPath]]:
    for index, listener in enumerate(case.file.listeners):
        with suppress(Unread):
            yield ("listeners", index, "listen"), listener.listen
    with suppress(Unread):
        yield ("telemetry", "listen"), case.file.telemetry.listen
    with suppress(Unread):
        yield ("admin", "listen"), case.file.admin.listen


def _shadow_wait_needs_a_shadow(case: Case) -> Iterator[Finding]:
    if not case.changes("shadow_wait"):
        return
    if all(enforcement_of(case.file, listener) != "shadow" for listener in case.file.listeners):
        yield ("shadow_wait",), "has no effect without enforcement: shadow"


def _tls_is_said_aloud(case: Case, path: KeyPath, listener: ListenerSection) -> Iterator[Finding]:
    if tls_of(case.file, listener) is None:
        yield path, 'needs tls, here or at the top; for a listener without TLS write "tls: none"'


def _tls_has_what_it_needs(case: Case, path: KeyPath, listener: ListenerSection) -> Iterator[Finding]:
    tls = tls_of(case.file, listener)
    for key in ("certificate", "key", "client_ca"):
        with suppress(Unread):
            if isinstance(tls, TlsSection) and getattr(tls, key) is None:
                yield (*_tls_path(path, listener), key), "is missing: TLS needs it"


def _tls_says_who_may_connect(case: Case, path: KeyPath, listener: ListenerSection) -> Iterator[Finding]:
    tls = tls_of(case.file, listener)
    if isinstance(tls, TlsSection) and not tls.allow and not tls.allow_dns:
        message = "is missing: say which certificates may connect, here or in allow_dns"
        yield (*_tls_path(path, listener), "allow"), message


def _tls_path(path: KeyPath, listener: ListenerSection) -> KeyPath:
    return (*path, "tls") if isinstance(listener.tls, TlsSection) else ("tls",)


def _a_hand_over_needs_plain_tcp(case: Case, path: KeyPath, listener: ListenerSection) -> Iterator[Finding]:
    if isinstance(listener.upstream, Handoff) and isinstance(tls_of(case.file, listener), TlsSection):
        yield (*path, "upstream"), 'hands descriptors over, which can\'t carry TLS: it needs "tls: none"'


def _what_is_required_can_be_given(case: Case, path: KeyPath, listener: ListenerSection) -> Iterator[Finding]:
    if listener.require is not None:
        yield from check_require(case, (*path, "require"), listener.require)


def _tlv_types_differ(_case: Case, path: KeyPath, listener: ListenerSection) -> Iterator[Finding]:
    try:
        tlv_types(listener.tlvs)
    except MalformedValue:  # its words hold the numbers, which may have come from variables
        yield (*path, "tlvs"), "needs a different type for each part, and none that the header itself uses: 0x03, 0x04"


def _a_mode_needs_a_path(case: Case, path: KeyPath, listener: ListenerSection) -> Iterator[Finding]:
    if isinstance(listener.listen, HostPort) and case.changes(*path, "mode"):
        yield (*path, "mode"), "has no effect: only unix:/path listeners have a mode"


def _sources_need_addresses(_case: Case, path: KeyPath, listener: ListenerSection) -> Iterator[Finding]:
    if isinstance(listener.listen, UnixPath) and listener.sources:
        yield (*path, "sources"), "would refuse everybody: peers of a unix:/path listener have no address"


def _ctp_needs_its_preface(_case: Case, path: KeyPath, listener: ListenerSection) -> Iterator[Finding]:
    if listener.ctp is not None and listener.preface != "ctp":
        yield (*path, "ctp"), "has no effect without preface: ctp"


def _upstream_is_elsewhere(case: Case, path: KeyPath, listener: ListenerSection) -> Iterator[Finding]:
    upstream = listener.upstream
    if isinstance(upstream, Handoff) or not is_local(upstream):
        return
    for index, other in enumerate(case.file.listeners):
        if overlap(upstream, other.listen):
            yield (*path, "upstream"), f"is where listeners[{index}] itself listens: connections would go in circles"


RULES: Final[tuple[Rule, ...]] = (_names_are_unique, _every_address_is_taken_once, _shadow_wait_needs_a_shadow)
EACH: Final[tuple[ListenerRule, ...]] = (
    _tls_is_said_aloud,
    _tls_has_what_it_needs,
    _tls_says_who_may_connect,
    _a_hand_over_needs_plain_tcp,
    _what_is_required_can_be_given,
    _tlv_types_differ,
    _a_mode_needs_a_path,
    _sources_need_addresses,
    _ctp_needs_its_preface,
    _upstream_is_elsewhere,
)
