"""The section of a listener, and TLS."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sidecar.admission import Requirement
from sidecar.config.listener_model import ListenerSection, TlsSection

LEAST = {"name": "a", "listen": ":1", "upstream": "127.0.0.1:2"}


def test_name_and_both_addresses_are_required_and_nothing_else() -> None:
    required = {name for name, field in ListenerSection.model_fields.items() if field.is_required()}
    assert required == set(LEAST)


def test_the_defaults_hold() -> None:
    listener = ListenerSection.model_validate(LEAST)
    assert (listener.preface, listener.answer, listener.sources, listener.mode) == ("proxy-v2", "verdict", (), 0o660)
    assert (listener.concurrency, listener.epoch_scope, listener.unsafe_epoch) == (None, "", False)
    assert (listener.send_proxy, listener.outer_proxy, listener.ctp) == (False, None, None)
    types = listener.tlvs
    assert (types.identity, types.generation, types.instance) == (0xE5, 0xE6, 0xE7)
    assert (types.epoch, types.controller, types.answer) == (0xE8, 0xE9, 0xEB)
    assert (listener.require, listener.enforcement, listener.reject_delay, listener.tls) == (None, None, None, None)


def test_requirements_are_a_list_of_known_parts() -> None:
    listener = ListenerSection.model_validate({**LEAST, "require": ("identity", "controller")})
    assert listener.require == (Requirement.IDENTITY, Requirement.CONTROLLER)


@pytest.mark.parametrize(
    "more",
    [
        {"require": ()},
        {"require": ("identity", "name")},
        {"tls": "off"},
        {"tls": {"client_cas": "/x"}},
        {"outer_proxy": {}},
        {"outer_proxy": {"from": ()}},
        {"tlvs": {"name": "0x05"}},
        {"sources": "10.0.0.0/8"},
        {"preface": "proxy-v1"},
    ],
)
def test_anything_else_is_refused(more: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ListenerSection.model_validate({**LEAST, **more})


def test_tls_wants_the_newest_version_unless_told_otherwise() -> None:
    tls = TlsSection()
    assert (tls.min_version, tls.crl, tls.allow, tls.allow_dns, tls.trust_domains) == ("1.3", "", (), (), {})
    assert not tls.close_on_certificate_expiry
