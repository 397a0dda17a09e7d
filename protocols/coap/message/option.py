"""Options of a request (RFC 7252 section 5.10 and later RFCs): known numbers, their lengths, repetition and values.

An option whose length is out of range, or that is repeated without being repeatable, counts as unknown (5.4.3, 5.4.5): a
critical one (odd number) is refused with 4.02, an elective one is ignored.
"""

from __future__ import annotations

from typing import Final, final

from protocols.coap.message import message
from protocols.coap.message.message import Pairs

KNOWN_OPTIONS_MAX: Final = 8_192
KNOWN_OPTION_BYTES_MAX: Final = 512
IF_MATCH: Final = 1
URI_HOST: Final = 3
ETAG: Final = 4
IF_NONE_MATCH: Final = 5
OBSERVE: Final = 6
URI_PORT: Final = 7
LOCATION_PATH: Final = 8
OSCORE: Final = 9
LOCATION_QUERY: Final = 20
URI_PATH: Final = 11
CONTENT_FORMAT: Final = 12
MAX_AGE: Final = 14
URI_QUERY: Final = 15
HOP_LIMIT: Final = 16
ACCEPT: Final = 17
BLOCK2: Final = 23
BLOCK1: Final = 27
SIZE2: Final = 28
PROXY_URI: Final = 35
PROXY_SCHEME: Final = 39
SIZE1: Final = 60
ECHO: Final = 252
NO_RESPONSE: Final = 258
REQUEST_TAG: Final = 292

# number -> shortest, longest, may be repeated
_KNOWN: Final[dict[int, tuple[int, int, bool]]] = {
    IF_MATCH: (0, 8, True),
    URI_HOST: (1, 255, False),
    ETAG: (1, 8, True),
    IF_NONE_MATCH: (0, 0, False),
    OBSERVE: (0, 3, False),
    URI_PORT: (0, 2, False),
    OSCORE: (0, 255, False),
    URI_PATH: (0, 255, True),
    CONTENT_FORMAT: (0, 2, False),
    URI_QUERY: (0, 255, True),
    HOP_LIMIT: (1, 1, False),
    ACCEPT: (0, 2, False),
    BLOCK2: (0, 3, False),
    BLOCK1: (0, 3, False),
    SIZE2: (0, 4, False),
    PROXY_URI: (1, 1034, False),
    PROXY_SCHEME: (1, 255, False),
    SIZE1: (0, 4, False),
    ECHO: (1, 40, False),
    NO_RESPONSE: (0, 1, False),
    REQUEST_TAG: (0, 8, True),
}

ABSENT: Final = -1
_NUMBERS: Final = frozenset({CONTENT_FORMAT, ACCEPT, OBSERVE, BLOCK1, BLOCK2, SIZE1, NO_RESPONSE})


@final
class Fault:
    """Refusal of a request: the response code and the diagnostic payload (5.5.2)."""

    __slots__ = ("code", "text")

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        self.text = text


@final
class Options:
    """The decoded options of one request. A number is ABSENT (-1) without its option; Block values are raw.

    host             Uri-Host, "" without it
    port             Uri-Port, raw; b"" without it
    path             Uri-Path options, in order
    query            Uri-Query options, in order
    observe          0 registers, 1 deregisters
    size1            bytes of the whole request body
    no_response      bit set (RFC 7967)
    oscore           None: absent (RFC 8613)
    request_tag      RFC 9175
    fault            the refusal of invalid options, with which the other attributes are incomplete; None: valid
    plan             the Publication or Fault of `translate`, cached here because peers repeat the same options
    """

    __slots__ = (
        "accept", "block1", "block2", "content_format", "echo", "etags", "fault", "host", "if_match", "if_none_match",
        "no_response", "observe", "oscore", "path", "plan", "port", "query", "raw", "request_tag", "size1",
    )  # fmt: skip

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.host = ""
        self.port = b""
        self.path: list[str] = []
        self.query: list[str] = []
        self.content_format = ABSENT
        self.accept = ABSENT
        self.observe = ABSENT
        self.block1 = ABSENT
        self.block2 = ABSENT
        self.size1 = ABSENT
        self.no_response = 0
        self.etags: list[bytes] = []
        self.if_match: list[bytes] = []
        self.if_none_match = False
        self.echo = b""
        self.oscore: bytes | None = None
        self.request_tag: list[bytes] = []
        self.fault: Fault | None = None
        self.plan: object = None

    @property
    def plain(self) -> bool:
        """True when all requests with the same option bytes can share this object: no block, ETag, condition, Echo, OSCORE."""
        if self.block1 != ABSENT or self.block2 != ABSENT or self.oscore is not None:
            return False
        return not self.echo and not self.if_match and not self.etags


