"""The state of one session in memory: subscriptions, in-flight window, positions, packet identifiers.

`sessions` carries out the commands on it, `snapshot` encodes it for the store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, final

from domain.address import path_in
from domain.client.mqtt_session import EXPIRY_NEVER, SLOT_MAX, Attach, MqttSubscription, Will
from domain.delivery.routed import Delivery, RoutedRecord
from domain.errors import Failure
from domain.filter.path_matching import matches
from domain.store.store_ports import StateChange
from gateway.access.session_name import client_id_in
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.publish.latest import LatestScan, LiveValues
from gateway.usecase.sessions.in_flight import DeliveryLease, InFlightMessage, QueueKey

WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of records that may be in flight to one client; a single message may always be."""
MATCH_CACHE_MAX: Final = 1_024
"""Paths whose matching subscriptions one session remembers while it catches up."""


@final
class MergedSubscription:
    """The subscriptions of one session that match one path, merged into one delivery (MQTT 5, 3.3.4).

    level             highest QoS among the subscriptions
    as_published      True: one of them keeps the RETAIN flag
    identifiers       all Subscription Identifiers
    excludes_own      True: one of them has No Local
    for_own_messages  the same without No Local subscriptions, for messages that the subscriber published; None: no delivery
    """

    __slots__ = ("as_published", "excludes_own", "for_own_messages", "identifiers", "level", "session")

    def __init__(self, session: MqttSession, subscriptions: list[MqttSubscription]) -> None:
        self.session = session
        self.for_own_messages: MergedSubscription | None = None
        if len(subscriptions) == 1:  # nearly always, and thousands of them may be made for one message
            only = subscriptions[0]
            self.level = only.level
            self.as_published = only.as_published
            self.identifiers: tuple[int, ...] = (only.identifier,) if only.identifier else ()
            self.excludes_own = only.no_local
            return
        self.level = max(subscription.level for subscription in subscriptions)
        self.as_published = any(subscription.as_published for subscription in subscriptions)
        self.identifiers = tuple(subscription.identifier for subscription in subscriptions if subscription.identifier)
        local = [subscription for subscription in subscriptions if not subscription.no_local]
        self.excludes_own = len(local) < len(subscriptions)
        if local and self.excludes_own:
            self.for_own_messages = MergedSubscription(session, local)


@final
class RetainedScan:
    """Delivery of retained messages for one new subscription.

    walk           scan of the store for more paths; None: it has not begun
    ready          paths found and not read yet, in reverse order: the next one is the last item
    values         (path, record) read and not sent yet
    asking         True: the store has been asked for paths or values, and has not answered
    waited         True: its answer comes later than the question returned
    since          number in `LiveValues` at the subscription
    since_ms       wall clock at the subscription
    """

    __slots__ = ("asking", "ready", "since", "since_ms", "subscription", "values", "waited", "walk")

    def __init__(self, subscription: MqttSubscription, since: int, since_ms: int) -> None:
        self.subscription = subscription
        self.since = since
        self.since_ms = since_ms
        self.walk: LatestScan | None = None
        self.ready: list[str] = []
        self.values: deque[tuple[str, bytes]] = deque()
        self.asking = self.waited = False


@final
class SessionRecords:
    """The records of a session that the store has, or will have once it has answered, and those to be written (`snapshot`).

    definition       value of the definition; b"": it is to be written
    will             digest of the will; b"": there is none
    subscriptions    names of subscriptions that are to be written, or removed
    unsure           names of subscriptions in a change that the store has not answered yet, with that change: such a
                     subscription is written once more when it is repeated, so that the answer does not come too early
    slots            slots whose delivery has a record
    changed_slots    slots whose record is to be written, or removed
    changed_queues   queues whose position is to be written
    older            changes that replace the records of an earlier version
    number           of the last delivery
    """

    __slots__ = (
        "changed_queues", "changed_slots", "definition", "number", "older", "slots", "subscriptions", "unsure", "will",
    )  # fmt: skip

    def __init__(self) -> None:
        self.definition = b""
        self.will = b""
        self.subscriptions: dict[str, None] = {}
        self.unsure: dict[str, object] = {}
        self.slots: dict[int, None] = {}
        self.changed_slots: dict[int, None] = {}
        self.changed_queues: dict[QueueKey, None] = {}
        self.older: list[StateChange] = []
        self.number = 0

    def subscribed(self, old: MqttSubscription | None, new: MqttSubscription) -> None:
        """`new` has replaced `old`: it is to be written unless the store has the same."""
        if old is None or new.name in self.unsure or _options(old) != _options(new):
            self.subscriptions[new.name] = None


def _options(subscription: MqttSubscription) -> tuple[int, bool, bool, int, int, int]:
    return (
        subscription.level, subscription.no_local, subscription.as_published, subscription.retain_handling,
        subscription.identifier, subscription.since,
    )  # fmt: skip


