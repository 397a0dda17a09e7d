"""A connection from one node to another, from the side that connects: a greeting, then frames in both directions. No I/O.

    -> 30010 GREET_NODE, signed            <- its response
    -> 30011 NODE_FRAME, oneway            <- 30011 NODE_FRAME, oneway
    -> 46 CHECK_CLIENT_CONFIG as a ping    <- any response

See docs/protocols/remoting-extensions.md. The contents of frames are the concern of `NodeSpeaker`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, final

from domain.errors import GatewayError
from domain.refusal import TLS_ONLY
from protocols.remoting import codes
from protocols.remoting.codes import GREET_NODE, NODE_FRAME
from protocols.remoting.wire.frame import Frame, FrameDecoder, encode
from protocols.remoting.wire.header import BINARY, FLAG_ONEWAY, LANGUAGE_OTHER

_HELLO_OPAQUE: Final = 1
_KEY_WANTED: Final = "give a Super user of the store in access_key_file"

Sign = Callable[[Mapping[str, str], bytes], dict[str, str]]
"""Ext fields and body of a request -> the ext fields with those that prove who sends it."""


class NodeSpeaker(Protocol):
    """The user of the connections to a node, one after the other."""

    def greeting(self) -> bytes:
        """The body of a request GREET_NODE."""

    def greeted(self, body: bytes) -> None:
        """The body of its response. Raises WireError: this is no node to speak to."""

    def connected(self, send: Callable[[bytes], None]) -> None:
        """Both sides know each other; `send` puts the body of a NODE_FRAME on the connection."""

    def received(self, body: bytes) -> None:
        """The body of a NODE_FRAME. Raises WireError: the connection has to be closed."""

    def doubt(self) -> str:
        """Text of a refusal since the last call that another replica might not give; "": there was none."""

    def lost(self) -> None:
        """The connection is gone."""


class DialogError(GatewayError):
    """The connection has to be closed; the text names the received message, and the remedy."""


@final
class NodeDialog:
    """One connection.

    greeted   True once the other node has answered the greeting
    """

    def __init__(self, speaker: NodeSpeaker, sign: Sign | None, write: Callable[[bytes], None]) -> None:
        """`sign` adds a signature to the ext fields of a request with a body; None: the other node does not control access."""
        self.greeted = False
        self._speaker = speaker
        self._sign = sign
        self._write = write
        self._decoder = FrameDecoder()
        self._opaque = _HELLO_OPAQUE
        self._ended = False

    def open(self) -> None:
        """The connection is there: greet."""
        self._request(GREET_NODE, _HELLO_OPAQUE, self._speaker.greeting())

    def receive(self, data: bytes) -> None:
        """Bytes of the other node. Raises DialogError, and WireError of the speaker."""
        for frame in self._decoder.feed(data):
            self._take(frame)
        if self._decoder.fault:
            raise DialogError(f"it does not speak the remoting protocol ({self._decoder.fault}): is this its remoting port?")

    def _take(self, frame: Frame) -> None:
        if not frame.response:
            if frame.code != NODE_FRAME or not self.greeted:
                raise DialogError(f"it sends request code {frame.code}, which no store sends: is this a store of Headgate?")
            self._speaker.received(frame.body)
        elif frame.opaque == _HELLO_OPAQUE and not self.greeted:
            self._answered(frame)

    def _answered(self, frame: Frame) -> None:
        if frame.code == codes.NOT_SUPPORTED:
            raise DialogError("it does not know gateways: start a node of this version there, with the role store")
        if frame.code == codes.NO_PERMISSION:
            without_tls = frame.remark == TLS_ONLY
            remedy = "name the authority of its certificate in store_ca" if without_tls else _KEY_WANTED
            raise DialogError(f"it refuses this gateway ({frame.remark}): {remedy}")
        if frame.code != codes.SUCCESS:
            raise DialogError(f"it refuses this gateway (code {frame.code}: {frame.remark})")
        self._speaker.greeted(frame.body)
        self.greeted = True
        self._speaker.connected(self._send)

    def _send(self, body: bytes) -> None:
        if not self._ended:
            self._write(encode(NODE_FRAME, 0, body=body, flag=FLAG_ONEWAY, serialize=BINARY, language=LANGUAGE_OTHER))

    def doubt(self) -> str:
        """NodeSpeaker.doubt."""
        return self._speaker.doubt()

    def ping(self) -> None:
        """Send a request that the other node has to answer, to learn whether it lives."""
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        self._request(codes.CHECK_CLIENT, self._opaque, b"{}")

    def _request(self, code: int, opaque: int, body: bytes) -> None:
        fields = {} if self._sign is None else self._sign({}, body)
        self._write(encode(code, opaque, fields=fields, body=body, serialize=BINARY, language=LANGUAGE_OTHER))

    def end(self) -> None:
        """The connection is closed."""
        if not self._ended:
            self._ended = True
            if self.greeted:
                self._speaker.lost()
