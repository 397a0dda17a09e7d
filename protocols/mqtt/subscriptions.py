"""SUBSCRIBE and UNSUBSCRIBE to commands, and the outcomes to SUBACK and UNSUBACK (MQTT 5, 3.8 to 3.11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.client.mqtt_session import SHARED, MqttSubscription, Subscribe, Subscribed, Unsubscribe, Unsubscribed
from domain.errors import Failure
from protocols.adapter import ignore_refusal
from protocols.mqtt import subscribe as packets
from protocols.mqtt.handshake import Terms
from protocols.mqtt.settings import MqttSettings
from protocols.mqtt.status import FILTERS, subscribe_code
from protocols.mqtt.wire import V5

FILTER_INVALID: Final = 0x8F
QUOTA: Final = 0x97
SHARED_UNAVAILABLE: Final = 0x9E
IDENTIFIERS_UNAVAILABLE: Final = 0xA1
WILDCARDS_UNAVAILABLE: Final = 0xA2
SUBSCRIBED_MAX: Final = 1_024
"""Filters of one SUBSCRIBE that the gateway is asked for: as many as a session may have. Those behind them are refused."""


@final
class Subscribing:
    """One SUBSCRIBE that waits for the gateway: the ticket of its command.

    codes     reason code of each filter, in order; -1 where the gateway decides
    words     reason string of the first refusal
    granted   QoS granted to each filter that was sent to the gateway, in order
    """

    def __init__(self, packet_id: int, terms: Terms, codes: list[int], words: str, granted: list[int]) -> None:
        self.packet_id = packet_id
        self.terms = terms
        self.codes = codes
        self.words = words
        self.granted = granted

    def suback(self, outcomes: list[Failure | None]) -> bytes:
        """The SUBACK, from the gateway's outcome for each filter that it was sent. Below 5.0 every refusal is 0x80."""
        given = iter(zip(outcomes, self.granted, strict=True))
        version = self.terms.version
        words = self.words
        codes = bytearray()
        for known in self.codes:
            code = known
            if known < 0:
                failure, level = next(given)
                code = level if failure is None else subscribe_code(failure)
                words = words if failure is None else words or failure.text
            codes.append(code if code < 0x80 or version == V5 else 0x80)
        why = self.terms.reason_string(words, len(codes))
        return packets.encode_suback(packets.Suback(self.packet_id, bytes(codes), why), version)


@final
class Unsubscribing:
    """The ticket of an Unsubscribe command for `count` filters."""

    def __init__(self, packet_id: int, terms: Terms, count: int) -> None:
        self.packet_id = packet_id
        self.terms = terms
        self.count = count

    def unsuback(self, codes: list[int], words: str = "") -> bytes:
        """The UNSUBACK with one reason code a filter, in order; below 5.0 without codes."""
        why = self.terms.reason_string(words, len(codes))
        return packets.encode_suback(packets.Suback(self.packet_id, bytes(codes), why, un=True), self.terms.version)


def subscribe(
    packet: packets.Subscribe, terms: Terms, config: MqttSettings, refused: Callable[[str, str], None] = ignore_refusal
) -> Subscribe | bytes:
    """The command for a SUBSCRIBE, or its SUBACK when every filter is refused here. `refused` counts the refused filters."""
    identifiers = packet.properties.subscription_ids
    identifier = identifiers[0] if identifiers else 0
    codes: list[int] = []
    subscriptions: list[MqttSubscription] = []
    implied = packets.NO_LOCAL | packets.RETAIN_AS_PUBLISHED if terms.bridge else 0
    for name, given in packet.filters:
        options, group, pattern = given | implied, "", name
        if name.startswith(SHARED):
            options = given
            group, _, pattern = name.removeprefix(SHARED).partition("/")
        code = QUOTA if len(subscriptions) >= SUBSCRIBED_MAX else _refusal(name, group, pattern, identifier, config)
        codes.append(code)
        if code > 0:
            refused("mqtt", FILTERS[code])
            continue
        subscriptions.append(
            MqttSubscription(
                pattern,
                min(options & 3, config.qos_max),
                options & packets.NO_LOCAL != 0,
                options & packets.RETAIN_AS_PUBLISHED != 0,
                options >> 4 & 3,
                identifier,
                group=group,
            )
        )
    words = next((_WORDS[code] for code in codes if code > 0), "")
    ticket = Subscribing(packet.packet_id, terms, codes, words, [subscription.level for subscription in subscriptions])
    return Subscribe(ticket, subscriptions) if subscriptions else ticket.suback([])


def response(event: Subscribed | Unsubscribed) -> bytes:
    """SUBACK or UNSUBACK for an event of the gateway; b"" when the ticket is not one of this module."""
    ticket = event.ticket
    if isinstance(event, Subscribed):
        return ticket.suback(event.outcomes) if isinstance(ticket, Subscribing) else b""
    return ticket.unsuback([0 if found else 0x11 for found in event.found]) if isinstance(ticket, Unsubscribing) else b""


_WORDS: Final = {
    FILTER_INVALID: "not a topic filter, or a share without a name",
    QUOTA: f"a SUBSCRIBE may add {SUBSCRIBED_MAX} filters",
    SHARED_UNAVAILABLE: "shared subscriptions are switched off here",
    IDENTIFIERS_UNAVAILABLE: "subscription identifiers are switched off here",
    WILDCARDS_UNAVAILABLE: "wildcards are switched off here",
}


def _refusal(name: str, group: str, pattern: str, identifier: int, config: MqttSettings) -> int:
    """Reason code of a filter that is refused without asking the gateway; -1: not refused."""
    if name.startswith(SHARED):
        if not config.shared_available:
            return SHARED_UNAVAILABLE
        if group == "" or pattern == "":
            return FILTER_INVALID
    if identifier and not config.identifiers_available:
        return IDENTIFIERS_UNAVAILABLE
    return WILDCARDS_UNAVAILABLE if not config.wildcards_available and ("+" in pattern or "#" in pattern) else -1


def unsubscribe(packet: packets.Unsubscribe, terms: Terms) -> Unsubscribe:
    """The command for an UNSUBSCRIBE."""
    return Unsubscribe(Unsubscribing(packet.packet_id, terms, len(packet.filters)), packet.filters)
