"""What a configuration stops and what it doesn't, in words."""

from __future__ import annotations

import pytest
from configurations import IDENTITY, LISTENER, loaded, written

from sidecar.config.explain import Remark, explain

BOTH = "{instance: u, generation: 7}"


def remarks(text: str) -> list[Remark]:
    return explain(loaded(text))


def says(text: str, words: str) -> bool:
    return any(words in remark.text for remark in remarks(text))


def warnings(text: str) -> list[str]:
    """All but the one that every plain listener here gets."""
    return [remark.text for remark in remarks(text) if remark.warning and not remark.text.startswith("without TLS")]


@pytest.mark.parametrize(
    ("listen", "loud"),
    [(":7101", True), ("192.0.2.1:7101", True), ("127.0.0.1:7101", False), ("[::1]:7101", False), ("unix:/x", False)],
)
def test_a_plain_listener_that_others_can_reach_is_warned_of(listen: str, loud: bool) -> None:
    text = written(listener=f"name: a, listen: '{listen}', upstream: '127.0.0.1:2101', tls: none")
    (remark,) = (each for each in remarks(text) if each.text.startswith("without TLS"))
    assert remark.warning == loud


def test_with_tls_it_is_said_who_may_connect() -> None:
    tls = "{certificate: /c, key: /k, client_ca: /a, allow: ['spiffe://x/y/*'], allow_dns: [c1.example.org]}"
    assert says(written(listener=f"{LISTENER}, tls: {tls}"), "one of these names: spiffe://x/y/*, c1.example.org")
    assert not says(written(listener=f"{LISTENER}, tls: {tls}"), "without TLS")


def test_what_each_required_part_stops_is_said() -> None:
    text = written(
        assignment=BOTH, listener=f"{LISTENER}, tls: none, require: [identity, instance, generation, controller]"
    )
    for words in ("another slot", "another pod of this slot", "another launch of this slot", "name their controller"):
        assert says(text, words)
    assert warnings(text) == []


@pytest.mark.parametrize(("assignment", "other"), [("{instance: u}", "generation"), ("{generation: 7}", "instance")])
def test_a_part_that_the_assignment_lacks_is_not_compared(assignment: str, other: str) -> None:
    text = written(assignment=assignment)
    assert says(text, f"refuses a claim that names any {other}: the assignment gives none to compare it with")
    assert warnings(text) == []


def test_identity_alone_stops_no_old_life_and_that_is_a_warning() -> None:
    text = written(assignment=BOTH, more="require: [identity]")
    assert any("stops no old life" in line for line in warnings(text))
    assert says(text, "compares the instance of a claim where it has one")
    assert says(text, "compares the generation of a claim where it has one")


def test_one_required_part_is_enough_to_stop_old_lives() -> None:
    text = written(assignment=BOTH, more="require: [identity, generation]")
    assert warnings(text) == []
    assert says(text, "compares the instance of a claim where it has one")


def test_values_are_fixed_for_the_life_of_the_container() -> None:
    assert says(
        written(assignment=BOTH), "generation and instance from the configuration, fixed for the life of the container"
    )


def test_without_tls_a_claim_is_a_statement_and_not_a_proof() -> None:
    assert says(written(), "a statement and not a proof")


def test_who_may_connect_is_said() -> None:
    assert says(written(), "lets any address connect")
    text = written(listener=f"{LISTENER}, tls: none, sources: [10.0.0.0/8]")
    assert says(text, "lets only addresses in sources connect")
    assert not says(text, "lets any address connect")


def test_what_a_refusal_tells_is_said() -> None:
    assert not says(written(), "answer: full")
    assert says(written(listener=f"{LISTENER}, tls: none, answer: full"), "answer: full")


@pytest.mark.parametrize(
    ("upstream", "warned"), [("10.0.0.1:1", True), ("db:1", True), ("localhost:1", False), ("unix:/x", False)]
)
def test_an_upstream_beyond_loopback_is_a_way_round_and_a_warning(upstream: str, warned: bool) -> None:
    found = warnings(written(listener=f"name: a, listen: ':9', upstream: '{upstream}', tls: none"))
    assert any("beyond loopback" in line for line in found) == warned


def test_every_listener_is_explained_in_its_order() -> None:
    text = f"identity: {IDENTITY}\nassignment: {{generation: 7}}\ntls: none\nlisteners:\n"
    text += "".join(f"  - {{name: '{name}', listen: ':0', upstream: 'localhost:1'}}\n" for name in "ba")
    about = [remark.about for remark in remarks(text)]
    assert list(dict.fromkeys(about)) == ["assignment", "b", "a"]


def test_a_remark_is_one_line_and_a_warning_is_marked() -> None:
    assert str(Remark("a", "does x")) == "a: does x"
    assert str(Remark("a", "does x", warning=True)) == "a: warning: does x"
    for remark in remarks(written(more="require: [identity]")):
        assert len(str(remark).splitlines()) == 1


def test_what_is_read_from_files_is_told_apart_from_what_is_fixed() -> None:
    text = written(assignment="{instance: u, generation: {file: /etc/g}, poll_interval: 5s}")
    assert says(
        text, "instance from the configuration, fixed for the life of the container, and generation from files, looked"
    )
    assert says(text, "looked at every 5 s")
    assert not says(written(assignment="{generation: {file: /etc/g}}"), "fixed for the life")


def test_a_memory_that_stands_in_for_a_silent_authority_is_said() -> None:
    text = written(assignment="{generation: {file: /g}, on_unavailable: last_known, max_age: 5s}")
    assert says(text, "the last known one admits claims that equal it, for 5 s")
    assert not says(written(), "last known")


def test_a_floor_that_ends_with_the_process_is_said() -> None:
    assert says(written(), "the floor lives in memory")
    assert not says(written(more="state_dir: /x"), "the floor lives in memory")


def test_the_shadow_mode_is_a_warning_at_every_start() -> None:
    assert any("stops nothing" in line for line in warnings(written(more="enforcement: shadow")))


def test_one_place_is_said() -> None:
    assert says(written(listener=f"{LISTENER}, tls: none, concurrency: exclusive"), "one connection at a time")


@pytest.mark.parametrize(
    ("more", "words"), [("", "never raises its epoch floor"), (", unsafe_epoch: true", "believes any dialler's epoch")]
)
def test_epochs_that_nothing_proves_are_a_warning(more: str, words: str) -> None:
    listener = f"{LISTENER}, tls: none, require: [identity, epoch, generation]{more}"
    text = written(listener=listener, more="state_dir: /x")
    assert any(words in line for line in warnings(text))
    assert not says(text, "epochs aren't checked")
