from sidecar.demo.difference import DiffersError
from sidecar.errors import SidecarError


def test_a_difference_says_what_was_told_and_what_came_instead():
    difference = DiffersError("dialling 127.0.0.2", expected="admitted", happened="refused")
    assert isinstance(difference, SidecarError)
    assert str(difference) == "dialling 127.0.0.2: expected admitted, but refused"
    assert (difference.what, difference.expected, difference.happened) == ("dialling 127.0.0.2", "admitted", "refused")
