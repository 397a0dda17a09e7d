"""The adapters of CoAP for datagrams, streams and WebSockets, and the declaration of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from domain.errors import ErrorCode
from domain.refusal import Ending, Reason
from protocols.adapter import Peer
from protocols.coap import status
from protocols.coap.connection import CoapConnection
from protocols.coap.endpoint import CoapEndpoint
from protocols.coap.message import option
from protocols.coap.message.frame import StreamFraming, WebSocketFraming
from protocols.coap.message.message import ACK, CON, EMPTY, HEADER_BYTES, RST, UNAVAILABLE, decode, empty, encode, join, uint
from protocols.coap.settings import CoapSettings
from protocols.coap.stream.streams import Streams
from protocols.declaration import Declaration, Listener
from protocols.setting import Setting

_RETRY: Final = join([(option.MAX_AGE, uint(status.RETRY_AFTER_S))])
WORDS: Final[Mapping[str, Reason | None]] = {
    "format-error": Ending.MALFORMED,
    "requests": ErrorCode.OVERLOADED,
    "duplicate-table": ErrorCode.OVERLOADED,
    "challenged": ErrorCode.NOT_AUTHENTICATED,
    "observers": ErrorCode.QUOTA,
    "oscore-cose": ErrorCode.PROPERTY_ILLEGAL,
    "oscore-unknown": ErrorCode.NOT_AUTHENTICATED,
    "oscore-replay": ErrorCode.NOT_AUTHENTICATED,
    "oscore-decrypt": ErrorCode.NOT_AUTHENTICATED,
    "oscore-fresh": ErrorCode.NOT_AUTHENTICATED,
    "oscore-numbers": ErrorCode.OVERLOADED,
    "peer-rate": ErrorCode.RATE,
    "4.00": ErrorCode.ARGUMENT_ILLEGAL,
    "4.01": ErrorCode.NOT_AUTHENTICATED,
    "4.02": ErrorCode.PROPERTY_ILLEGAL,
    "4.03": ErrorCode.NOT_ALLOWED,
    "4.04": ErrorCode.MESSAGE_NOT_FOUND,
    "4.05": ErrorCode.NOT_SUPPORTED,
    "4.06": ErrorCode.MEDIA_TYPE,
    "4.08": Ending.CUT_SHORT,
    "4.09": ErrorCode.TYPE_CONFLICT,
    "4.12": ErrorCode.ARGUMENT_ILLEGAL,
    "4.13": ErrorCode.MESSAGE_TOO_LARGE,
    "4.15": ErrorCode.MEDIA_TYPE,
    "4.22": ErrorCode.FILTER_ILLEGAL,
    "4.29": ErrorCode.RATE,
    "5.00": ErrorCode.INTERNAL,
    "5.01": ErrorCode.NOT_SUPPORTED,
    "5.03": ErrorCode.OVERLOADED,
    "5.04": ErrorCode.FLUSH_TIMEOUT,
    "5.05": ErrorCode.NOT_SUPPORTED,
    "5.08": ErrorCode.ARGUMENT_ILLEGAL,
    # Ends of connections.
    "no-csm": Ending.PROTOCOL_ERROR,
    "signal-option": Ending.PROTOCOL_ERROR,
    "aborted-by-peer": Ending.GOODBYE,
    # Sessions of DTLS.
    "dtls-cookie": None,
    "dtls-stray": None,
    "dtls-evicted": Ending.TAKEN_OVER,
    # Dropped datagrams that are not refusals of a request.
    "duplicate": None,
    "stray": None,
    "ignored": None,
    "unanswered": None,
    "unsendable": None,
    "no-message-id": None,
}


def refusal(data: bytes) -> bytes:
    """The answer of a node that does not serve CoAP: 5.03 with Max-Age for a confirmable request, whose client then retries.

    Other confirmable messages get a Reset (RFC 7252, section 4.2), any other datagram nothing (b""). The answer is never longer
    than `data`: a request without options has no room for Max-Age, and gets a Reset too.
    """
    if len(data) < HEADER_BYTES or data[0] >> 6 != 1 or data[0] >> 4 & 3 != CON:
        return b""
    packet = decode(data)
    if packet is not None and packet.code != EMPTY and packet.code >> 5 == 0:
        said = encode(ACK, UNAVAILABLE, packet.mid, packet.token, _RETRY, b"")
        if len(said) <= len(data):
            return said
    return empty(RST, data[2] << 8 | data[3])


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
