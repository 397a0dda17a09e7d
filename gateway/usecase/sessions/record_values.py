"""Values of a session's state records: definition, subscriptions, deliveries in flight, will."""

from __future__ import annotations

import struct
from typing import Final, final

from domain.client.mqtt_session import SHARED, MqttSubscription, Will
from domain.message import record
from domain.message.message import LOCAL_HOST, Message
from domain.message.receipt import Receipt
from gateway.usecase.sessions.in_flight import DeliveryLease, InFlightMessage
from gateway.usecase.sessions.mqtt_session import MqttSession

DEFINITION = struct.Struct(">BIqq")
SUBSCRIPTION = struct.Struct(">BIq")
_WILL = struct.Struct(">BIiI")
_IN_FLIGHT = struct.Struct(">QBiqH")

_LEASED: Final = 16
_REGISTERED: Final = 1
"""Flag in the byte behind the message of a will, which the host of its user follows. Earlier versions read neither, and write
neither: such a will is its user's by name alone."""
_LONG: Final = 0x40
"""Flag in the first byte of a will whose Message Expiry Interval exceeds 31 bits: the field is unsigned then."""

_OLD_DEFINITION = struct.Struct(">BIqqH")
_OLD_SUBSCRIPTION = struct.Struct(">BBIq")
_OLD_IN_FLIGHT = struct.Struct(">HBiqB")


def read_definition(data: bytes, session: MqttSession) -> None:
    """Set the fields of a session that its definition has."""
    _, session.expiry_s, session.disconnected_ms, session.baseline_ms = DEFINITION.unpack_from(data)
    session.user = data[DEFINITION.size :].decode()
    session.records.definition = data


def read_stored_will(data: bytes) -> Will | None:
    """The will of a record."""
    cursor = Cursor(data, 0)
    will = read_will(cursor)
    if will is not None and cursor.at < len(data):
        will.registered = bool(cursor.take(1)[0] & _REGISTERED)
        will.host = cursor.text()
    return will


def put_subscription(found: MqttSubscription) -> bytes:
    """The record of one subscription."""
    flags = found.level | found.no_local << 2 | found.as_published << 3 | found.retain_handling << 4
    return SUBSCRIPTION.pack(flags, found.identifier, found.since) + found.name.encode()


def add_subscription(session: MqttSession, flags: int, identifier: int, since: int, name: str) -> None:
    """Add a subscription, as its record has it, to a session."""
    group, pattern = "", name
    if name.startswith(SHARED):
        group, _, pattern = name.removeprefix(SHARED).partition("/")
    subscription = MqttSubscription(
        pattern, flags & 3, flags & 4 != 0, flags & 8 != 0, flags >> 4 & 3, identifier, since, group
    )
    (session.shared_subscriptions if group else session.subscriptions)[name] = subscription


def put_in_flight(flight: InFlightMessage) -> bytes:
    """One delivery. What is accepted is not sent again: its record has no path and no identifiers."""
    lease = flight.lease
    identifiers = () if flight.accepted else flight.identifiers
    flags = flight.level | flight.accepted << 2 | flight.retained << 3 | (_LEASED if lease is not None else 0)
    topic, queue_id = flight.queue
    out = [_IN_FLIGHT.pack(flight.number, flags, queue_id, flight.offset, len(identifiers))]
    out += [identifier.to_bytes(4, "big") for identifier in identifiers]
    out += (_put_text(topic), _put_text("" if flight.accepted else flight.path))
    if lease is not None:
        out += (_put_text(lease.group), lease.receipt.pop_ms.to_bytes(8, "big"))
    return b"".join(out)


def read_in_flight(slot: int, data: bytes, session: MqttSession) -> None:
    """Put the delivery of a record into a slot of the in-flight window."""
    cursor = Cursor(data, 0)
    number, flags, queue_id, offset, count = cursor.unpack(_IN_FLIGHT)
    session.records.slots[slot] = None
    _add_in_flight(session, slot, number, flags, queue_id, offset, count, cursor)


def _add_in_flight(
    session: MqttSession, slot: int, number: int, flags: int, queue_id: int, offset: int, count: int, cursor: Cursor
) -> None:
    identifiers = tuple([int.from_bytes(cursor.take(4), "big") for _ in range(count)])
    topic = cursor.text()
    path = cursor.text()
    lease: DeliveryLease | None = None
    if flags & _LEASED:
        group = cursor.text()
        pop_ms = int.from_bytes(cursor.take(8), "big")
        lease = DeliveryLease(group, topic, Receipt(offset, pop_ms, 0, 0, 0, "", queue_id, offset))
        session.leases += 1
    flight = session.in_flight[slot] = InFlightMessage(
        flags & 3, (topic, queue_id), offset, path, flags & 8 != 0, identifiers, lease
    )
    flight.accepted = flags & 4 != 0
    flight.number = number


def put_will(will: Will) -> bytes:
    """The record of a will."""
    data = record.encode(will.message, 0, 0, 0, LOCAL_HOST)
    has_will, expiry_s = 1 + will.message.retain, will.expiry_s
    if expiry_s > 0x7FFFFFFF:
        has_will, expiry_s = has_will | _LONG, expiry_s - (1 << 32)
    whose = bytes([_REGISTERED if will.registered else 0]) + _put_text(will.host) if will.host else b""
    return _WILL.pack(has_will, will.delay_s, expiry_s, len(data)) + data + whose


def read_will(cursor: Cursor) -> Will | None:
    """The will at the cursor, without its user's host; None when there is none."""
    has_will, delay_s, expiry_s, size = cursor.unpack(_WILL)
    if not has_will:
        return None  # in a definition of the older form
    if has_will & _LONG:
        expiry_s &= 0xFFFFFFFF
    view = record.Record(cursor.take(size))
    retain = (has_will & ~_LONG) - 1
    return Will(Message(view.topic, view.body, view.properties, born_host=view.born_host, retain=retain), delay_s, expiry_s)


def read_older_definition(data: bytes, session: MqttSession) -> None:
    """Set the fields of a session, its will and its subscriptions from a definition of the older form."""
    _, session.expiry_s, session.disconnected_ms, session.baseline_ms, count = _OLD_DEFINITION.unpack_from(data)
    cursor = Cursor(data, _OLD_DEFINITION.size)
    session.will = read_will(cursor)
    for _ in range(count):
        flags, _, identifier, since = cursor.unpack(_OLD_SUBSCRIPTION)
        add_subscription(session, flags, identifier, since, cursor.text())
    if cursor.at < len(data):
        session.user = cursor.text()


def read_older_window(data: bytes, session: MqttSession) -> None:
    """Put the deliveries of an in-flight window of the older form into slots."""
    cursor = Cursor(data, 0)
    while cursor.at < len(data):
        slot, flags, queue_id, offset, count = cursor.unpack(_OLD_IN_FLIGHT)
        _add_in_flight(session, slot, len(session.in_flight) + 1, flags, queue_id, offset, count, cursor)


def _put_text(text: str) -> bytes:
    raw = text.encode()
    return len(raw).to_bytes(2, "big") + raw


@final
class Cursor:
    """Reads a value from front to back, without checks: the gateway has written the value itself."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """The numbers of `layout` at the cursor."""
        self.at += layout.size
        return layout.unpack_from(self.data, self.at - layout.size)

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self) -> str:
        """The next string: a length of 2 bytes, then UTF-8."""
        return self.take(int.from_bytes(self.take(2), "big")).decode()
