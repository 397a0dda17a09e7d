"""Encoding of a durable session as state records.

Space `session`, the name of the session (`session_name`; it holds no U+0000), a zero byte, and:

    e                 definition: expiry, time of disconnection, baseline, user

Space `mqtt`, a digest of that name, whose length is bounded by a setting only, and one of:

    f + slot          one delivery of the in-flight window, 2 bytes
    m + identifier    one inbound packet identifier, 2 bytes, written in the same commit as its message
    p + topic + zero byte + part   positions in the queues of one topic, QUEUES of them from QUEUES * part on, 2 bytes
    s + digest        one subscription, by its name
    w                 will

A record is written when it differs from that of the store: a command writes its changes, however large the session is. The
changes of a session are written in one commit, so that a crash leaves a state that the session once had.

Up to commit 44998bdc all records were in the space `session`, behind the client id and a zero byte:

    d                 definition, with the will and all subscriptions
    f                 the whole in-flight window
    m + identifier    as above
    p + topic         positions in all queues of one topic

Such a session is read, and the next change of its definition replaces all its records. These versions do not know `e`: to
them a session in this form does not exist. Where both are, the older form was made later, by a node that went back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import blake2b
from typing import Final, final

from domain.client.mqtt_session import AT_MOST_ONCE, MqttSubscription
from domain.errors import Failure
from domain.store.store_ports import State, StateChange, StatePairs
from gateway.routing.routes import topic_of_filter
from gateway.usecase.sessions.in_flight import QueueKey
from gateway.usecase.sessions.mqtt_session import MqttSession, SessionRecords
from gateway.usecase.sessions.record_values import (
    DEFINITION,
    SUBSCRIPTION,
    add_subscription,
    put_in_flight,
    put_subscription,
    put_will,
    read_definition,
    read_in_flight,
    read_older_definition,
    read_older_window,
    read_stored_will,
)

SPACE: Final = "session"
PARTS: Final = "mqtt"
QUEUES: Final = 64
"""Queues of one topic whose positions are in one record."""
PAIRS: Final = 4_096
"""Records of one session that are read together."""
_FORMAT: Final = 2
_POSITION = struct.Struct(">iq")
_DIGEST_BYTES: Final = 16
_UNKNOWN: Final = b"?"
"""Digest of a will of which it is not known whether the store has it."""


@final
class SessionChanges:
    """The changes of one session in one commit. `records` takes them as stored, until `settle` reports that they are not.

    definition   True: the definition is among them
    will         True: the will is
    names        subscriptions, by name
    slots        deliveries, by slot
    queues       positions, by queue
    older        changes that replace records of the older form
    """

    __slots__ = ("_records", "changes", "definition", "names", "older", "queues", "slots", "will")

    def __init__(self, records: SessionRecords) -> None:
        self._records = records
        self.changes: list[StateChange] = []
        self.definition = self.will = False
        self.names: dict[str, None] = {}
        self.slots: dict[int, None] = {}
        self.queues: dict[QueueKey, None] = {}
        self.older: list[StateChange] = []

    def settle(self, result: object) -> None:
        """The store has answered, with a Failure or not: changes that it has not taken are written with the next ones."""
        records = self._records
        failed = isinstance(result, Failure)
        for name in self.names:
            if records.unsure.get(name) is self:
                del records.unsure[name]
            if failed:
                records.subscriptions[name] = None
        if failed:
            records.definition = b"" if self.definition else records.definition
            records.will = _UNKNOWN if self.will else records.will
            records.slots.update(self.slots)
            records.changed_slots.update(self.slots)
            records.changed_queues.update(self.queues)
            records.older = self.older + records.older


def key(name: str, kind: bytes) -> bytes:
    """The key of a record in SPACE."""
    return name.encode() + b"\x00" + kind


def part_key(name: str, kind: bytes) -> bytes:
    """The key of a record in PARTS."""
    return _digest(name.encode()) + kind


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


def definition(session: MqttSession) -> SessionChanges:
    """All that the store does not have: definition, will, subscriptions, and progress.

    Subscriptions are stored by name, which contains the group of a shared subscription. Marks the session as stored.
    """
    session.stored = True
    records = session.records
    prefix = part_key(session.name, b"")
    out = SessionChanges(records)
    changes = out.changes
    changes += records.older
    out.older, records.older = records.older, []
    value = DEFINITION.pack(_FORMAT, session.expiry_s, session.disconnected_ms, session.baseline_ms) + session.user.encode()
    if value != records.definition:
        changes.append(StateChange(SPACE, key(session.name, b"e"), value))
        records.definition, out.definition = value, True
    will = None if session.will is None else put_will(session.will)
    digest = b"" if will is None else _digest(will)
    if digest != records.will:
        changes.append(StateChange(PARTS, prefix + b"w", will))
        records.will, out.will = digest, True
    for name in records.subscriptions:
        found = session.subscriptions.get(name) or session.shared_subscriptions.get(name)
        changes.append(StateChange(PARTS, prefix + _subscription_kind(name), found and put_subscription(found)))
        records.unsure[name] = out
    out.names, records.subscriptions = records.subscriptions, {}
    _put_progress(session, prefix, out)
    return out


def progress(session: MqttSession) -> SessionChanges:
    """Changes of the in-flight window and the positions that the store does not have; `records` takes them as stored."""
    out = SessionChanges(session.records)
    _put_progress(session, part_key(session.name, b""), out)
    return out


def _put_progress(session: MqttSession, prefix: bytes, out: SessionChanges) -> None:
    records = session.records
    for slot in records.changed_slots:
        flight = session.in_flight.get(slot)
        name = prefix + b"f" + slot.to_bytes(2, "big")
        if flight is not None:
            out.changes.append(StateChange(PARTS, name, put_in_flight(flight)))
            records.slots[slot] = None
        elif slot in records.slots:
            del records.slots[slot]
            out.changes.append(StateChange(PARTS, name, None))
    out.slots, records.changed_slots = records.changed_slots, {}
    positions = session.positions
    for topic, part in sorted({(topic, queue_id // QUEUES) for topic, queue_id in records.changed_queues}):
        ids = [each for each in range(part * QUEUES, (part + 1) * QUEUES) if (topic, each) in positions]
        packed = b"".join([_POSITION.pack(each, positions[topic, each]) for each in ids])
        out.changes.append(StateChange(PARTS, prefix + _positions_kind(topic) + part.to_bytes(2, "big"), packed))
    out.queues, records.changed_queues = records.changed_queues, {}
    session.dirty = False


def _subscription_kind(name: str) -> bytes:
    return b"s" + _digest(name.encode())


def _positions_kind(topic: str) -> bytes:
    return b"p" + topic.encode() + b"\x00"


def packet_id_key(name: str, packet_id: int) -> bytes:
    """Key of one inbound packet identifier, in PARTS."""
    return part_key(name, b"m" + packet_id.to_bytes(2, "big"))


def packet_id_change(name: str, packet_id: int, known: bool) -> StateChange:
    """Add or remove one inbound packet identifier."""
    return StateChange(PARTS, packet_id_key(name, packet_id), b"\x01" if known else None)


def removal(session: MqttSession) -> list[StateChange]:
    """Remove all records of a session, those included that are not written yet; nothing when it never was stored."""
    if not session.stored:
        return []
    records = session.records
    kinds = [b"f" + slot.to_bytes(2, "big") for slot in records.slots]
    kinds += [b"m" + number.to_bytes(2, "big") for number in session.received]
    for topic, part in {(topic, queue_id // QUEUES) for topic, queue_id in session.positions}:
        kinds.append(_positions_kind(topic) + part.to_bytes(2, "big"))
    names = {*session.subscriptions, *session.shared_subscriptions, *records.subscriptions, *records.unsure}
    kinds += [_subscription_kind(name) for name in names]
    if records.will:
        kinds.append(b"w")
    prefix = part_key(session.name, b"")
    changes = [change for change in records.older if change.value is None]
    changes.append(StateChange(SPACE, key(session.name, b"e"), None))
    return changes + [StateChange(PARTS, prefix + kind, None) for kind in sorted(kinds)]


def rename(session: MqttSession, name: str) -> None:
    """Let a session that is loaded be stored under another name: its next definition replaces all its records."""
    records = session.records
    records.older = removal(session)
    session.name = name
    records.definition, records.will, records.slots = b"", b"", {}
    _write_all(session)


def _write_all(session: MqttSession) -> None:
    """The store has nothing of the session but what `records.older` replaces."""
    records = session.records
    records.older += [packet_id_change(session.name, number, True) for number in session.received]
    records.subscriptions.update(dict.fromkeys((*session.subscriptions, *session.shared_subscriptions)))
    records.changed_slots.update(dict.fromkeys(session.in_flight))
    records.changed_queues.update(dict.fromkeys(session.positions))


Loaded = Callable[[MqttSession | None | Failure], None]


def load(state: State, name: str, done: Loaded) -> None:
    """A session as last stored; None when there is none."""

    def defined(session: MqttSession | None | Failure) -> None:
        if not isinstance(session, MqttSession):
            done(session)
        elif session.records.older:
            _load_older(state, session, done)
        else:
            _walk(state, PARTS, part_key(name, b""), b"", partial(_read, session), partial(_loaded, session, done))

    _defined(state, name, defined)


def outline(state: State, name: str, done: Loaded) -> None:
    """A session with its definition, will and subscriptions: no positions and no in-flight window. None when there is none."""

    def defined(session: MqttSession | None | Failure) -> None:
        if not isinstance(session, MqttSession) or session.records.older:
            done(session)
        else:
            _walk(state, PARTS, part_key(name, b""), b"s", partial(_read, session), partial(_loaded, session, done))

    _defined(state, name, defined)


def _loaded(session: MqttSession, done: Loaded, failure: Failure | None) -> None:
    session.resort()
    done(failure or session)


def _defined(state: State, name: str, done: Loaded) -> None:
    """A session with its definition; of the older form, if that is there. `records.older` is not empty then."""

    def got(result: StatePairs | Failure) -> None:
        if isinstance(result, Failure):
            done(result)
            return
        session = MqttSession(name)
        session.stored = True
        for found, value in result.pairs:
            if found == key(name, b"d"):
                session.records.older = [StateChange(SPACE, found, None)]
                read_older_definition(value, session)
                done(session)
                return
            if found == key(name, b"e"):
                read_definition(value, session)
                done(session)
                return
        done(None)

    state.pairs(SPACE, key(name, b""), key(name, b"d"), 1, got)


def _walk(
    state: State,
    space: str,
    prefix: bytes,
    start: bytes,
    take: Callable[[bytes, bytes], None],
    done: Callable[[Failure | None], None],
) -> None:
    """Call `take` with each key from `prefix` + `start` on, without the prefix, and its value; then `done`."""

    def taken(result: StatePairs | Failure) -> None:
        if isinstance(result, Failure):
            done(result)
            return
        for found, value in result.pairs:
            take(found[len(prefix) :], value)
        if result.next_key is None:
            done(None)
        else:
            state.pairs(space, prefix, result.next_key, PAIRS, taken)

    state.pairs(space, prefix, prefix + start, PAIRS, taken)


def _read(session: MqttSession, kind: bytes, value: bytes) -> None:
    letter = kind[:1]
    if letter == b"f":
        read_in_flight(int.from_bytes(kind[1:], "big"), value, session)
    elif letter == b"m":
        session.received[int.from_bytes(kind[1:], "big")] = None
    elif letter == b"p":
        topic = kind[1:-3].decode()
        for queue_id, offset in _POSITION.iter_unpack(value):
            session.positions[(topic, queue_id)] = offset
    elif letter == b"s":
        flags, identifier, since = SUBSCRIPTION.unpack_from(value)
        add_subscription(session, flags, identifier, since, value[SUBSCRIPTION.size :].decode())
    elif letter == b"w":
        session.will = read_stored_will(value)
        session.records.will = _digest(value)


def topics_of(subscriptions: Iterable[MqttSubscription]) -> list[str]:
    """The topics of subscriptions above AT_MOST_ONCE, without subscriptions that begin with a wildcard."""
    names = dict.fromkeys(
        topic_of_filter(subscription.pattern) for subscription in subscriptions if subscription.level > AT_MOST_ONCE
    )
    return [name for name in names if name]


def positions(state: State, name: str, topic: str, done: Callable[[dict[int, int] | Failure], None]) -> None:
    """Next offset to deliver, by queue id of one topic, as last stored."""
    found: dict[int, int] = {}

    def take(_: bytes, value: bytes) -> None:
        found.update(_POSITION.iter_unpack(value))

    def taken(failure: Failure | None) -> None:
        if failure is not None or found:
            done(failure or found)
        else:
            state.get(SPACE, key(name, b"p" + topic.encode()), got)

    def got(value: bytes | None | Failure) -> None:
        if isinstance(value, Failure):
            done(value)
        else:
            done({} if value is None else dict(_POSITION.iter_unpack(value)))

    _walk(state, PARTS, part_key(name, _positions_kind(topic)), b"", take, taken)


# The older form


def _load_older(state: State, session: MqttSession, done: Loaded) -> None:
    """The rest of a session of the older form. All its records are to be replaced, and those in PARTS are out of date."""
    name, records = session.name, session.records

    def take(kind: bytes, value: bytes) -> None:
        records.older.append(StateChange(SPACE, key(name, kind), None))
        if kind == b"f":
            read_older_window(value, session)
        elif kind[:1] == b"p":
            topic = kind[1:].decode()
            for queue_id, offset in _POSITION.iter_unpack(value):
                session.positions[(topic, queue_id)] = offset
        elif kind[:1] == b"m":
            session.received[int.from_bytes(kind[1:], "big")] = None

    def taken(failure: Failure | None) -> None:
        if failure is not None:
            done(failure)
        else:
            _walk(state, PARTS, part_key(name, b""), b"", stale, ended)

    def stale(kind: bytes, _: bytes) -> None:
        records.older.append(StateChange(PARTS, part_key(name, kind), None))

    def ended(failure: Failure | None) -> None:
        _write_all(session)
        _loaded(session, done, failure)

    _walk(state, SPACE, key(name, b""), b"f", take, taken)
