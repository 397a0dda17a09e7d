"""Encoding of a durable session as state records in the space `session`.

A key is the client id (which holds no U+0000), a zero byte and one of:

    d               definition: expiry, time of disconnection, baseline, will, subscriptions, user (changes with CONNECT,
                    SUBSCRIBE)
    f               in-flight window
    m + identifier  one inbound packet identifier, 2 bytes, written in the same commit as its message
    p + topic       positions in the queues of one topic

The records of a session are written in one commit, so that a crash leaves a state that the session once had.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, final

from domain import record
from domain.errors import Failure
from domain.message import LOCAL_HOST, Message
from domain.mqtt_session import AT_MOST_ONCE, SHARED, MqttSubscription, Will
from domain.receipt import Receipt
from domain.store_ports import State, StateChange, StatePairs
from gateway.routing.routes import topic_of_filter
from gateway.usecase.sessions.mqtt_session import DeliveryLease, InFlightMessage, MqttSession

SPACE: Final = "session"
_DEFINITION = struct.Struct(">BIqqH")
_SUBSCRIPTION = struct.Struct(">BBIq")
_WILL = struct.Struct(">BIiI")
_IN_FLIGHT = struct.Struct(">HBiqB")
_POSITION = struct.Struct(">iq")
_LEASED = 16
PAIRS: Final = 4_096
"""Records of one session that are read together."""
_FORMAT = 1
_LONG = 0x40
"""Flag in the first byte of a will whose Message Expiry Interval exceeds 31 bits: the field is unsigned then."""


def key(client_id: str, kind: bytes) -> bytes:
    """The key of one part of a session."""
    return client_id.encode() + b"\x00" + kind


def definition(session: MqttSession) -> StateChange:
    """The definition record. Subscriptions are stored by name, which contains the group of a shared subscription.

    Marks the session as stored.
    """
    session.stored = True
    subscriptions = [*session.subscriptions.values(), *session.shared_subscriptions.values()]
    out = [
        _DEFINITION.pack(_FORMAT, session.expiry_s, session.disconnected_ms, session.baseline_ms, len(subscriptions)),
        _put_will(session.will),
    ]
    for subscription in subscriptions:
        flags = (
            subscription.level | subscription.no_local << 2 | subscription.as_published << 3 | subscription.retain_handling << 4
        )
        out.append(_SUBSCRIPTION.pack(flags, 0, subscription.identifier, subscription.since))
        out.append(_put_text(subscription.name))
    if session.user:
        out.append(_put_text(session.user))  # earlier versions read up to here, and find what they know
    return StateChange(SPACE, key(session.client_id, b"d"), b"".join(out))


def progress(session: MqttSession) -> list[StateChange]:
    """The in-flight window, and the positions in `changed_topics`. Nothing of the session is newer in memory then."""
    window: list[bytes] = []
    for slot, flight in session.in_flight.items():
        lease = flight.lease
        flags = flight.level | flight.accepted << 2 | flight.retained << 3 | (_LEASED if lease is not None else 0)
        topic, queue_id = flight.queue
        window.append(_IN_FLIGHT.pack(slot, flags, queue_id, flight.offset, len(flight.identifiers)))
        window += [identifier.to_bytes(4, "big") for identifier in flight.identifiers]
        window += (_put_text(topic), _put_text(flight.path))
        if lease is not None:
            window += (_put_text(lease.group), lease.receipt.pop_ms.to_bytes(8, "big"))
    changes = [StateChange(SPACE, key(session.client_id, b"f"), b"".join(window))]
    for name in sorted(session.changed_topics):
        queues = [_POSITION.pack(queue[1], offset) for queue, offset in sorted(session.positions.items()) if queue[0] == name]
        changes.append(StateChange(SPACE, key(session.client_id, b"p" + name.encode()), b"".join(queues)))
    session.changed_topics.clear()
    session.dirty = False
    return changes


def packet_id_key(client_id: str, packet_id: int) -> bytes:
    """Key of one inbound packet identifier."""
    return key(client_id, b"m" + packet_id.to_bytes(2, "big"))


def packet_id_change(client_id: str, packet_id: int, known: bool) -> StateChange:
    """Add or remove one inbound packet identifier."""
    return StateChange(SPACE, packet_id_key(client_id, packet_id), b"\x01" if known else None)


def removal(session: MqttSession) -> list[StateChange]:
    """Remove all records of a session, those included that are not written yet; nothing when it never was stored."""
    if not session.stored:
        return []
    client_id = session.client_id
    keys = {key(client_id, b"d"), key(client_id, b"f")}
    keys |= {key(client_id, b"p" + topic.encode()) for topic, _ in session.positions}
    keys |= {key(client_id, b"m" + number.to_bytes(2, "big")) for number in session.received}
    return [StateChange(SPACE, found, None) for found in sorted(keys)]


def load(state: State, client_id: str, done: Callable[[MqttSession | None | Failure], None]) -> None:
    """A session as last stored; None when there is none."""
    prefix = key(client_id, b"")

    def outlined(session: MqttSession | None | Failure) -> None:
        if isinstance(session, MqttSession):
            state.pairs(SPACE, prefix, key(client_id, b"f"), PAIRS, partial(taken, session))
        else:
            done(session)

    def taken(session: MqttSession, result: StatePairs | Failure) -> None:
        if isinstance(result, Failure):
            done(result)
            return
        for found, value in result.pairs:
            _read(session, found[len(prefix) :], value)
        if result.next_key is None:
            done(session)
        else:
            state.pairs(SPACE, prefix, result.next_key, PAIRS, partial(taken, session))

    outline(state, client_id, outlined)


def _read(session: MqttSession, kind: bytes, value: bytes) -> None:
    if kind[:1] == b"f":
        _read_in_flight(value, session)
    elif kind[:1] == b"m":
        session.received[int.from_bytes(kind[1:], "big")] = None
    elif kind[:1] == b"p":
        topic = kind[1:].decode()
        for queue_id, offset in _POSITION.iter_unpack(value):
            session.positions[(topic, queue_id)] = offset


def topics_of(subscriptions: Iterable[MqttSubscription]) -> list[str]:
    """The topics of subscriptions above AT_MOST_ONCE, without subscriptions that begin with a wildcard."""
    names = dict.fromkeys(
        topic_of_filter(subscription.pattern) for subscription in subscriptions if subscription.level > AT_MOST_ONCE
    )
    return [name for name in names if name]


def positions(state: State, client_id: str, topic: str, done: Callable[[dict[int, int] | Failure], None]) -> None:
    """Next offset to deliver, by queue id of one topic, as last stored."""

    def got(value: bytes | None | Failure) -> None:
        if isinstance(value, Failure):
            done(value)
        else:
            done({} if value is None else dict(_POSITION.iter_unpack(value)))

    state.get(SPACE, key(client_id, b"p" + topic.encode()), got)


def outline(state: State, client_id: str, done: Callable[[MqttSession | None | Failure], None]) -> None:
    """A session with its definition only: no positions and no in-flight window. None when there is none."""

    def got(value: bytes | None | Failure) -> None:
        if not isinstance(value, bytes):
            done(value)
            return
        session = MqttSession(client_id)
        session.stored = True
        _read_definition(value, session)
        done(session)

    state.get(SPACE, key(client_id, b"d"), got)


def _read_definition(data: bytes, session: MqttSession) -> None:
    _, session.expiry_s, session.disconnected_ms, session.baseline_ms, count = _DEFINITION.unpack_from(data)
    cursor = Cursor(data, _DEFINITION.size)
    has_will, delay_s, expiry_s, size = cursor.unpack(_WILL)
    if has_will & _LONG:
        expiry_s &= 0xFFFFFFFF
    if has_will:
        session.will = Will(_message(cursor.take(size), (has_will & ~_LONG) - 1), delay_s, expiry_s)
    for _ in range(count):
        flags, _, identifier, since = cursor.unpack(_SUBSCRIPTION)
        name = cursor.text()
        group, pattern = "", name
        if name.startswith(SHARED):
            group, _, pattern = name.removeprefix(SHARED).partition("/")
        subscription = MqttSubscription(
            pattern, flags & 3, flags & 4 != 0, flags & 8 != 0, flags >> 4 & 3, identifier, since, group
        )
        (session.shared_subscriptions if group else session.subscriptions)[name] = subscription
    if cursor.at < len(data):
        session.user = cursor.text()


def _read_in_flight(data: bytes, session: MqttSession) -> None:
    cursor = Cursor(data, 0)
    while cursor.at < len(data):
        slot, flags, queue_id, offset, count = cursor.unpack(_IN_FLIGHT)
        identifiers = tuple(int.from_bytes(cursor.take(4), "big") for _ in range(count))
        topic = cursor.text()
        path = cursor.text()
        lease: DeliveryLease | None = None
        if flags & _LEASED:
            group = cursor.text()
            pop_ms = int.from_bytes(cursor.take(8), "big")
            lease = DeliveryLease(group, topic, Receipt(offset, pop_ms, 0, 0, 0, "", queue_id, offset), 0)
            session.leases += 1
        session.in_flight[slot] = InFlightMessage(
            flags & 3, (topic, queue_id), offset, path, flags & 8 != 0, identifiers, 0, flags & 4 != 0, lease
        )
        session.next_slot = slot % 65_535 + 1


def _put_will(will: Will | None) -> bytes:
    if will is None:
        return _WILL.pack(0, 0, 0, 0)
    data = record.encode(will.message, 0, 0, 0, LOCAL_HOST)
    has_will, expiry_s = 1 + will.message.retain, will.expiry_s
    if expiry_s > 0x7FFFFFFF:
        has_will, expiry_s = has_will | _LONG, expiry_s - (1 << 32)
    return _WILL.pack(has_will, will.delay_s, expiry_s, len(data)) + data


def _message(data: bytes, retain: int) -> Message:
    view = record.Record(data)
    return Message(view.topic, view.body, view.properties, born_host=view.born_host, retain=retain)


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
