"""SPIFFE IDs: strictly read, matched segment by segment, and what their paths name."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.errors import MalformedValue
from sidecar.identity import ControllerName, Generation, Identity
from sidecar.spiffe import MAX_LENGTH, NamedController, NamedSlot, Pattern, SpiffeId, named, parse_trust_domain

TRUST_DOMAINS = st.text("az09._-", min_size=1, max_size=8)
SEGMENTS = st.text("azAZ09._-", min_size=1, max_size=4).filter(lambda text: text not in {".", ".."})
IDS = st.builds(SpiffeId, TRUST_DOMAINS, st.lists(SEGMENTS, min_size=1, max_size=6).map(tuple))
LONGEST = "spiffe://example.org/" + "x" * (MAX_LENGTH - len("spiffe://example.org/"))

# A few letters only, so that names and patterns often meet.
FEW = st.sampled_from("ab")
FEW_IDS = st.builds(SpiffeId, FEW, st.lists(FEW, min_size=1, max_size=4).map(tuple))
FEW_PATTERNS = st.builds(
    Pattern, FEW, st.lists(st.sampled_from("ab*"), min_size=1, max_size=4).map(tuple), st.booleans()
)


def meaning(path):
    return named(SpiffeId.parse(f"spiffe://example.org{path}"))


@given(IDS)
def test_every_id_is_read_back_as_it_was_written(spiffe_id):
    assert SpiffeId.parse(str(spiffe_id)) == spiffe_id


@pytest.mark.parametrize(
    "text",
    [
        "spiffe://example.org/a",
        "spiffe://example.org/prod-eu/controller/main",
        "spiffe://a/b/c/d/e/f",
        "spiffe://under_score.9-x/A.b_c-D/...",
        "spiffe://-/-",
        f"spiffe://{'d' * 255}/a",
        LONGEST,
    ],
)
def test_an_id_in_the_standards_form_is_kept_as_it_is(text):
    assert str(SpiffeId.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "begin with"),
        ("example.org/a", "begin with"),
        ("https://example.org/a", "begin with"),
        ("SPIFFE://example.org/a", "begin with"),
        (" spiffe://example.org/a", "begin with"),
        ("spiffe:/example.org/a", "begin with"),
        ("spiffe:///a", "trust domain"),
        ("spiffe://Example.org/a", "trust domain"),
        ("spiffe://user@example.org/a", "trust domain"),
        ("spiffe://example.org:443/a", "trust domain"),
        ("spiffe://ex%61mple.org/a", "trust domain"),
        ("spiffe://exämple.org/a", "trust domain"),
        ("spiffe://[::1]/a", "trust domain"),
        ("spiffe://example.org\0/a", "trust domain"),
        ("spiffe://example.org?/a", "trust domain"),
        ("spiffe://*/a", "trust domain"),
        (f"spiffe://{'d' * 256}/a", "trust domain"),
        ("spiffe://example.org", "must have a path"),
        ("spiffe://example.org/", "no slash at its end"),
        ("spiffe://example.org/a/", "no slash at its end"),
        ("spiffe://example.org//a", "no empty segment"),
        ("spiffe://example.org/a//b", "no empty segment"),
        ("spiffe://example.org/./a", "segment ."),
        ("spiffe://example.org/a/..", "segment ."),
        ("spiffe://example.org/a/%2e%2e", "percent-encoding"),
        ("spiffe://example.org/a%2Fb", "percent-encoding"),
        ("spiffe://example.org/a?b=c", "query"),
        ("spiffe://example.org/a#b", "fragment"),
        ("spiffe://example.org/a b", "path must be of"),
        ("spiffe://example.org/a\n", "path must be of"),
        ("spiffe://example.org/a\0", "path must be of"),
        ("spiffe://example.org/*", "path must be of"),
        ("spiffe://example.org/caf\u00e9", "path must be of"),
        ("spiffe://example.org/\u0662", "path must be of"),
        (LONGEST + "x", "at most 2048"),
    ],
)
def test_an_id_in_any_other_form_is_malformed_and_the_message_says_what_is_wrong(text, said):
    with pytest.raises(MalformedValue, match=said):
        SpiffeId.parse(text)


@given(st.text() | st.text("spife:/.*%?#aA0_-\0").map("spiffe://a/{}".format))
def test_no_text_makes_anything_but_an_id_with_that_very_text_or_a_malformed_value(text):
    for kind in (SpiffeId, Pattern):
        try:
            value = kind.parse(text)
        except MalformedValue:
            continue
        assert str(value) == text


@pytest.mark.parametrize(
    ("trust_domain", "segments"),
    [("A", ("a",)), ("", ("a",)), ("a", ()), ("a", ("",)), ("a", ("b/c",)), ("a", ("..",)), ("a", ("x" * 2040,))],
)
def test_an_invalid_id_cannot_be_constructed(trust_domain, segments):
    with pytest.raises(MalformedValue):
        SpiffeId(trust_domain, segments)


def test_the_message_of_a_malformed_id_never_shows_it():
    with pytest.raises(MalformedValue) as caught:
        SpiffeId.parse("spiffe://s3cret@example.org/s3cret?s3cret")
    assert "s3cret" not in str(caught.value)


def test_a_trust_domain_is_read_by_itself_as_in_an_id():
    assert parse_trust_domain("example.org") == "example.org"
    for text in ("", "Example.org", "example.org/", "spiffe://example.org", "a" * 256, "example.org\n"):
        with pytest.raises(MalformedValue):
            parse_trust_domain(text)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/a/b", "/a/b", True),
        ("/a/b", "/a/B", False),
        ("/a/b", "/a/b/c", False),
        ("/a/b/c", "/a/b", False),
        ("/a/*", "/a/b", True),
        ("/a/*", "/a", False),
        ("/a/*", "/a/b/c", False),
        ("/*/b", "/a/b", True),
        ("/a/**", "/a/b", True),
        ("/a/**", "/a/b/c/d", True),
        ("/a/**", "/a", False),
        ("/a/**", "/ab/c", False),
        ("/**", "/a", True),
        ("/*/**", "/a", False),
        ("/*/**", "/a/b", True),
        ("/*/controller/**", "/a/controller/b/c", True),
    ],
)
def test_a_star_is_one_whole_segment_and_two_are_the_rest(pattern, path, matches):
    spiffe_id = SpiffeId.parse(f"spiffe://example.org{path}")
    assert Pattern.parse(f"spiffe://example.org{pattern}").matches(spiffe_id) is matches
    assert not Pattern.parse(f"spiffe://example.com{pattern}").matches(spiffe_id), "the trust domain is literal"


@given(FEW_PATTERNS, FEW_IDS)
@example(Pattern("a", (), rest=True), SpiffeId("a", ("b",)))
@example(Pattern("a", (), rest=True), SpiffeId("b", ("b",)))
def test_patterns_match_as_a_reading_from_left_to_right_says(pattern, spiffe_id):
    def reads(parts, segments):
        if not parts:
            return not segments
        if parts == ["**"]:
            return bool(segments)
        return bool(segments) and parts[0] in ("*", segments[0]) and reads(parts[1:], segments[1:])

    parts = str(pattern).removeprefix("spiffe://").split("/")
    segments = str(spiffe_id).removeprefix("spiffe://").split("/")
    assert pattern.matches(spiffe_id) == reads(parts, segments)
    assert Pattern.parse(str(pattern)) == pattern


@given(IDS, IDS)
def test_an_id_as_a_pattern_matches_itself_alone(one, other):
    pattern = Pattern.parse(str(one))
    assert pattern.matches(one)
    assert pattern.matches(other) == (one == other)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("spiffe://*/a", "trust domain"),
        ("spiffe://example.*/a", "trust domain"),
        ("spiffe://**", "trust domain"),
        ("spiffe://example.org", r"/\*\* for any"),
        ("spiffe://example.org/", "no slash at its end"),
        ("spiffe://example.org/**/a", "must be the last"),
        ("spiffe://example.org/**/**", "must be the last"),
        ("spiffe://example.org/a*", "whole segment"),
        ("spiffe://example.org/***", "whole segment"),
        ("spiffe://example.org/a/../*", "segment ."),
        ("spiffe://example.org/a?", "query"),
        ("*", "begin with"),
        ("**", "begin with"),
    ],
)
def test_a_pattern_in_any_other_form_is_malformed_and_the_message_says_what_is_wrong(text, said):
    with pytest.raises(MalformedValue, match=said):
        Pattern.parse(text)


@pytest.mark.parametrize("segments", [("**",), ("a*",), ("a", "**", "b"), ()])
def test_an_invalid_pattern_cannot_be_constructed(segments):
    with pytest.raises(MalformedValue):
        Pattern("example.org", segments)


def test_a_path_names_a_controller_a_slot_or_a_slot_at_a_generation():
    slot = Identity("prod-eu", "replica-a", 2)
    assert meaning("/prod-eu/controller/main") == NamedController("prod-eu", ControllerName("main"))
    assert meaning("/prod-eu/replica-a/2") == NamedSlot(slot)
    assert meaning("/prod-eu/replica-a/2/7") == NamedSlot(slot, Generation(7))


def test_a_slot_whose_replica_is_called_controller_cannot_be_named():
    assert meaning("/prod-eu/controller/2") == NamedController("prod-eu", ControllerName("2"))
    assert meaning("/prod-eu/controller/2/7") is None


@pytest.mark.parametrize(
    "path",
    [
        "/a",
        "/prod-eu/replica-a",
        "/prod-eu/replica-a/2/7/1",
        "/prod-eu/replica-a/02",
        "/prod-eu/replica-a/-1",
        "/prod-eu/replica-a/x",
        "/prod-eu/replica-a/2147483648",
        "/prod-eu/replica-a/2/0",
        "/prod-eu/replica-a/2/07",
        "/prod-eu/replica-a/2/18446744073709551616",
        "/-prod/replica-a/2",
        f"/{'c' * 64}/replica-a/2",
        "/prod-eu/controller",
        "/prod-eu/Controller/main",
        "/controller/prod-eu/main",
        "/-prod/controller/main",
        f"/prod-eu/controller/{'n' * 129}",
        "/ns/prod/sa/default",
    ],
)
def test_any_other_path_names_neither(path):
    assert meaning(path) is None


@given(IDS)
def test_what_an_id_names_is_spelled_exactly_so_in_its_path(spiffe_id):
    match named(spiffe_id):
        case NamedController(cluster, name):
            assert spiffe_id.segments == (cluster, "controller", str(name))
        case NamedSlot(identity, None):
            assert "/".join(spiffe_id.segments) == str(identity)
        case NamedSlot(identity, generation):
            assert "/".join(spiffe_id.segments) == f"{identity}/{generation}"


@given(
    st.builds(Identity, st.just("c"), st.sampled_from(["r", "controllers"]), st.integers(0, 2**31 - 1)),
    st.none() | st.builds(Generation, st.integers(1, 2**64 - 1)),
)
def test_every_slot_can_be_named_with_every_generation_and_without(identity, generation):
    path = str(identity) if generation is None else f"{identity}/{generation}"
    assert meaning(f"/{path}") == NamedSlot(identity, generation)


def test_what_is_named_says_so_in_words():
    assert str(meaning("/prod-eu/controller/main")) == "controller main of prod-eu"
    assert str(meaning("/prod-eu/replica-a/2")) == "slot prod-eu/replica-a/2"
    assert str(meaning("/prod-eu/replica-a/2/7")) == "slot prod-eu/replica-a/2 at generation 7"
