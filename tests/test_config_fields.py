"""The types of single settings, each through pydantic as the models use it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from sidecar.config import fields
from sidecar.config.addresses import Handoff, HostPort, UnixPath
from sidecar.config.document import Kind, Scalar
from sidecar.config.pod_name import PodName
from sidecar.config.problems import Place
from sidecar.identity import Generation, Instance

ODD = Scalar(Place(1, 1), "010", Kind.NUMBER)  # what the model gets for a scalar that YAML would change


def read(kind: Any, value: object) -> object:
    return TypeAdapter(kind).validate_python(value)


def refused(kind: Any, value: object) -> str:
    with pytest.raises(ValidationError) as caught:
        read(kind, value)
    (fault,) = caught.value.errors()
    return fault["msg"]


@pytest.mark.parametrize(
    ("kind", "value", "result"),
    [
        (fields.Cluster, "prod-eu.default", "prod-eu.default"),
        (fields.Replica, "no", "no"),
        (fields.Ordinal, 2, 2),
        (fields.Ordinal, "2", 2),
        (fields.Ordinal, 0, 0),
        (fields.PodNameValue, "replica-a-2", PodName("replica-a", 2)),
        (fields.Prefix, "prod-eu/replica-a", ("prod-eu", "replica-a")),
        (fields.InstanceValue, "3f7c", Instance("3f7c")),
        (fields.GenerationValue, 7, Generation(7)),
        (fields.GenerationValue, "18446744073709551615", Generation(2**64 - 1)),
        (fields.Count, 1, 1),
        (fields.Count, "4096", 4096),
        (fields.Duration, "5s", 5.0),
        (fields.DurationOrZero, "0s", 0.0),
        (fields.DurationOrNever, "never", None),
        (fields.DurationOrNever, "1ms", 0.001),
        (fields.Keepalive, "32767s", 32767.0),
        (fields.UserTimeout, "never", None),
        (fields.Size, "64KiB", 65536),
        (fields.Flag, True, True),
        (fields.Flag, "false", False),
        (fields.ListenAddress, "unix:/x", UnixPath("/x")),
        (fields.UpstreamAddress, "handoff:/x", Handoff("/x")),
        (fields.TcpAddress, ":9902", HostPort(None, 9902)),
        (fields.AdminAddress, "[::1]:9901", HostPort("::1", 9901)),
        (fields.AdminAddress, "unix:/x", UnixPath("/x")),
        (fields.Name, "compute_1-a", "compute_1-a"),
        (fields.FilePath, "/etc/tls/tls.crt", "/etc/tls/tls.crt"),
        (fields.DirectoryPath, "/var/lib/sidecar/", "/var/lib/sidecar/"),
        (fields.OptionalPath, "", ""),
        (fields.RegistryUrl, "etcd://127.0.0.1:2379/slots", "etcd://127.0.0.1:2379/slots"),
        (fields.TlvType, "0x05", 5),
        (fields.FileMode, "0660", 0o660),
        (fields.SpiffePattern, "spiffe://example.org/prod-eu/*/x/**", "spiffe://example.org/prod-eu/*/x/**"),
    ],
)
def test_a_value_in_its_notation_is_read(kind: Any, value: object, result: object) -> None:
    assert read(kind, value) == result


NUMBERS = [fields.Ordinal, fields.GenerationValue, fields.Count]
DURATIONS = [fields.Duration, fields.DurationOrZero, fields.DurationOrNever, fields.Keepalive, fields.UserTimeout]
QUANTITIES = [*DURATIONS, fields.Size]
TEXTS = [
    *(fields.Cluster, fields.Replica, fields.PodNameValue, fields.Prefix, fields.InstanceValue, fields.ListenAddress),
    *(fields.UpstreamAddress, fields.TcpAddress, fields.AdminAddress, fields.NetworkValue, fields.Name),
    *(fields.NonEmpty, fields.FilePath, fields.DirectoryPath, fields.RegistryUrl, fields.TlvType, fields.FileMode),
    fields.SpiffePattern,
]


@pytest.mark.parametrize("kind", [*NUMBERS, *QUANTITIES, *TEXTS, fields.Flag])
@pytest.mark.parametrize("value", [ODD, None, "", (), {}, 2.0, b"x"])
def test_nothing_but_text_is_text_and_nothing_is_no_value(kind: Any, value: object) -> None:
    assert refused(kind, value)


@pytest.mark.parametrize("kind", [*NUMBERS, *QUANTITIES, *TEXTS])
def test_an_empty_text_is_said_to_be_empty(kind: Any) -> None:
    assert "is empty" in refused(kind, "")


@pytest.mark.parametrize("value", [ODD, True, 0, None])
def test_an_optional_path_is_not_empty_because_it_is_no_text(value: object) -> None:
    assert refused(fields.OptionalPath, value)


@pytest.mark.parametrize(("kind", "value"), [*((kind, True) for kind in TEXTS), *((kind, 65536) for kind in TEXTS)])
def test_where_text_is_meant_numbers_and_booleans_must_be_quoted(kind: Any, value: object) -> None:
    assert refused(kind, value) == "must be text"


@pytest.mark.parametrize(
    ("kind", "port", "meant"),
    [
        (fields.ListenAddress, 7101, ":7101"),
        (fields.UpstreamAddress, 2101, "127.0.0.1:2101"),
        (fields.TcpAddress, 1, ":1"),
        (fields.AdminAddress, 65535, "127.0.0.1:65535"),
    ],
)
def test_a_port_alone_is_shown_as_the_address_that_is_meant_and_that_is_right(kind: Any, port: int, meant: str) -> None:
    assert refused(kind, port).endswith(f'is a port without an address: write "{meant}"')
    assert str(read(kind, meant)) == meant


@pytest.mark.parametrize("kind", [*NUMBERS, *QUANTITIES])
def test_a_boolean_is_no_number(kind: Any) -> None:
    assert "must be" in refused(kind, True)


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("text", ["02", "1_0", "+2", "-1", "2.0", "0x2", " 2", "2 ", "٣", "9" * 30])
def test_a_number_is_decimal_and_canonical_also_in_quotes(kind: Any, text: str) -> None:
    assert "must be" in refused(kind, text)


def test_an_ordinal_has_a_largest_value() -> None:
    assert read(fields.Ordinal, 2**31 - 1) == 2**31 - 1
    assert "between 0 and 2147483647" in refused(fields.Ordinal, 2**31)


@pytest.mark.parametrize("value", [0, 2**31])
def test_a_count_is_at_least_one_and_has_an_end(value: int) -> None:
    assert "between 1 and" in refused(fields.Count, value)


@pytest.mark.parametrize("kind", [fields.Ordinal, fields.GenerationValue])
def test_a_number_that_yaml_would_change_is_said_to_have_underscores_and_the_like(kind: Any) -> None:
    assert "without sign, blanks, underscores or leading zeros" in refused(kind, ODD)
    assert "without sign, blanks, underscores or leading zeros" in refused(kind, "1_0")


@pytest.mark.parametrize("value", [0, 2**64])
def test_a_generation_is_an_unsigned_64_bit_number_from_one(value: int) -> None:
    assert "between 1 and" in refused(fields.GenerationValue, value)


@pytest.mark.parametrize("kind", DURATIONS)
def test_a_number_without_a_unit_is_no_duration(kind: Any) -> None:
    assert "whole number with a unit" in refused(kind, 5)


@pytest.mark.parametrize("kind", [fields.Duration, fields.DurationOrNever, fields.Keepalive, fields.UserTimeout])
def test_zero_is_no_duration_where_it_would_mean_never_or_at_once(kind: Any) -> None:
    assert "more than zero" in refused(kind, "0s")


@pytest.mark.parametrize("kind", [fields.Duration, fields.DurationOrZero])
def test_never_is_refused_where_a_limit_must_hold(kind: Any) -> None:
    assert refused(kind, "never")


@pytest.mark.parametrize("kind", [fields.DurationOrNever, fields.Keepalive, fields.UserTimeout])
def test_where_never_is_possible_a_message_says_so(kind: Any) -> None:
    assert "must be never, or a whole number" in refused(kind, "off")


@pytest.mark.parametrize("text", ["500ms", "1500ms", "32768s", "10h"])
def test_keepalive_is_what_the_kernel_takes(text: str) -> None:
    assert "whole seconds, at most 32767s" in refused(fields.Keepalive, text)


def test_user_timeout_is_what_the_kernel_takes() -> None:
    assert "the kernel takes no more" in refused(fields.UserTimeout, "597h")


@pytest.mark.parametrize("path", ["/etc/podinfo/uid", "./uid", "../uid", "~/uid", "file:/etc/podinfo/uid"])
@pytest.mark.parametrize("kind", [fields.InstanceValue, fields.GenerationValue])
def test_a_path_where_a_value_is_meant_is_asked_about(kind: Any, path: str) -> None:
    assert "write {file: /path}" in refused(kind, path)


@pytest.mark.parametrize("text", ["prod-eu", "prod-eu/", "/replica-a", "a/b/c", "a//b", "a b/c"])
def test_a_prefix_is_two_segments(text: str) -> None:
    assert "must be" in refused(fields.Prefix, text)


@pytest.mark.parametrize("text", ["a" * 64, "-a", "a-", "a b", "a/b", "ä", "a\n"])
@pytest.mark.parametrize("kind", [fields.Cluster, fields.Replica])
def test_a_segment_is_what_an_identity_takes(kind: Any, text: str) -> None:
    assert "1 to 63 of" in refused(kind, text)


@pytest.mark.parametrize("text", ["Compute", "a b", "a.b", "a" * 64])
def test_a_name_is_a_metric_label(text: str) -> None:
    assert "1 to 63 of a-z 0-9 _ -" in refused(fields.Name, text)


@pytest.mark.parametrize("text", [":9901", "0.0.0.0:9901", "10.0.0.1:9901", "[::]:9901", "localhost:9901", "db:9901"])
def test_the_admin_server_is_for_this_machine_alone(text: str) -> None:
    assert "loopback address or a Unix socket" in refused(fields.AdminAddress, text)


@pytest.mark.parametrize("text", ["0x00", "0x100", "5", "x05", "0x", "05"])
def test_a_tlv_type_is_one_byte_in_hexadecimal(text: str) -> None:
    assert 'from "0x01" to "0xFF"' in refused(fields.TlvType, text)


@pytest.mark.parametrize("text", ["0888", "rw-rw----", "6600", "66"])
def test_a_file_mode_is_three_octal_digits(text: str) -> None:
    assert "file mode" in refused(fields.FileMode, text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "http://example.org/a",
            "spiffe:///a",
            "spiffe://Example.org/a",
            "spiffe://example.org/a/",
            "spiffe://example.org//a",
        ),
        *("spiffe://example.org/a/../b", "spiffe://example.org/./b", "spiffe://example.org/a%20b", "spiffe://*/a"),
        *("spiffe://example.org/**/a", "spiffe://example.org/a*", "spiffe://example.org/a?b"),
    ],
)
def test_a_spiffe_pattern_is_a_spiffe_id_with_stars_for_segments(text: str) -> None:
    assert "must " in refused(fields.SpiffePattern, text)


@pytest.mark.parametrize("text", ["spiffe://example.org", "spiffe://example.org/"])
def test_a_spiffe_pattern_without_a_path_could_match_no_workload(text: str) -> None:
    assert "path" in refused(fields.SpiffePattern, text)


@pytest.mark.parametrize("text", ["*", "c1.*.org", "a b", "-x.org", "https://x.org"])
def test_a_dns_pattern_is_a_name_that_may_begin_with_one_star(text: str) -> None:
    assert refused(fields.DnsName, text)


@pytest.mark.parametrize("text", ["Example.org", "spiffe://example.org", "a/b"])
def test_a_trust_domain_is_named_without_scheme_and_path(text: str) -> None:
    assert refused(fields.TrustDomain, text)


@pytest.mark.parametrize("text", ["etc/x", "", "x", "/a\0b"])
def test_a_path_is_absolute(text: str) -> None:
    for kind in (fields.FilePath, fields.DirectoryPath):
        assert refused(kind, text)


@pytest.mark.parametrize("text", ["/", "/etc/podinfo/", "/etc/.", "/etc/podinfo/.."])
def test_a_files_path_does_not_end_as_only_a_directorys_does(text: str) -> None:
    assert "this is a directory's" in refused(fields.FilePath, text)


@pytest.mark.parametrize("text", ["/var/slots.db", "sqlite:slots.db", "http://x", "etcd:// x", "mysql://x"])
def test_a_registry_is_one_of_three_stores(text: str) -> None:
    assert "must be sqlite:///path" in refused(fields.RegistryUrl, text)


@pytest.mark.parametrize("value", ["yes", "True", "1", 1, 0, "on"])
def test_a_flag_is_true_or_false(value: object) -> None:
    assert "must be true or false" in refused(fields.Flag, value)
