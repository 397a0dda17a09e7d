"""Who is speaking: a protocol recognised from the first bytes of a connection (docs/ARCHITECTURE.md, shared ports).

    order   PROXY header, TLS ClientHello, HTTP/2 preface, WebSocket path, HTTP/1.1 request, MQTT CONNECT, remoting frame
    bytes   at most 24, the length of the HTTP/2 preface

`recognise` is a function of bytes. `Opening` is the connection that keeps bytes until the answer is there, and then
hands them to the connection that it has chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, final

from domain import limits
from domain.command import Command, Disconnected
from domain.event import Event
from protocols.adapter import Adapter, Connection, Peer
from protocols.proxy.header import begins

PROXY: Final = "proxy"
TLS: Final = "tls"
WEBSOCKET: Final = "websocket"
HTTP1: Final = "http1"
HTTP2: Final = "http2"
MQTT: Final = "mqtt"
REMOTING: Final = "remoting"
NOBODY: Final = "nobody"
"""No rule can match any more."""

RECOGNISE_BYTES_MAX: Final = 24
WEBSOCKET_REQUEST: Final = b"GET /mqtt"
"""What a request begins with that opens a WebSocket; a space or a question mark follows."""
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_TOKEN: Final = frozenset(b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_METHOD_BYTES_MAX: Final = RECOGNISE_BYTES_MAX - 1
_MQTT_NAMES: Final = (b"\x00\x04MQTT", b"\x00\x06MQIsdp")


def recognise(data: bytes) -> str:
    """The protocol that `data` begins, "" when more bytes are needed, NOBODY when none can tell any more.

    The rules are tried in their order; a rule that may still match keeps the later ones from answering.
    """
    head = bytes(data[:RECOGNISE_BYTES_MAX])
    if not head:
        return ""
    for name, rule in (
        (PROXY, begins),
        (TLS, _tls),
        (HTTP2, _http2),
        (WEBSOCKET, _websocket),
        (HTTP1, _http1),
        (MQTT, _mqtt),
        (REMOTING, _remoting),
    ):
        verdict = rule(head)
        if verdict is None:
            return ""
        if verdict:
            return name
    return NOBODY


def _tls(head: bytes) -> bool | None:
    """A handshake record of any TLS version: `16 03` (RFC 8446 section 5.1)."""
    if head[0] != 0x16:
        return False
    return None if len(head) < 2 else head[1] == 0x03


def _http2(head: bytes) -> bool | None:
    """The client's connection preface (RFC 9113 section 3.4)."""
    if not PREFACE.startswith(head):
        return False
    return True if len(head) == len(PREFACE) else None


def _websocket(head: bytes) -> bool | None:
    """A request to the path that WebSockets are opened at; where nobody serves them, it is plain HTTP/1.1."""
    if len(head) <= len(WEBSOCKET_REQUEST):
        return None if WEBSOCKET_REQUEST.startswith(head) else False
    return head.startswith(WEBSOCKET_REQUEST) and head[len(WEBSOCKET_REQUEST)] in b" ?"


def _http1(head: bytes) -> bool | None:
    """A method and a space (RFC 9112 section 3): a token of at most 23 bytes."""
    for index, byte in enumerate(head):
        if byte == 0x20:
            return index > 0
        if byte not in _TOKEN:
            return False
    return None if len(head) <= _METHOD_BYTES_MAX else False


def _mqtt(head: bytes) -> bool | None:
    """CONNECT: `10`, a remaining length of one to four bytes, and the protocol's name (MQTT 5.0 sections 2.1, 3.1.2.1)."""
    if head[0] != 0x10:
        return False
    for index in range(1, 5):
        if index == len(head):
            return None
        if head[index] < 0x80:
            break
    else:
        return False
    name = head[index + 1 :]
    if any(name.startswith(full) for full in _MQTT_NAMES):
        return True
    return None if any(full.startswith(name) for full in _MQTT_NAMES) else False


