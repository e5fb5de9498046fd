"""A certificate's one SPIFFE ID, and what is wrong with it in words that are safe to show."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.presented import MAX_DETAIL, NameFault, Presented, Wrong
from sidecar.spiffe import SpiffeId
from tests.certificate_names import presented

OURS = "spiffe://example.org/prod-eu/controller/main"
FOREIGN = "spiffe://evil.example/prod-eu/controller/main"


def test_the_one_uri_name_is_the_id_whatever_dns_names_stand_beside_it():
    assert presented(OURS).spiffe_id() == SpiffeId.parse(OURS)
    assert presented(OURS, dns=("a.example.org", "b.example.org")).spiffe_id() == SpiffeId.parse(OURS)


def test_a_certificate_without_a_uri_name_carries_none():
    fault = presented(dns=("main.example.org",)).spiffe_id()
    assert fault == NameFault(Wrong.NO_SPIFFE_ID)
    assert str(fault) == "no_spiffe_id"


@pytest.mark.parametrize("uris", [(OURS, FOREIGN), (FOREIGN, OURS), (OURS, OURS), (OURS, "https://x/"), (OURS,) * 100])
def test_several_uri_names_are_none_whichever_stands_first_and_even_if_they_are_equal(uris):
    fault = presented(*uris).spiffe_id()
    assert fault == NameFault(Wrong.MULTIPLE_URIS)
    assert str(fault) == "multiple_uris"


@pytest.mark.parametrize("uri", ["", "https://example.org/a", "spiffe://Example.org/a", "spiffe://example.org"])
def test_a_uri_name_that_is_no_workloads_id_is_malformed_and_shown_with_what_is_wrong(uri):
    fault = presented(uri).spiffe_id()
    assert isinstance(fault, NameFault)
    assert fault.wrong is Wrong.MALFORMED_SPIFFE_ID
    assert str(fault).startswith("malformed_spiffe_id (")
    assert str(fault).endswith(uri)


def test_a_certificate_that_may_sign_others_identifies_nobody():
    fault = presented(OURS, signs=True).spiffe_id()
    assert str(fault) == f"signing_certificate: {OURS}"


def test_a_certificate_of_which_something_was_not_read_cannot_be_constructed():
    with pytest.raises(TypeError):
        Presented(uris=(OURS,), dns_names=())


@given(st.sampled_from(Wrong), st.text(st.characters(exclude_categories=())), st.sampled_from(["", "is wrong"]))
@example(Wrong.MALFORMED_SPIFFE_ID, "\ud800\x1b[2J\n", "")
@example(Wrong.MALFORMED_SPIFFE_ID, "\\" * 100_000, "must be at most 2048 bytes long")
def test_a_detail_is_short_printable_ascii_whatever_the_certificate_holds(wrong, name, why):
    detail = str(NameFault(wrong, name, why))
    assert len(detail) <= MAX_DETAIL
    assert detail.isascii()
    assert detail.isprintable()
    assert detail.startswith(wrong)


@given(st.lists(st.text() | st.just(OURS), max_size=3))
def test_no_names_make_anything_but_that_one_id_or_a_fault(uris):
    found = presented(*uris).spiffe_id()
    assert isinstance(found, NameFault) or [str(found)] == uris
