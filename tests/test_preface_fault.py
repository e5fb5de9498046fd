import pytest

from sidecar.preface.fault import Fault, PrefaceError
from sidecar.reasons import Reason, Refused


def test_who_sent_no_preface_at_all_is_told_apart_from_who_sent_a_broken_one():
    assert PrefaceError(Fault.MISSING).refused == Refused(Reason.PREFACE_MISSING)


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.MISSING])
def test_a_broken_preface_is_refused_with_its_fault_as_the_detail(fault):
    assert PrefaceError(fault).refused == Refused(Reason.PREFACE_MALFORMED, fault.value)


def test_the_error_says_what_is_wrong():
    assert str(PrefaceError(Fault.CRC_MISMATCH)) == "no usable PROXY v2 header: crc_mismatch"
