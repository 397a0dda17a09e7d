"""Records routed to MQTT sessions, their deliveries, and the event and command that each delivery needs.

A compiled class has no interpreted base: `Deliveries` is a `domain.event.Event`, and `ConfirmDeliveries` a
`domain.command.Command`, by their attributes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from domain.message.message import SYS_COMPRESSED
from domain.message.property import HG_EXPIRE_MS_START, find
from domain.message.record import Record

if TYPE_CHECKING:
    from domain.access.principal import Principal

FormKey = int | tuple[int, ...]


@final
class RoutedRecord:
    """One record that is delivered to sessions. All receivers of a record share one instance.

    stored      its encoded properties
    path        topic name that the message was published to
    level       QoS of the publisher; AT_LEAST_ONCE for messages that did not arrive by MQTT
    compressed  True: an SDK has compressed the body
    forms       encodings made so far, by a key that the adapter chooses; a number is found faster than a tuple
    """

    __slots__ = ("_expires_ms", "compressed", "forms", "level", "path", "record", "stored")

    def __init__(self, record: Record, stored: bytes, path: str, level: int) -> None:
        self.record = record
        self.stored = stored
        self.path = path
        self.level = level
        self.compressed = record.sys_flag & SYS_COMPRESSED != 0
        self.forms: dict[FormKey, tuple[bytes, bytes]] = {}
        self._expires_ms = -2

    def seconds_left(self, now_ms: int) -> int:
        """Seconds before the message expires, at the wall clock `now_ms`; -1: it does not."""
        if self._expires_ms == -2:
            expires = find(self.stored, HG_EXPIRE_MS_START)
            self._expires_ms = int(expires) if expires.isdigit() and len(expires) < 19 else -1
        return -1 if self._expires_ms < 0 else max(0, self._expires_ms - now_ms) // 1000


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


@final
class Deliveries:
    """Messages for the session, in the order in which the adapter sends them. Not an answer to a command."""

    __slots__ = ("items", "ticket")

    def __init__(self, items: list[Delivery], ticket: object = None) -> None:
        self.items = items
        self.ticket = ticket


@final
class ConfirmDeliveries:
    """The client has acknowledged these deliveries (PUBACK, PUBCOMP): free their slots. Ignores unknown slots. No answer.

    alone   True: nothing else was received with it, and its connection has nothing to write
    """

    __slots__ = ("alone", "principal", "slots")

    def __init__(self, slots: list[int], alone: bool = False) -> None:
        self.principal: Principal | None = None
        self.slots = slots
        self.alone = alone
