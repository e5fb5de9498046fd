"""The types of single settings: text in the file, values in the program, a JSON Schema for editors.

Owns how pydantic reads each of them. The notations belong to `sidecar.identity`, `addresses`, `pod_name` and
`quantities`; contradictions between settings belong to the rules. Called by the models.

Messages say what a value must be and never repeat it: it may have come from a variable.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from posixpath import basename
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from sidecar.config.addresses import (
    MAX_PORT,
    Handoff,
    HostPort,
    Network,
    UnixPath,
    is_local,
    parse_listen,
    parse_network,
    parse_upstream,
)
from sidecar.config.pod_name import PodName
from sidecar.config.quantities import DURATION_PATTERN, NEVER, SIZE_PATTERN, parse_duration, parse_size, spell_duration
from sidecar.dns_names import DnsPattern
from sidecar.identity import Generation, Identity, Instance
from sidecar.spiffe import Pattern, parse_trust_domain

_VARIABLE = r"\$\{"  # a value with a variable in it passes the JSON Schema: an editor can't know what it holds
VARIABLE_SCHEMA: Final = {"type": "string", "pattern": _VARIABLE}
NOT_TEXT: Final = "not_text"  # the fault of a value that isn't text where text is meant

MAX_COUNT: Final = 2**31 - 1
MAX_KEEPALIVE: Final = 32767.0  # seconds: TCP_KEEPIDLE's own limit (tcp(7)), and it takes whole ones
MAX_USER_TIMEOUT: Final = 2_147_483.0  # seconds: TCP_USER_TIMEOUT takes milliseconds, 31 bits of them

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,19}")
_SEGMENT = "[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_NAME = "[a-z0-9_-]{1,63}"
_TLV_TYPE = "0[xX](0?[1-9A-Fa-f]|[1-9A-Fa-f][0-9A-Fa-f])"
_FILE_MODE = "0?[0-7]{3}"
_REGISTRY = r"(sqlite:///|etcd://|postgresql://)\S+"
_LOOKS_LIKE_A_PATH = ("/", "./", "../", "~/", "file:")

T = TypeVar("T")


def _schema(pattern: str = "") -> WithJsonSchema:
    """A string that matches *pattern* or has a variable in it."""
    schema: dict[str, Any] = {"type": "string"}
    if pattern:
        schema["pattern"] = rf"^({pattern})$|{_VARIABLE}"
    return WithJsonSchema(schema)


def _number_schema(smallest: int) -> WithJsonSchema:
    """A number, the same in quotes, or a variable."""
    text = {"type": "string", "pattern": rf"^(0|[1-9][0-9]*)$|{_VARIABLE}"}
    return WithJsonSchema({"anyOf": [{"type": "integer", "minimum": smallest}, text]})


def _parsed(value: object, parse: Callable[[str], T], *, may_be_empty: bool = False) -> T:
    if not isinstance(value, str):
        raise PydanticCustomError(NOT_TEXT, "must be text")
    if not value and not may_be_empty:
        raise ValueError("is empty")
    return parse(value)


def _text(parse: Callable[[str], T], *, may_be_empty: bool = False) -> PlainValidator:
    """Hands text, and nothing else, to *parse*, which raises ValueError."""
    return PlainValidator(lambda value: _parsed(value, parse, may_be_empty=may_be_empty))


def _lenient(parse: Callable[[str], T]) -> PlainValidator:
    """Hands numbers over as text too, and anything else as an empty text, which *parse* refuses in its own words."""

    def validate(value: object) -> T:
        if value == "":
            raise ValueError("is empty")
        if isinstance(value, str | int) and not isinstance(value, bool):
            return parse(str(value))
        return parse("")

    return PlainValidator(validate)


def _matching(pattern: str, words: str) -> Callable[[str], str]:
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(words)
        return text

    return check


def _decimal(text: str) -> int:
    if not _DECIMAL.fullmatch(text):
        raise ValueError("must be a decimal number, without sign, blanks, underscores or leading zeros")
    return int(text)


# --- identity and incarnation


def _cluster(text: str) -> str:
    return Identity(text, "replica", 0).cluster


def _replica(text: str) -> str:
    return Identity("cluster", text, 0).replica


def _ordinal(text: str) -> int:
    return Identity("cluster", "replica", _decimal(text)).ordinal


def _prefix(text: str) -> tuple[str, str]:
    cluster, slash, replica = text.partition("/")
    if not slash or "/" in replica:
        raise ValueError("must be <cluster>/<replica>: exactly two segments")
    return _cluster(cluster), _replica(replica)


def _no_path(parse: Callable[[str], T]) -> Callable[[str], T]:
    def check(text: str) -> T:
        if text.startswith(_LOOKS_LIKE_A_PATH):
            raise ValueError("looks like a path: write {file: /path} to read the value from a file")
        return parse(text)

    return check


def _generation(text: str) -> Generation:
    return Generation(_decimal(text))


Cluster = Annotated[str, _text(_cluster), _schema(_SEGMENT)]
Replica = Annotated[str, _text(_replica), _schema(_SEGMENT)]
Ordinal = Annotated[int, _lenient(_ordinal), _number_schema(0)]
PodNameValue = Annotated[PodName, _text(PodName.parse), _schema()]
Prefix = Annotated[tuple[str, str], _text(_prefix), _schema(f"{_SEGMENT}/{_SEGMENT}")]
InstanceValue = Annotated[Instance, _text(_no_path(Instance.parse)), _schema("[!-~]{1,128}")]
GenerationValue = Annotated[Generation, _lenient(_no_path(_generation)), _number_schema(1)]


# --- quantities


def _positive(text: str) -> float:
    seconds = parse_duration(text)
    if not seconds:
        raise ValueError("must be more than zero")
    return seconds


def _or_never(parse: Callable[[str], float]) -> Callable[[str], float | None]:
    def check(text: str) -> float | None:
        if text == NEVER:
            return None
        try:
            return parse(text)
        except ValueError as error:
            raise ValueError(f"must be {NEVER}, or {str(error).removeprefix('must be ')}") from None

    return check


def _keepalive(text: str) -> float:
    seconds = _positive(text)
    if seconds > MAX_KEEPALIVE or seconds % 1:
        raise ValueError(f"must be whole seconds, at most {spell_duration(MAX_KEEPALIVE)}: the kernel takes no others")
    return seconds


def _user_timeout(text: str) -> float:
    seconds = _positive(text)
    if seconds > MAX_USER_TIMEOUT:
        raise ValueError(f"must be at most {spell_duration(MAX_USER_TIMEOUT)}: the kernel takes no more")
    return seconds


def _count(text: str) -> int:
    if not 1 <= _decimal(text) <= MAX_COUNT:
        raise ValueError(f"must be between 1 and {MAX_COUNT}")
    return int(text)


_DURATION_OR_NEVER = _schema(f"{DURATION_PATTERN}|{NEVER}")
Count = Annotated[int, _lenient(_count), _number_schema(1)]
Duration = Annotated[float, _lenient(_positive), _schema(DURATION_PATTERN)]
DurationOrZero = Annotated[float, _lenient(parse_duration), _schema(DURATION_PATTERN)]
DurationOrNever = Annotated[float | None, _lenient(_or_never(_positive)), _DURATION_OR_NEVER]
Keepalive = Annotated[float | None, _lenient(_or_never(_keepalive)), _DURATION_OR_NEVER]
UserTimeout = Annotated[float | None, _lenient(_or_never(_user_timeout)), _DURATION_OR_NEVER]
Size = Annotated[int, _lenient(parse_size), _schema(SIZE_PATTERN)]


def _flag(value: object) -> bool:
    if value in ("true", "false"):  # what a variable holds is text
        return value == "true"
    if not isinstance(value, bool):
        raise ValueError("must be true or false")  # noqa: TRY004  pydantic collects ValueErrors
    return value


Flag = Annotated[bool, PlainValidator(_flag), WithJsonSchema({"anyOf": [{"type": "boolean"}, VARIABLE_SCHEMA]})]


# --- addresses and networks


def _address(parse: Callable[[str], T], host: str) -> PlainValidator:
    """Like `_text`; a number is taken for a port that lacks *host*, and may be shown: what variables hold is text."""

    def validate(value: object) -> T:
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_PORT:
            raise ValueError(f'is a port without an address: write "{host}:{value}"')
        return _parsed(value, parse)

    return PlainValidator(validate)


def _admin_address(text: str) -> HostPort | UnixPath:
    address = parse_listen(text)
    if not is_local(address) or (isinstance(address, HostPort) and address.address is None):
        raise ValueError("must be a loopback address or a Unix socket: 127.0.0.1:9901, [::1]:9901 or unix:/path")
    return address


ListenAddress = Annotated[HostPort | UnixPath, _address(parse_listen, ""), _schema()]
UpstreamAddress = Annotated[HostPort | UnixPath | Handoff, _address(parse_upstream, "127.0.0.1"), _schema()]
TcpAddress = Annotated[HostPort, _address(HostPort.parse, ""), _schema()]
AdminAddress = Annotated[HostPort | UnixPath, _address(_admin_address, "127.0.0.1"), _schema()]
NetworkValue = Annotated[Network, _text(parse_network), _schema()]


# --- the rest


def _at_least_one(items: tuple[T, ...]) -> tuple[T, ...]:
    if not items:
        raise ValueError("is empty: give at least one, or leave the key out")
    return items


AT_LEAST_ONE: Final = AfterValidator(_at_least_one)  # Field(min_length=1) also complains where an item is wrong


def _hexadecimal(text: str) -> int:
    return int(_matching(_TLV_TYPE, 'must be a TLV type from "0x01" to "0xFF"')(text), 16)


def _octal(text: str) -> int:
    return int(_matching(_FILE_MODE, 'must be a file mode such as "0660"')(text), 8)


def _file(text: str) -> str:
    if basename(_absolute(text)) in {"", ".", ".."}:
        raise ValueError("must be the path of a file, and this is a directory's")
    return text


_absolute = _matching(r"/[^\0]*", "must be an absolute path")


def _kept(parse: Callable[[str], object]) -> Callable[[str], str]:
    def check(text: str) -> str:
        parse(text)
        return text

    return check


Name = Annotated[str, _text(_matching(_NAME, "must be 1 to 63 of a-z 0-9 _ -")), _schema(_NAME)]
NonEmpty = Annotated[str, _text(str), _schema(".+")]
FilePath = Annotated[str, _text(_file), _schema("/.*[^/]")]
DirectoryPath = Annotated[str, _text(_absolute), _schema("/.*")]
OptionalPath = Annotated[
    str, _text(_matching(r"(/[^\0]*)?", "must be an absolute path, or empty"), may_be_empty=True), _schema("(/.*)?")
]
RegistryUrl = Annotated[
    str,
    _text(_matching(_REGISTRY, "must be sqlite:///path, etcd://host:port/prefix or postgresql://...")),
    _schema(_REGISTRY),
]
TlvType = Annotated[int, _text(_hexadecimal), _schema(_TLV_TYPE)]
FileMode = Annotated[int, _text(_octal), _schema(_FILE_MODE)]
SpiffePattern = Annotated[str, _text(_kept(Pattern.parse)), _schema("spiffe://.+")]
DnsName = Annotated[str, _text(_kept(DnsPattern.parse)), _schema(".+")]
TrustDomain = Annotated[str, _text(_kept(parse_trust_domain)), _schema("[a-z0-9._-]+")]
