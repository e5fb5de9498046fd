"""The configuration as the rest of the program sees it."""

from __future__ import annotations

import dataclasses
from ipaddress import ip_network

import pytest
from configurations import IDENTITY, LISTENER, examined, loaded, written

from sidecar.admission import Requirement
from sidecar.config.addresses import HostPort, UnixPath
from sidecar.config.effective import enforcement_of, max_staleness, required_parts, resolve
from sidecar.identity import Generation, Identity, Instance
from sidecar.preface.claim import TlvTypes

PLAIN = f"{LISTENER}, tls: none"
IDENTITY_ALONE = frozenset({Requirement.IDENTITY})


def test_everything_is_a_value_of_its_own_type() -> None:
    config = loaded(
        written(
            assignment="{instance: u, generation: 7, timeout: 1s}",
            listener=f"{PLAIN}, answer: full, sources: ['::1'], tlvs: {{identity: '0x05'}}",
        )
    )
    assert config.identity == Identity("prod-eu", "replica-a", 2)
    assert (config.assignment.instance, config.assignment.generation) == (Instance("u"), Generation(7))
    assert (config.assignment.timeout, config.assignment.revalidate_interval) == (1.0, 10.0)
    [listener] = config.listeners
    assert (listener.name, listener.answer) == ("compute", "full")
    assert (listener.listen, listener.upstream) == (HostPort(None, 7101), HostPort("127.0.0.1", 2101))
    assert listener.sources == (ip_network("::1"),)
    assert listener.tlvs == TlvTypes(identity=0x05)


def test_an_upstream_may_be_a_path() -> None:
    config = loaded(written(listener="name: a, listen: ':1', upstream: 'unix:/x', tls: none"))
    assert config.listeners[0].upstream == UnixPath("/x")


def test_listeners_keep_their_order() -> None:
    text = f"identity: {IDENTITY}\nassignment: {{generation: 7}}\ntls: none\nlisteners:\n"
    text += "".join(f"  - {{name: '{name}', listen: ':0', upstream: 'a:1'}}\n" for name in "cab")
    assert [listener.name for listener in loaded(text).listeners] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("assignment", "parts"),
    [
        ("{instance: u}", {"identity", "instance"}),
        ("{generation: 7}", {"identity", "generation"}),
        ("{instance: u, generation: 7}", {"identity", "instance", "generation"}),
    ],
)
def test_a_claim_must_carry_every_part_that_the_assignment_gives(assignment: str, parts: set[str]) -> None:
    assert loaded(written(assignment=assignment)).listeners[0].require == parts


def test_a_list_of_requirements_replaces_the_default_and_a_listeners_own_replaces_that() -> None:
    both = "{instance: u, generation: 7}"
    assert loaded(written(assignment=both, more="require: [identity]")).listeners[0].require == IDENTITY_ALONE
    own = f"{PLAIN}, require: [identity, controller]"
    config = loaded(written(assignment=both, listener=own, more="require: [identity]"))
    assert config.listeners[0].require == {Requirement.IDENTITY, Requirement.CONTROLLER}


def test_ctp_has_no_place_for_an_incarnation() -> None:
    case, _ = examined(written(listener=f"{PLAIN}, preface: ctp"))
    assert required_parts(case.file, case.file.listeners[0]) == IDENTITY_ALONE


def test_a_registrys_record_has_both_parts() -> None:
    case, _ = examined(written(assignment="{registry: 'sqlite:///x', instance: u}"))
    assert required_parts(case.file, case.file.listeners[0]) == {"identity", "instance", "generation"}


@pytest.mark.parametrize(
    ("assignment", "seconds"),
    [
        ("{generation: 7}", None),
        ("{generation: 7, max_staleness: 20s}", 20.0),
        ("{registry: 'sqlite:///x', instance: u}", 30.0),
        ("{registry: 'sqlite:///x', instance: u, max_staleness: never}", None),
    ],
)
def test_silence_has_a_limit_by_default_where_a_registry_is_asked(assignment: str, seconds: float | None) -> None:
    case, _ = examined(written(assignment=assignment))
    assert max_staleness(case.file.assignment) == seconds


def test_a_listeners_enforcement_replaces_the_default() -> None:
    case, _ = examined(written(listener=f"{PLAIN}, enforcement: shadow"))
    assert enforcement_of(case.file, case.file.listeners[0]) == "shadow"
    case, _ = examined(written(more="enforcement: shadow"))
    assert enforcement_of(case.file, case.file.listeners[0]) == "shadow"


def test_a_configuration_cant_be_changed() -> None:
    config = loaded(written())
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.hash = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    "text",
    [
        written(identity="{cluster: a}"),
    ],
)
def test_what_didnt_pass_the_checks_isnt_resolved_by_mistake(text: str) -> None:
    case, _ = examined(text)
    with pytest.raises(TypeError, match="got past the checks"):
        resolve(case.file, "x")
