"""A request of either HTTP version, its bounds, and the checks of its head (RFC 9110)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final, final

from domain import limits
from domain.errors import ErrorCode
from domain.message import property as properties
from protocols.adapter import Peer
from protocols.host_shares import HostShare
from protocols.http.problem import RefusalError, problem, refuse
from protocols.http.response import Fields, Response
from protocols.request_line import absolute

_ONCE: Final = frozenset(
    (
        b"host",
        b"content-type",
        b"content-length",
        b"expect",
        b"authorization",
        b"mq-retain",
        b"idempotency-key",
        b"origin",
        b"sec-fetch-site",
        b"last-event-id",
        b"sec-websocket-key",
        b"webhook-request-origin",
        b"sec-websocket-version",
    )
)
TRACEPARENT: Final = properties.TRACEPARENT.encode()
TRACESTATE: Final = properties.TRACESTATE.encode()
_LISTS: Final = frozenset(
    (
        b"content-encoding",
        b"transfer-encoding",
        b"prefer",
        b"accept",
        b"upgrade",
        b"user-agent",
        b"access-control-request-method",
        b"access-control-request-headers",
        TRACEPARENT,
        TRACESTATE,
    )
)
_KNOWN: Final = _ONCE | _LISTS
HEAD_BYTES_MAX: Final = 16 * 1024
TARGET_BYTES_MAX: Final = 8 * 1024
DISCARDED_BYTES_MAX: Final = 64 * 1024
"""Bytes of content that are read and discarded after a refusal, so that the client reads the response."""
CONTENT_BYTES_PER_S: Final = 32 * 1024
"""The slowest content that is waited for, behind the first ten seconds."""
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
INFLATED_BYTES_PER_SLICE: Final = 512 * 1024
"""Bytes that one slice of the work decompresses, some 0.5 ms."""


@final
class Request:
    """One request.

    fields     all header fields in order, names in lower case, values raw
    body       the content; complete, and decoded by `content`, when `Handler.start` is called
    length     bytes of content by Content-Length; 0: it is absent or empty, -1: it is no number of at most 12 digits
    host       name of this node that is addressed: the authority of a target in absolute-form, else field Host; b"": neither
    tunnel     True: an extended CONNECT of HTTP/2 for a WebSocket (RFC 8441), with the method GET
    repeated   name of a field that occurs twice and must not; b"" when none does
    _known     values of the fields that handlers read, by name
    """

    __slots__ = ("_known", "body", "fields", "host", "length", "method", "peer", "repeated", "target", "tunnel")

    def __init__(self, method: bytes, target: bytes, fields: Fields, peer: Peer) -> None:
        self.method = method
        self.target = target
        self.fields = fields
        self.peer = peer
        self.body = b""
        self.repeated = b""
        self.tunnel = False
        known: dict[bytes, bytes] = {}
        for name, value in fields:
            if name in _KNOWN:
                if name not in known:
                    known[name] = value
                elif name in _LISTS:
                    known[name] = known[name] + b", " + value
                else:
                    self.repeated = name
        self._known = known
        self.host = known.get(b"host", b"")
        if target[:1] != b"/":
            found = absolute(target)
            if found is not None:
                self.host = found[0]
        length = known.get(b"content-length", b"")
        self.length = 0 if not length else int(length) if len(length) <= 12 and length.isdigit() else -1

    def field(self, name: bytes) -> bytes:
        """The value of a field that handlers read; b"" when it is absent."""
        return self._known.get(name, b"")

    def know(self, name: bytes, value: bytes) -> None:
        """Set the value of a field."""
        self._known[name] = value

    def prefers(self, preference: bytes) -> bool:
        """True when Prefer (RFC 7240) contains `preference`."""
        value = self._known.get(b"prefer")
        return value is not None and preference in [one.partition(b";")[0].strip().lower() for one in value.split(b",")]

    def accepts(self, media_type: bytes) -> bool:
        """True when Accept names exactly `media_type`; wildcards do not count."""
        value = self._known.get(b"accept")
        return value is not None and media_type in [one.partition(b";")[0].strip().lower() for one in value.split(b",")]

    def trace(self) -> list[tuple[str, str]]:
        """The trace context of the request (W3C Trace Context, 3): its fields that can be stored, by the names of properties.

        A field that cannot be stored, or that comes twice and must not, is ignored: tracing never makes a request fail.
        """
        out: list[tuple[str, str]] = []
        if TRACEPARENT not in self._known and TRACESTATE not in self._known:
            return out
        for key in (properties.TRACEPARENT, properties.TRACESTATE):
            value = self._known.get(key.encode(), b"").decode("latin-1")
            if properties.is_storable(key, value) and (key == properties.TRACESTATE or "," not in value):
                out.append((key, value))
        return out

    def has(self, name: bytes) -> bool:
        """True when the field is present, even when it is empty."""
        return name in self._known


def head_fault(request: Request, body_max: int) -> Response | None:
    """The refusal of an invalid head, None when it is valid."""
    if request.repeated:
        return problem(400, "request-syntax", f"field {request.repeated.decode('latin-1')} is given twice")
    if request.length < 0 or request.length > body_max:
        detail = f"the content is above {body_max} bytes" if body_max else "this path takes no content"
        return problem(413, ErrorCode.MESSAGE_TOO_LARGE.value, detail, limit=body_max)
    expect = request.field(b"expect")
    if expect and expect.lower() != b"100-continue":
        return problem(417, "expectation-failed", "only 100-continue can be expected")
    encoding = request.field(b"content-encoding")
    if encoding and encoding.lower() not in (b"gzip", b"x-gzip", b"deflate", b"identity"):
        detail = f"content coding {encoding.decode('latin-1')} is not spoken here"
        return problem(415, ErrorCode.MEDIA_TYPE.value, detail, [(b"accept-encoding", b"gzip, deflate")])
    return None


def is_discardable(request: Request) -> bool:
    """True when the client of a refused request sends its content without waiting for an answer, and little of it."""
    return not request.has(b"expect") and 0 <= request.length <= DISCARDED_BYTES_MAX


def content_due(began: int, size: int) -> int:
    """Monotonic ns by which a request must be complete: 10 s after it `began`, and 1 s more for each 32 KiB of content."""
    return began + limits.FRAME_NS + size * limits.SECOND_NS // CONTENT_BYTES_PER_S


def is_compressed(request: Request) -> bool:
    """True when the body has to be decompressed."""
    encoding = request.field(b"content-encoding")
    return encoding != b"" and encoding.lower() != b"identity"


def inflate(request: Request, body_max: int, share: HostShare) -> Iterator[None]:
    """Decompress the body, at most `body_max` bytes; yields after each slice of INFLATED_BYTES_PER_SLICE.

    `share` holds the bytes. Raises RefusalError, also when there is no room for them.
    """
    stream = zlib.decompressobj(_GZIP_OR_ZLIB)
    pieces: list[bytes] = []
    data, size = request.body, 0
    request.body = b""
    while True:
        try:
            piece = stream.decompress(data, INFLATED_BYTES_PER_SLICE)
        except zlib.error:
            raise refuse(ErrorCode.MESSAGE_ILLEGAL, "the content is not what Content-Encoding says") from None
        size += len(piece)
        if size > body_max:
            raise refuse(ErrorCode.MESSAGE_TOO_LARGE, f"the content is above {body_max} bytes when decoded", limit=body_max)
        if not share.take(len(piece)):
            raise no_room()
        pieces.append(piece)
        data = stream.unconsumed_tail
        if stream.eof or not (data or len(piece) == INFLATED_BYTES_PER_SLICE):
            break
        yield
    if not stream.eof or stream.unused_data:
        raise refuse(ErrorCode.MESSAGE_ILLEGAL, "the content is cut short, or there is more after it")
    request.body = b"".join(pieces)


def no_room() -> RefusalError:
    """503: the unfinished requests of all clients hold too many bytes."""
    refusal = refuse(ErrorCode.OVERLOADED, "too many bytes of unfinished requests are held: send the request again")
    refusal.response.refusal = "uploads-full"
    return refusal
