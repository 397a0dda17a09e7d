"""The settings of CoAP: table `[coap]` of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from domain import limits

Count = Annotated[int, Meta(ge=1)]


@dataclass(frozen=True, slots=True)
class CoapSettings:
    """Settings of one CoAP endpoint. The suffix of a name is its unit.

    datagram_bytes_max      a larger datagram is refused with 4.13; most clients send at most 1,152 bytes
    block_bytes             preferred block size of responses: 16, 32, … 1,024
    block1_bytes_max        largest body of a Block1 request; above it 4.13 with Size1
    block1_peer_bytes_max   unfinished bodies of one peer together; the oldest are dropped first
    block1_total_bytes_max  unfinished bodies of all peers together; the oldest are dropped first
    pinned_bytes_max        values that are kept so that all their Block2 blocks are of one version
    answers_bytes_max       memory of the duplicate table; when it is full, new requests are answered 5.03 for some seconds
    peers_max               addresses remembered at once; idle ones are forgotten first
    observers_max           observations of all peers
    observers_network_max   observations of one IPv4 address or IPv6 /64, whatever their ports
    observers_peer_max      observations of one peer
    observers_path_max      observations of one peer on one path
    backlog_max             values of one path that wait for its observers; the oldest are dropped first
    backlog_bytes_max       bytes of the values of one path that wait for its observers; the oldest are dropped first
    backlogs_bytes_max      bytes of the values of all paths that wait for observers; the largest lose their oldest first
    requests_max            requests in execution; more are answered 5.03
    requests_peer_max       requests of one peer in execution; more are answered 5.03
    requests_peer_per_s     requests of one peer a second, over UDP and DTLS; above it 4.29, then silence; 0: any number
    requests_stream_max     requests of one connection (TCP, TLS, WebSocket) in execution; it is not read meanwhile
    message_bytes_max       Max-Message-Size: largest message over a connection; a larger one ends it
    idle_seconds            a connection that is silent for so long is asked by a Ping; it has 30 s to answer
    ack_delay_ms            a confirmable request that takes longer gets an empty ACK, then a separate response
    amplification           an unverified address gets at most this many times the bytes that it has sent; 0: no limit
    """

    datagram_bytes_max: Count = 8_192
    block_bytes: Literal[16, 32, 64, 128, 256, 512, 1024] = 1_024
    block1_bytes_max: Annotated[int, Meta(ge=1, le=limits.BODY_BYTES_MAX)] = limits.COAP_BLOCK1_BYTES_MAX
    block1_peer_bytes_max: Count = 4 * 1024 * 1024
    block1_total_bytes_max: Count = 8 * 1024 * 1024
    pinned_bytes_max: Count = 3 * 1024 * 1024
    answers_bytes_max: Count = 64 * 1024 * 1024
    peers_max: Count = 16_000
    observers_max: Count = 100_000
    observers_network_max: Count = 5_000
    observers_peer_max: Count = 1_024
    observers_path_max: Count = 8
    backlog_max: Count = 1_024
    backlog_bytes_max: Count = 4 * 1024 * 1024
    backlogs_bytes_max: Count = 8 * 1024 * 1024
    requests_max: Count = 65_536
    requests_peer_max: Count = 4_096
    requests_peer_per_s: Annotated[int, Meta(ge=0)] = 20_000
    requests_stream_max: Count = 256
    message_bytes_max: Annotated[int, Meta(ge=1_152, le=limits.BODY_BYTES_MAX + 65_536)] = 1024 * 1024 + 65_536
    idle_seconds: Count = 300
    ack_delay_ms: Count = 1_000
    amplification: Annotated[int, Meta(ge=0)] = 3
