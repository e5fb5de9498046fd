"""DNS names of certificates: exact ones and one star, and a certificate's own wildcard only for a server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.dns_names import DnsPattern
from sidecar.errors import MalformedValue

LABELS = st.text("aAbB1_-", min_size=1, max_size=4).filter(lambda label: label[0] != "-" != label[-1])
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
FEW_NAMES = st.lists(st.sampled_from("abA"), min_size=1, max_size=3).map(".".join)


@pytest.mark.parametrize(
    "text", ["d", "localhost", "main.example.org", "*.example.org", "*.x", "_peer.a-b.1c", "a." * 126 + "a"]
)
def test_a_name_and_a_name_below_a_star_are_patterns(text):
    assert str(DnsPattern.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "*",
        "*.",
        "**.a",
        "*.*.a",
        "a.*",
        "a*.b",
        "*a.b",
        ".a",
        "a..b",
        "a.",
        "-a.b",
        "a-.b",
        "a b",
        "a\n",
        "a\0.b",
        "b\u00fccher.example",
        "\u212a.example",
        "a/b",
        "a:1",
        "l" * 64,
        "a." * 126 + "ab",
    ],
)
def test_a_pattern_in_any_other_form_is_malformed(text):
    with pytest.raises(MalformedValue):
        DnsPattern.parse(text)


@given(st.text() | st.text("aA*.-_"))
def test_no_text_makes_anything_but_that_name_or_a_malformed_value(text):
    try:
        pattern = DnsPattern.parse(text)
    except MalformedValue:
        return
    assert str(pattern) == text.lower()
    assert DnsPattern.parse(str(pattern)) == pattern


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("main.example.org", "main.example.org", True),
        ("main.example.org", "MAIN.Example.ORG", True),
        ("Main.Example.org", "main.example.org", True),
        ("main.example.org", "main.example.org.", False),
        ("main.example.org", "a.main.example.org", False),
        ("*.example.org", "main.example.org", True),
        ("*.EXAMPLE.org", "MAIN.example.ORG", True),
        ("*.example.org", "a.main.example.org", False),
        ("*.example.org", "example.org", False),
        ("*.example.org", ".example.org", False),
        ("*.example.org", "-.example.org", False),
        ("*.example.org", "main.example.org\0.evil.example", False),
        ("*.example.org", "*.example.org", False),
        ("*.example.org", "m*.example.org", False),
        ("main.example.org", "*.example.org", False),
        ("*.example.org", "", False),
        ("k", "\u212a", False),  # the Kelvin sign, which lower() turns into a k
        ("example.org", "example.org ", False),
    ],
)
def test_a_diallers_name_is_matched_label_by_label_and_without_regard_to_case(pattern, name, matches):
    assert DnsPattern.parse(pattern).matches(name) is matches


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("a-2.a.prod.svc", "a-2.a.prod.svc", True),
        ("a-2.a.prod.svc", "*.a.prod.svc", True),
        ("A-2.A.prod.svc", "*.a.PROD.svc", True),
        ("*.a.prod.svc", "*.a.prod.svc", True),
        ("*.a.prod.svc", "a-2.a.prod.svc", True),
        ("a-2.a.prod.svc", "*.prod.svc", False),
        ("a-2.a.prod.svc", "*.a-2.a.prod.svc", False),
        ("a-2.a.prod.svc", "a*.a.prod.svc", False),
        ("a-2.a.prod.svc", "*.*.prod.svc", False),
        ("a-2", "*", False),
        ("a-2", "*.", False),
        ("a-2.a", "*", False),
        ("k.\u006b", "*.\u212a", False),
    ],
)
def test_a_servers_wildcard_stands_for_one_label(pattern, name, matches):
    assert DnsPattern.parse(pattern).matches_server(name) is matches


@given(FEW_NAMES, st.booleans(), FEW_NAMES, st.booleans())
def test_names_match_as_a_comparison_of_labels_says(own, own_star, theirs, their_star):
    pattern = ["*"] * own_star + own.lower().split(".")
    name = ["*"] * their_star + theirs.lower().split(".")

    def fits(*, wildcards_count):
        first = pattern[0] in ("*", name[0]) if name[0] != "*" else wildcards_count
        return len(pattern) == len(name) and first and pattern[1:] == name[1:]

    read = DnsPattern.parse(f"*.{own}" if own_star else own)
    shown = f"*.{theirs}" if their_star else theirs
    assert read.matches(shown) == fits(wildcards_count=False)
    assert read.matches_server(shown) == fits(wildcards_count=True)


@given(NAMES, st.text())
def test_no_name_of_a_certificate_is_too_strange_to_be_compared(own, name):
    pattern = DnsPattern.parse(own)
    assert pattern.matches(name) == (name.isascii() and name.lower() == own.lower())
    assert pattern.matches_server(name) >= pattern.matches(name)