def _remoting(head: bytes) -> bool | None:
    """A frame length of at most 16 MiB, then serialize type 0 or 1 and a header length within the frame."""
    if head[0] > 0x01:
        return False
    if len(head) >= 4:
        frame = int.from_bytes(head[:4], "big")
        if not 4 <= frame <= limits.REMOTING_FRAME_BYTES_MAX:
            return False
        if len(head) >= 5 and head[4] > 1:
            return False
        if len(head) >= 8:
            return int.from_bytes(head[5:8], "big") <= frame - 4
    return None


class SecureConnection(Connection, Protocol):
    """The TLS end of a connection, which finds out later who speaks inside."""

    @property
    def protocol(self) -> str:
        """The protocol inside, "" while undecided."""


Secure = Callable[[Peer, int], SecureConnection]
"""Makes the TLS end of a connection; it lives where TLS lives, in `gateway.runtime.tls`."""


@final
class Opening:
    """A connection that does not know its protocol yet; a `Connection` like any other until `chosen` is another.

    adapters   the protocols that this port takes in the clear, by name
    secure     makes the TLS end; None: this port takes no TLS, or this is inside it already
    Undecided after 10 s, or when no rule can match: closed and counted.
    """

    __slots__ = ("_adapters", "_deadline", "_inner", "_kept", "_name", "_peer", "_secure", "chosen", "closed", "reading")

    def __init__(self, adapters: Mapping[str, Adapter], secure: Secure | None, peer: Peer, now: int) -> None:
        self._adapters = adapters
        self._secure = secure
        self._peer = peer
        self._kept = b""
        self._deadline = now + limits.HANDSHAKE_NS
        self._name = ""
        self._inner: SecureConnection | None = None
        self.reading = True
        self.closed = False
        self.chosen: Connection = self

    @property
    def peer(self) -> Peer:
        """Who is at the other end."""
        return self._peer

    @property
    def protocol(self) -> str:
        """The name of the protocol, "" while undecided."""
        if self._inner is not None:
            return self._inner.protocol
        # HTTP/2 carries several applications: whose the first request is, that is spoken.
        spoken: str = getattr(self.chosen, "spoken", HTTP2) if self._name == HTTP2 else self._name
        return HTTP2 if spoken == "http" else spoken

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """Keep bytes until they tell; then hand all of them to the chosen connection."""
        if self.chosen is not self:
            return self.chosen.receive(data, now)
        if not data:
            return self._end("unrecognised-end" if self._kept else "silent")
        self._kept += data
        name = recognise(self._kept)
        if name == "":
            return ()
        if name == WEBSOCKET and name not in self._adapters:
            name = HTTP1
        if name == PROXY:
            # Whoever may send one has it read before this (protocols.proxy).
            return self._end("proxy-refused")
        if name == TLS and self._secure is not None:
            self._inner = self.chosen = self._secure(self._peer, now)
        elif name in self._adapters:
            self.chosen = self._adapters[name].connect(self._peer, now)
        else:
            return self._end("unrecognised")
        self._name = name
        kept, self._kept = self._kept, b""
        return self.chosen.receive(kept, now)

    def answer(self, event: Event, now: int) -> None:
        """Nothing was asked yet, so nothing is answered."""
        if self.chosen is not self:
            self.chosen.answer(event, now)

    def outgoing(self) -> Sequence[bytes]:
        """Nothing: whoever is not recognised gets no bytes, for we would not know in which language."""
        return () if self.chosen is self else self.chosen.outgoing()

    def deadline(self) -> int | None:
        """Ten seconds after the connection was made."""
        return self._deadline if self.chosen is self else self.chosen.deadline()

    def expire(self, now: int) -> Sequence[Command]:
        """The time is up."""
        return self._end("unrecognised-late") if self.chosen is self else self.chosen.expire(now)

    def _end(self, reason: str) -> Sequence[Command]:
        if self.closed:
            return ()
        self.closed = True
        return (Disconnected(reason),)
