"""SUBSCRIBE and UNSUBSCRIBE to commands, and their outcomes to codes (MQTT 5, 3.8 to 3.11)."""

from __future__ import annotations

from typing import Final, final

from domain.errors import Failure
from domain.session import SHARED, Interest, Subscribe, Unsubscribe
from protocols.mqtt import subscribe as packets
from protocols.mqtt.status import WORDS
from protocols.mqtt.wire import V5

FILTER_INVALID: Final = 0x8F


@final
class Subscribing:
    """One SUBSCRIBE under way; its ticket. `codes` has -1 where the gateway has yet to say."""

    __slots__ = ("codes", "packet_id", "version")

    def __init__(self, packet_id: int, version: int, codes: list[int]) -> None:
        self.packet_id = packet_id
        self.version = version
        self.codes = codes

    def suback(self, outcomes: list[Failure | None], granted: list[int]) -> bytes:
        """SUBACK once every outcome is known; below 5.0 there is one word for all refusals."""
        given = iter(zip(outcomes, granted, strict=True))
        codes = bytearray()
        for known in self.codes:
            code = known
            if known < 0:
                failure, level = next(given)
                code = level if failure is None else failure.word or WORDS[failure.code].subscribe
            codes.append(code if code < 0x80 or self.version == V5 else 0x80)
        return packets.encode_suback(packets.Suback(self.packet_id, bytes(codes)), self.version)


@final
class Subscribed:
    """The ticket of a Subscribe: what to answer with, and the levels asked for."""

    __slots__ = ("granted", "under_way")

    def __init__(self, under_way: Subscribing, granted: list[int]) -> None:
        self.under_way = under_way
        self.granted = granted


@final
class Unsubscribing:
    """The ticket of an Unsubscribe."""

    __slots__ = ("packet_id", "version")

    def __init__(self, packet_id: int, version: int) -> None:
        self.packet_id = packet_id
        self.version = version

    def unsuback(self, codes: bytes) -> bytes:
        """UNSUBACK."""
        return packets.encode_suback(packets.Suback(self.packet_id, codes, un=True), self.version)


def subscribe(packet: packets.Subscribe, version: int) -> tuple[Subscribing, Subscribe | None]:
    """The command for a SUBSCRIBE; None when none of its filters gets as far as that."""
    identifiers = packet.properties.subscription_ids
    identifier = identifiers[0] if identifiers else 0
    codes: list[int] = []
    interests: list[Interest] = []
    for name, options in packet.filters:
        group, pattern = "", name
        if name.startswith(SHARED):
            group, _, pattern = name.removeprefix(SHARED).partition("/")
            if group == "" or pattern == "":
                codes.append(FILTER_INVALID)
                continue
        codes.append(-1)
        interests.append(
            Interest(
                pattern,
                options & 3,
                options & packets.NO_LOCAL != 0,
                options & packets.RETAIN_AS_PUBLISHED != 0,
                options >> 4 & 3,
                identifier,
                group=group,
            )
        )
    under_way = Subscribing(packet.packet_id, version, codes)
    if not interests:
        return under_way, None
    ticket = Subscribed(under_way, [interest.level for interest in interests])
    return under_way, Subscribe(ticket, interests)


def unsubscribe(packet: packets.Unsubscribe, version: int) -> Unsubscribe:
    """The command for an UNSUBSCRIBE."""
    return Unsubscribe(Unsubscribing(packet.packet_id, version), packet.filters)
