"""Records routed to MQTT sessions, and their deliveries."""

from __future__ import annotations

from typing import final

from domain.message.message import SYS_COMPRESSED
from domain.message.record import Record


@final
class RoutedRecord:
    """One record that is delivered to sessions. All receivers of a record share one instance.

    stored      its encoded properties
    path        topic name that the message was published to
    level       QoS of the publisher; AT_LEAST_ONCE for messages that did not arrive by MQTT
    compressed  True: an SDK has compressed the body
    forms       encodings made so far, by a key that the adapter chooses
    """

    __slots__ = ("compressed", "forms", "level", "path", "record", "stored")

    def __init__(self, record: Record, stored: bytes, path: str, level: int) -> None:
        self.record = record
        self.stored = stored
        self.path = path
        self.level = level
        self.compressed = record.sys_flag & SYS_COMPRESSED != 0
        self.forms: dict[tuple[int, ...], tuple[bytes, bytes]] = {}


@final
class Delivery:
    """One record for one session.

    level        QoS of this delivery
    slot         number in the in-flight window, 1 to SLOT_MAX; 0 at AT_MOST_ONCE
    duplicate    DUP flag: the message may have been delivered before
    identifiers  Subscription Identifiers of the subscriptions that match
    """

    __slots__ = ("duplicate", "identifiers", "level", "retained", "routed", "slot")

    def __init__(
        self, routed: RoutedRecord, level: int, slot: int, retained: bool, duplicate: bool, identifiers: tuple[int, ...]
    ) -> None:
        self.routed = routed
        self.level = level
        self.slot = slot
        self.retained = retained
        self.duplicate = duplicate
        self.identifiers = identifiers
