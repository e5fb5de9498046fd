"""The file as a whole: its defaults are those that the documentation promises."""

from __future__ import annotations

from sidecar.config.addresses import HostPort
from sidecar.config.model import ConfigurationFile

LEAST = {
    "identity": {},
    "assignment": {},
    "listeners": ({"name": "a", "listen": ":1", "upstream": "127.0.0.1:2"},),
}


def test_three_sections_are_required() -> None:
    required = {name for name, field in ConfigurationFile.model_fields.items() if field.is_required()}
    assert required == set(LEAST)


def test_the_defaults_of_the_process_hold() -> None:
    file = ConfigurationFile.model_validate(LEAST)
    assert (file.limits.connections, file.limits.pending, file.limits.refusal_drain) == (4096, 1024, 1024**2)
    times = file.timeouts
    assert (times.preface, times.connect, times.half_close) == (5.0, 2.0, 300.0)
    assert (times.idle, times.lifetime, times.keepalive, times.user_timeout) == (None, None, 30.0, 30.0)
    assert (file.drain.delay, file.drain.timeout) == (0.0, 25.0)
    assert (file.telemetry.listen, file.telemetry.ready_needs_upstream) == (HostPort(None, 9902), False)
    assert file.admin.listen == HostPort("127.0.0.1", 9901)
    assert (file.log.format, file.log.level, file.log.refusals_per_second) == ("auto", "info", 10)
    assert (file.enforcement, file.shadow_wait, file.floor_series) == ("enforce", 0.25, 1)
    assert (file.require, file.state_dir, file.tls, file.reject_delay) == (None, None, None, 0.0)


def test_two_files_share_no_section() -> None:
    one, other = ConfigurationFile.model_validate(LEAST), ConfigurationFile.model_validate(LEAST)
    assert one.limits is not other.limits  # reading takes faulty settings out of sections