def read(pairs: Pairs, raw: bytes) -> Options:
    """Decode the options of a request. Never raises: an error sets `fault`."""
    options = Options(raw)
    previous = -1
    for number, value in pairs:
        known = _KNOWN.get(number)
        if known is None or len(value) < known[0] or len(value) > known[1] or (number == previous and not known[2]):
            if number & 1:
                options.fault = _unknown(number, known is not None)
                return options
            continue
        previous = number
        if number in (PROXY_URI, PROXY_SCHEME):
            options.fault = Fault(message.PROXYING_NOT_SUPPORTED, "this server is no proxy")
            return options
        fault = _text(options, number, value) if number in (URI_PATH, URI_QUERY, URI_HOST) else _value(options, number, value)
        if fault is not None:
            options.fault = fault
            return options
    return options


def _unknown(number: int, known: bool) -> Fault:
    why = "repeated, or its length is out of range" if known else "critical and not known here"
    return Fault(message.BAD_OPTION, f"option {number}: {why}")


def _text(options: Options, number: int, value: bytes) -> Fault | None:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return Fault(message.BAD_REQUEST, f"option {number} is not UTF-8")
    if number == URI_PATH:
        options.path.append(text)
    elif number == URI_QUERY:
        options.query.append(text)
    else:
        options.host = text
    return None


def _value(options: Options, number: int, value: bytes) -> Fault | None:
    if number in _NUMBERS:
        _number(options, number, int.from_bytes(value, "big"))
    elif number == ETAG:
        options.etags.append(value)
    elif number == IF_MATCH:
        options.if_match.append(value)
    elif number == IF_NONE_MATCH:
        options.if_none_match = True
    elif number == ECHO:
        options.echo = value
    elif number == OSCORE:
        options.oscore = value
    elif number == URI_PORT:
        options.port = value
    elif number == REQUEST_TAG:
        options.request_tag.append(value)
    elif number == HOP_LIMIT and value == b"\x00":
        return Fault(message.BAD_REQUEST, "Hop-Limit is 0")
    return None


def _number(options: Options, number: int, value: int) -> None:
    if number == CONTENT_FORMAT:
        options.content_format = value
    elif number == ACCEPT:
        options.accept = value
    elif number == OBSERVE:
        options.observe = value
    elif number == BLOCK1:
        options.block1 = value
    elif number == BLOCK2:
        options.block2 = value
    elif number == SIZE1:
        options.size1 = value
    else:
        options.no_response = value


@final
class KnownOptions:
    """The decoded options of recent requests, by their encoded form: peers repeat them, and decoding is most of the work."""

    __slots__ = ("by_bytes",)

    def __init__(self) -> None:
        self.by_bytes: dict[bytes, Options] = {}

    def decode(self, pairs: Pairs, raw: bytes) -> Options:
        """Decode options, and cache them for the next request with the same bytes."""
        options = read(pairs, raw)
        if options.plain and len(raw) <= KNOWN_OPTION_BYTES_MAX:
            if len(self.by_bytes) >= KNOWN_OPTIONS_MAX:
                self.by_bytes.clear()
            self.by_bytes[raw] = options
        return options
