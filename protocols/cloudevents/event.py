"""One CloudEvent: attributes as UTF-8 bytes, data as received. CloudEvents 1.0.2, section 3."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from typing import Final, final

from protocols.cloudevents.instant import is_rfc3339

SPECVERSION: Final = b"1.0"
ATTRIBUTES_MAX: Final = 100
"""Most attributes of an event."""
REQUIRED: Final = (b"specversion", b"id", b"source", b"type")
TEXT_ATTRIBUTES: Final[frozenset[bytes]] = frozenset(
    (b"specversion", b"id", b"source", b"type", b"subject", b"time", b"dataschema", b"datacontenttype")
)

KNOWN_MAX: Final = 1_024
"""Values of `source` and of `datacontenttype`, and names of headers, that are remembered: a client sends the same with every
event."""
KNOWN_BYTES_MAX: Final = 256
"""Most bytes of a value or a name that is remembered."""

UNPRINTABLE: Final = frozenset((*range(32), *range(127, 256)))


def changing(marked: Set[int]) -> bytes:
    """A table for `bytes.translate`, which then changes exactly the `marked` bytes: a search in half of the time of `re`."""
    return bytes([byte ^ 0x80 if byte in marked else byte for byte in range(256)])


_UNPRINTABLE: Final = changing(UNPRINTABLE)
_FORBIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef"
    + "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
    + "]"
)
_URI = re.compile(
    rb"(?:[A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*+(?:#(?:[A-Za-z0-9\-._~:/?@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*+)?"
)
_SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+.\-]*")
_FIRST_SEGMENT = re.compile(rb"[^/?#]*")
_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
# Possessive quantifiers only: no value of a client can make the matcher backtrack.
_PARAMETER = _TOKEN + rb"=(?:" + _TOKEN + rb'|"[^"\\]*+(?:\\.[^"\\]*+)*+")'
_INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,9}")
_MEDIA_TYPE = re.compile(_TOKEN + rb"/" + _TOKEN + rb"(?:[ \t]*+;[ \t]*+(?:" + _PARAMETER + rb")?+)*+[ \t]*+")

_sources: Final[dict[bytes, bool]] = {}
_media_types: Final[dict[bytes, bool]] = {}
"""Valid media types; True: of JSON."""


class CloudEventError(ValueError):
    """Bytes that are not a CloudEvent.

    attribute      the attribute or JSON member that is wrong; "" when the error is elsewhere
    unsupported    True: the format is not supported; the event itself may be valid
    too_large      True: the event is valid but above a limit
    unrouted       True: the event is valid, but has no topic
    """

    def __init__(
        self, attribute: str, text: str, unsupported: bool = False, too_large: bool = False, unrouted: bool = False
    ) -> None:
        super().__init__(text)
        self.attribute = attribute
        self.text = text
        self.unsupported = unsupported
        self.too_large = too_large
        self.unrouted = unrouted


@final
class CloudEvent:
    """One event.

    attributes   name -> value in its canonical string form, UTF-8; with `datacontenttype` when the sender gave one
    data         the data, b"" for none; for JSON data of a structured event the text of the member `data`, unchanged
    is_json      True when `data` is JSON text: by its media type, or as the JSON member `data` of a structured event
    data_at      where the value of `data` or `data_base64` begins in the text of a structured event; 0 without such a text
    data_end     where it ends
    typed        names of the attributes that are an Integer or a Boolean and no String (`scalar`)
    """

    __slots__ = ("attributes", "data", "data_at", "data_end", "is_json", "typed")

    def __init__(
        self,
        attributes: dict[bytes, bytes],
        data: bytes,
        is_json: bool,
        data_at: int = 0,
        data_end: int = 0,
        typed: Sequence[bytes] = (),
    ) -> None:
        self.attributes = attributes
        self.data = data
        self.is_json = is_json
        self.data_at = data_at
        self.data_end = data_end
        self.typed = typed

    def scalars(self) -> Iterator[tuple[bytes, object]]:
        """The attributes of `typed` that have the canonical form of their type: any client may have set another value.

        A value is a bool or an int (`scalar`).
        """
        for name in self.typed:
            value = scalar(self.attributes.get(name, b""))
            if value is not None:
                yield name, value


def scalar(value: bytes) -> object:
    """A canonical string -> the Boolean or the Integer of 32 bits that it stands for; None: it is neither (section 3.1)."""
    # The type is object: compiled, a union of bool and int makes an int of a bool.
    if value in (b"true", b"false"):
        return value == b"true"
    if _INTEGER.fullmatch(value) is None:
        return None
    number = int(value)
    return number if -0x80000000 <= number <= 0x7FFFFFFF else None


def is_json_type(media_type: bytes) -> bool:
    """True for `*/json` and `*/*+json`, whatever the parameters (JSON event format, 3.1)."""
    known = _media_types.get(media_type)
    if known is not None:
        return known
    end = media_type.find(b";")
    bare = (media_type if end < 0 else media_type[:end]).strip().lower()
    return bare.endswith((b"/json", b"+json"))


def is_media_type(value: bytes) -> bool:
    """True for `type/subtype` with parameters (RFC 2046)."""
    return _MEDIA_TYPE.fullmatch(value) is not None


def is_uri_reference(value: bytes) -> bool:
    """True for a non-empty URI-reference (RFC 3986, 4.1): only legal characters, and a valid scheme before the first colon."""
    if not value or _URI.fullmatch(value) is None:
        return False
    first = _FIRST_SEGMENT.match(value)
    head = first.group() if first is not None else b""
    colon = head.find(b":")
    return colon < 0 or _SCHEME.fullmatch(head[:colon]) is not None


def is_absolute_uri(value: bytes) -> bool:
    """True for a URI with a scheme and something after it."""
    colon = value.find(b":")
    return 0 < colon < len(value) - 1 and _SCHEME.fullmatch(value[:colon]) is not None and _URI.fullmatch(value) is not None


def check_name(name: bytes) -> None:
    """Raises CloudEventError unless `name` is an attribute name: only `[a-z0-9]`, and not `data` (section 3, naming)."""
    if name in TEXT_ATTRIBUTES:
        return
    if not name.isalnum() or not name.isascii() or name.lower() != name or name == b"data":
        shown = name.decode("utf-8", "replace")
        raise CloudEventError(shown, f"attribute name {shown!r} is not made of a-z and 0-9, or is reserved")


def check_value(name: bytes, value: bytes) -> None:
    """Raises CloudEventError for invalid UTF-8, control characters and noncharacters (section 3.1, String)."""
    if value.translate(_UNPRINTABLE) == value:
        return
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise CloudEventError(name.decode(), f"attribute {name.decode()} is not valid UTF-8") from None
    if _FORBIDDEN.search(text) is not None:
        raise CloudEventError(name.decode(), f"attribute {name.decode()} holds a control character or a non-character")


def check(attributes: dict[bytes, bytes]) -> None:
    """Raises CloudEventError for a missing required attribute, or a core attribute that is not of its type (section 3)."""
    for name in REQUIRED:
        if not attributes.get(name):
            raise CloudEventError(name.decode(), f"attribute {name.decode()} is required and must not be empty")
    version = attributes[b"specversion"]
    if version != SPECVERSION:
        hint = ", and the setting cloudevents_03 of [http] admits 0.3" if version == b"0.3" else ""
        raise CloudEventError("specversion", f"specversion must be 1.0{hint}")
    source = attributes[b"source"]
    if source not in _sources:
        _check_source(source)
    time = attributes.get(b"time")
    if time is not None and not is_rfc3339(time):
        raise CloudEventError("time", "time must be an RFC 3339 date-time")
    schema = attributes.get(b"dataschema")
    if schema is not None and not is_absolute_uri(schema):
        raise CloudEventError("dataschema", "dataschema must be an absolute URI")
    if attributes.get(b"subject") == b"":
        raise CloudEventError("subject", "subject must not be empty")
    content_type = attributes.get(b"datacontenttype")
    if content_type is not None and content_type not in _media_types:
        _check_media_type(content_type)


def _check_source(source: bytes) -> None:
    if not is_uri_reference(source):
        raise CloudEventError("source", "source must be a URI-reference (RFC 3986)")
    _remember(_sources, source, True)


def _check_media_type(value: bytes) -> None:
    check_value(b"datacontenttype", value)
    if not is_media_type(value):
        raise CloudEventError("datacontenttype", "datacontenttype must be a media type (RFC 2046)")
    _remember(_media_types, value, is_json_type(value))


def _remember(known: dict[bytes, bool], value: bytes, verdict: bool) -> None:
    if len(value) <= KNOWN_BYTES_MAX:
        if len(known) >= KNOWN_MAX:
            known.clear()
        known[value] = verdict
