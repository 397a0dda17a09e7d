"""The adapters of CoAP for datagrams, streams and WebSockets, and the declaration of the protocol."""

from __future__ import annotations

from typing import Final, final

from protocols.adapter import Peer
from protocols.coap.connection import CoapConnection
from protocols.coap.endpoint import CoapEndpoint
from protocols.coap.message.frame import StreamFraming, WebSocketFraming
from protocols.coap.reasons import WORDS
from protocols.coap.refusal import refusal
from protocols.coap.settings import CoapSettings
from protocols.coap.stream.streams import Streams
from protocols.declaration import Declaration, Listener
from protocols.setting import Setting


@final
class CoapAdapter:
    """The datagram adapter of CoAP over UDP and DTLS."""

    name = "coap"

    def __init__(self, setting: Setting, config: CoapSettings) -> None:
        self.setting = setting
        self.config = config

    def bind(self, now: int) -> CoapEndpoint:
        """State of one bound socket, of UDP or of DTLS."""
        return CoapEndpoint(self.setting, self.config, now)


@final
class CoapStreamAdapter:
    """The stream adapter of CoAP over TCP and TLS (RFC 8323).

    over_websockets   the adapter for CoAP inside WebSockets, with the same shared state
    """

    name = "coap"

    def __init__(self, setting: Setting, config: CoapSettings) -> None:
        self._streams = Streams(setting, config)
        self.over_websockets = CoapWebSocketAdapter(self._streams)

    def connect(self, peer: Peer, now: int) -> CoapConnection:
        """A new connection; its CSM must have come within 10 s."""
        return CoapConnection(self._streams, StreamFraming(self._streams.config.message_bytes_max), peer, now)


@final
class CoapWebSocketAdapter:
    """The adapter of CoAP inside WebSockets: a WebSocket message is a CoAP message (RFC 8323, section 4).

    message_bytes_max   largest message, in bytes
    uploads             budget for the bytes of unfinished messages, of all protocols together
    """

    name = "coap"

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self.message_bytes_max = streams.config.message_bytes_max
        self.uploads = streams.setting.uploads

    def connect(self, peer: Peer, now: int) -> CoapConnection:
        """A new connection; its CSM must have come within 10 s."""
        return CoapConnection(self._streams, WebSocketFraming(), peer, now)


PROTOCOL: Final = Declaration(
    "coap",
    settings=CoapSettings,
    stream=CoapStreamAdapter,
    datagram=CoapAdapter,
    listeners=(
        Listener("coap", 5683, "CoAP (UDP)", datagrams=True, place=90),
        Listener("coaps", 5684, "CoAP over DTLS (UDP)", datagrams=True, secure=True, place=93),
        Listener("coap-tcp", 5683, "CoAP over TCP", ("coap",), place=91),
        Listener("coaps-tcp", 5684, "CoAP over TLS", ("coap",), secure=True, place=92),
    ),
    path="/.well-known/coap",
    alpn=("coap",),
    refusal=refusal,
    words=WORDS,
)
