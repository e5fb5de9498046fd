"""The closed sets are exported surface: a changed word breaks dashboards, alerts and other people's diallers."""

from sidecar.reasons import ADVICE, Advice, End, Probe, Reason, Refused


def test_the_reasons_and_their_advice_are_these():
    assert {str(reason): str(ADVICE[reason]) for reason in Reason} == {
        "source_not_allowed": "fix",
        "over_capacity": "retry",
        "tls_failed": "fix",
        "preface_timeout": "fix",
        "preface_missing": "fix",
        "preface_malformed": "fix",
        "peer_not_allowed": "fix",
        "draining": "retry",
        "controller_malformed": "fix",
        "identity_missing": "fix",
        "identity_malformed": "fix",
        "incarnation_missing": "fix",
        "incarnation_malformed": "fix",
        "identity_conflict": "fix",
        "identity_mismatch": "re-resolve",
        "lease_pending": "retry",
        "fenced": "re-resolve",
        "floor_unavailable": "retry",
        "authority_unavailable": "retry",
        "authority_regressed": "retry",
        "not_assigned": "re-resolve",
        "controller_stale": "stop",
        "controller_ahead": "fix",
        "generation_stale": "refresh",
        "generation_ahead": "re-resolve",
        "instance_mismatch": "re-resolve",
        "exclusive_conflict": "retry",
        "upstream_unavailable": "retry",
        "internal_error": "retry",
    }


def test_the_ends_are_these():
    assert {str(end) for end in End} == {
        "client_closed",
        "upstream_closed",
        "client_reset",
        "upstream_reset",
        "idle",
        "half_close",
        "lifetime",
        "drain_timeout",
        "superseded",
        "authority_stale",
        "certificate_expired",
        "certificate_revoked",
        "aborted",
        "internal_error",
        "fenced",
        "not_assigned",
        "generation_stale",
        "instance_mismatch",
        "controller_stale",
        "controller_ahead",
    }


def test_the_probes_are_these():
    assert {str(probe) for probe in Probe} == {"local_probe", "closed_before_preface"}


def test_being_behind_and_being_told_to_try_again_never_look_alike():
    """A dialler that retries on a stale claim hammers a process that will never take it."""
    for reason in (Reason.IDENTITY_MISMATCH, Reason.GENERATION_STALE, Reason.INSTANCE_MISMATCH, Reason.FENCED):
        assert Refused(reason).advice is not Advice.RETRY
    for reason in (Reason.AUTHORITY_UNAVAILABLE, Reason.DRAINING, Reason.UPSTREAM_UNAVAILABLE):
        assert Refused(reason).advice is Advice.RETRY


def test_a_refusal_may_carry_an_advice_of_its_own():
    assert Refused(Reason.NOT_ASSIGNED).advice is Advice.RE_RESOLVE
    assert Refused(Reason.NOT_ASSIGNED, "pending", Advice.RETRY).advice is Advice.RETRY