@final
class MqttSession:
    """One session of one client.

    Invariant: in every queue, each matching message below `positions[queue]` is confirmed or occupies a slot. A queue in `lag`
    is read from the log, from offset `lag[queue]` on. Messages of any other queue are delivered as they arrive.

    name                  where it is kept, in memory and in the store (`session_name`)
    user                  owner of the session; "": access was not controlled, or the session is older than this field
    connection            the client's connection; None: disconnected
    epoch                 rises with every connect and disconnect: callbacks of an earlier connection compare it and stop
    window                Receive Maximum: slots that may be occupied at once
    packet_bytes_max      Maximum Packet Size of the client in bytes; 0: no limit
    address               peer of the connection, "host:port"
    expiry_s              Session Expiry Interval in seconds; 0: the session ends with its connection and is in memory only
    will                  will message; None: none, or published
    disconnected_ms       wall clock in milliseconds at the end of the connection; 0: connected
    left_ms               `disconnected_ms` of the connection before, until nothing lags; 0: there was none
    subscriptions         subscriptions that are not shared, by pattern
    shared_subscriptions  shared subscriptions, by name
    leases                number of in-flight messages with a lease
    baseline_ms           wall clock in milliseconds: subscriptions that begin with a wildcard get messages stored since;
                          0: there are none
    positions             next offset to deliver, by queue; below 0: the first message stored since that time, as epoch ms
                          with its sign changed
    lag                   queues that are read from the log, with the next offset to read, or such a time
    missed                last offset that arrived in each lagging queue
    firsts                physical offsets of records at offset 0 that were read from the log, by queue: when one arrives
                          later, the topic was not created again
    retained_scans        retained messages still to be delivered, by subscription
    live_values           those that come live meanwhile; None: none is to be delivered
    in_flight             the in-flight window, by slot
    in_flight_bytes       bytes of the records in `in_flight`
    next_slot             where the search for a free slot starts
    received              packet identifiers of inbound EXACTLY_ONCE messages, with the callbacks that wait for the append;
                          None: the message is stored
    appending             appends of such messages that are not done
    outbox                deliveries that are sent at the end of the turn
    unstored_deliveries   EXACTLY_ONCE deliveries that are sent once the store has recorded their slots
    unstored_accepts      slots whose DeliveriesAccepted is sent once the store has recorded it
    scheduled             True: what waits in `outbox` and the two lists below is sent at the end of the turn
    stored                True: the store has, or will have, records of the session
    records               these records, and those that are to be written of a durable session
    dirty                 True: progress is newer in memory than in the store
    to_resend             slots that this connection has not been sent yet, oldest first
    finding_lag           True: it is not known yet which queues lag, and every queue is treated as lagging
    catching_up           True: a read of the log is under way
    unread                reads of the log that have failed since the last one that has not
    match_cache           (topic, origin) -> path and matching subscriptions
    """

    __slots__ = (
        "_appended", "address", "appending", "baseline_ms", "catching_up", "client_id", "connection", "dirty",
        "disconnected_ms", "epoch", "expiry_s", "finding_lag", "firsts", "in_flight", "in_flight_bytes", "lag", "leases",
        "left_ms", "live_values", "match_cache", "missed", "name", "next_slot", "outbox", "packet_bytes_max", "positions",
        "received", "records", "retained_scans", "scheduled", "shared_subscriptions", "stored", "subscriptions", "to_resend",
        "unread", "unstored_accepts", "unstored_deliveries", "user", "will", "window",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.client_id = client_id_in(name)
        self.user = ""
        self.connection: ClientConnection | None = None
        self.window = 1
        self.packet_bytes_max = 0
        self.address = ""
        self.expiry_s = 0
        self.will: Will | None = None
        self.disconnected_ms = 0
        self.left_ms = 0
        self.subscriptions: dict[str, MqttSubscription] = {}
        self.shared_subscriptions: dict[str, MqttSubscription] = {}
        self.leases = 0
        self.baseline_ms = 0
        self.positions: dict[QueueKey, int] = {}
        self.lag: dict[QueueKey, int] = {}
        self.missed: dict[QueueKey, int] = {}
        self.firsts: dict[QueueKey, int] = {}
        self.retained_scans: list[RetainedScan] = []
        self.live_values: LiveValues | None = None
        self.in_flight: dict[int, InFlightMessage] = {}
        self.in_flight_bytes = 0
        self.next_slot = 1
        self.received: dict[int, list[Callable[[Failure | None], None]] | None] = {}
        self.appending = 0
        self._appended: list[Callable[[], None]] | None = None
        self.outbox: list[Delivery] = []
        self.unstored_deliveries: list[Delivery] = []
        self.unstored_accepts: list[int] = []
        self.scheduled = False
        self.stored = False
        self.dirty = False
        self.records = SessionRecords()
        self.to_resend: list[int] = []
        self.finding_lag = False
        self.catching_up = False
        self.unread = 0
        self.epoch = 0
        self.match_cache: dict[tuple[str, bytes], tuple[str, list[MqttSubscription]]] = {}

    @property
    def durable(self) -> bool:
        """True when the session outlives its connection and is kept in the store."""
        return self.expiry_s > 0

    @property
    def full(self) -> bool:
        """True when the in-flight window takes no further message."""
        return len(self.in_flight) >= self.window or self.in_flight_bytes >= WINDOW_BYTES_MAX

    def expires_ms(self) -> int:
        """Wall clock in milliseconds at which the disconnected session expires; -1: never, or it is connected."""
        return -1 if self.expiry_s == EXPIRY_NEVER or self.disconnected_ms == 0 else self.disconnected_ms + 1000 * self.expiry_s

    def occupy_slot(self, flight: InFlightMessage, routed: RoutedRecord) -> Delivery:
        """Put a message into a free slot and return its delivery. The caller has checked `full`."""
        slot = self.next_slot
        in_flight = self.in_flight
        while slot in in_flight:
            slot = slot % SLOT_MAX + 1
        self.next_slot = slot % SLOT_MAX + 1
        flight.size = len(routed.record.data)
        self.in_flight_bytes += flight.size
        in_flight[slot] = flight
        records = self.records
        records.number += 1
        flight.number = records.number
        self.changed(slot)
        if flight.lease is not None:
            self.leases += 1
        return Delivery(routed, flight.level, slot, flight.retained, False, flight.identifiers)

    def free_slot(self, slot: int) -> DeliveryLease | None:
        """Free a slot and return its lease, which the caller must end. None: no lease, or the slot was free."""
        flight = self.in_flight.get(slot)
        if flight is None:
            return None
        del self.in_flight[slot]
        self.in_flight_bytes -= flight.size
        self.changed(slot)
        if flight.lease is not None:
            self.leases -= 1
        return flight.lease

    def changed(self, slot: int) -> None:
        """The delivery in a slot is new, has changed or is gone: its record is to be written if the session is durable."""
        if self.expiry_s > 0:
            self.records.changed_slots[slot] = None

    def resort(self) -> None:
        """The in-flight window was read from the store: put it in the order in which it was sent."""
        flights = sorted(self.in_flight.items(), key=_number)
        if flights:
            self.in_flight = dict(flights)
            slot, last = flights[-1]
            self.records.number = last.number
            self.next_slot = slot % SLOT_MAX + 1

    def matching(self, topic: str, origin: bytes, physical_offset: int) -> tuple[str, list[MqttSubscription]]:
        """(path, subscriptions) of a record read from the log. Leaves out subscriptions that are newer than the record."""
        key = (topic, origin)
        found = self.match_cache.get(key)
        if found is None:
            path = path_in(topic, origin)
            found = (
                path,
                [subscription for subscription in self.subscriptions.values() if matches(subscription.pattern, path)],
            )
            if len(self.match_cache) >= MATCH_CACHE_MAX:
                self.match_cache.clear()
            self.match_cache[key] = found
        return found[0], [subscription for subscription in found[1] if subscription.since <= physical_offset]

    def wants(self, path: str) -> bool:
        """True when a subscription matches the path of a message."""
        patterns = [each.pattern for each in (*self.subscriptions.values(), *self.shared_subscriptions.values())]
        return any(matches(pattern, path) for pattern in patterns)

    def after_appends(self, then: Callable[[], None]) -> None:
        """Call `then` when no append is under way: now, or when the last one is done."""
        if self.appending == 0:
            then()
        elif self._appended is None:
            self._appended = [then]
        else:
            self._appended.append(then)

    def append_done(self) -> None:
        """One append has ended: count it, and call the functions that wait for the last append."""
        self.appending -= 1
        if self.appending == 0 and self._appended is not None:
            waiting, self._appended = self._appended, None
            for then in waiting:
                then()

    def is_of(self, connection: ClientConnection) -> bool:
        """True unless it is another user's than the connection's: a client id is no secret."""
        principal = connection.principal
        return principal is None or self.user in ("", principal.user)

    def connect(self, connection: ClientConnection, command: Attach) -> None:
        """Belong to a connection from now on, by the terms of its CONNECT."""
        self.connection = connection
        self.user = "" if connection.principal is None else connection.principal.user
        self.epoch += 1
        self.window = command.window
        self.packet_bytes_max = command.packet_bytes_max
        self.address = command.address
        self.expiry_s = command.expiry_s
        self.will = command.will
        self.left_ms, self.disconnected_ms = self.disconnected_ms, 0
        self.finding_lag = True

    def disconnect(self) -> None:
        """Drop the state that belongs to the connection."""
        self.connection = None
        self.epoch += 1
        self.outbox.clear()
        self.unstored_deliveries.clear()
        self.unstored_accepts.clear()
        self.lag.clear()
        self.retained_scans.clear()
        self.live_values = None
        self.missed.clear()
        self.match_cache.clear()
        self.to_resend.clear()
        for flight in self.in_flight.values():
            flight.size = 0
        self.in_flight_bytes = 0
        self.finding_lag = False
        self.catching_up = False


def _number(item: tuple[int, InFlightMessage]) -> int:
    return item[1].number


def merge_by_session(values: list[tuple[MqttSession, MqttSubscription]]) -> list[MergedSubscription]:
    """Merge the subscriptions that match one path by session, in the order of subscribing."""
    grouped: dict[MqttSession, list[MqttSubscription]] = {}
    for session, subscription in values:
        grouped.setdefault(session, []).append(subscription)
    return [MergedSubscription(session, subscriptions) for session, subscriptions in grouped.items()]
