"""What OpenSSL's errors become: words that say whose they are."""

from __future__ import annotations

import pytest
from OpenSSL import SSL

from sidecar.tls.errors import ENDED, TlsError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SSL.Error([("SSL routines", "", "certificate verify failed")]), "certificate verify failed"),
        (SSL.Error([("SSL routines", "", "tlsv1 alert unknown ca")]), "the peer refused: tlsv1 alert unknown ca"),
        (SSL.Error([("Provider routines", "", "a"), ("SSL routines", "", "b"), ("SSL routines", "", "a")]), "a; b"),
        (SSL.Error([]), "OpenSSL gives no reason"),
        (SSL.Error(), "OpenSSL gives no reason"),
        (SSL.SysCallError(-1, "Unexpected EOF"), ENDED),
        (SSL.ZeroReturnError(), ENDED),
    ],
)
def test_an_error_says_what_is_wrong_and_keeps_openssls_own(error, words):
    failure = TlsError.of(error)
    assert str(failure) == words
    assert failure.__cause__ is error


@pytest.mark.parametrize(
    ("reason", "alert"),
    [
        ("tlsv1 alert unknown ca", "unknown ca"),
        ("ssl/tls alert bad certificate", "bad certificate"),
        ("tlsv13 alert certificate required", "certificate required"),
        ("certificate verify failed", None),
    ],
)
def test_an_alert_is_told_from_what_this_side_found(reason, alert):
    assert TlsError.of(SSL.Error([("SSL routines", "", reason)])).alert == alert


def test_an_end_without_a_word_is_no_alert():
    assert TlsError.of(SSL.SysCallError(-1, "Unexpected EOF")).alert is None


def test_an_end_is_called_what_it_means_at_that_moment():
    assert str(TlsError.of(SSL.ZeroReturnError(), ended="gone")) == "gone"
