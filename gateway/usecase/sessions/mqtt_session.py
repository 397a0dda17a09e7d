"""One session as it stands in memory: filters, window, positions, marks. Pure state; `sessions` decides, `snapshot` keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.errors import Failure
from domain.filter.path import matches
from domain.mqtt_session import EXPIRY_NEVER, SLOT_MAX, Delivery, MqttSubscription, RoutedRecord, Will
from domain.receipt import Receipt
from gateway.connection.client_connection import ClientConnection
from gateway.routing.routes import path_in
from gateway.usecase.publish.latest import LatestScan

WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024
"""Record bytes that may be on their way to one client unconfirmed; one message always may."""
MATCH_CACHE_MAX: Final = 1_024

HELD: Final = 0
SETTLED: Final = 1
RETURNED: Final = 2
DEAD_LETTERED: Final = 3

QueueKey = tuple[str, int]
"""A queue: topic and queue id."""


@final
class DeliveryLease:
    """A lease of a consumer group's ledger that stands behind a flight.

    topic      whose queue the receipt speaks of: the group's retry topic, perhaps
    end_ms     wall clock at which the lease ends, unless it is renewed
    attempt    the how manieth delivery it is
    renewing   it is being moved, and gets another receipt
    fate       what becomes of it: HELD, SETTLED, RETURNED to the group after `delay_ms`, or BURIED as a dead letter
    """

    __slots__ = ("attempt", "delay_ms", "end_ms", "group", "outcome", "receipt", "renewing", "topic")

    def __init__(self, group: str, topic: str, receipt: Receipt, end_ms: int, attempt: int = 1) -> None:
        self.attempt = attempt
        self.delay_ms = 0
        self.group = group
        self.topic = topic
        self.receipt = receipt
        self.end_ms = end_ms
        self.renewing = False
        self.outcome = HELD


@final
class InFlightMessage:
    """What occupies a slot: where its record is (by `path` for a latest value, which has no offset), and how it was sent.

    claim   the lease behind it, for a member of a group as long as the ledger has it
    """

    __slots__ = ("identifiers", "lease", "level", "offset", "path", "queue", "retained", "size", "taken")

    def __init__(
        self,
        level: int,
        queue: QueueKey,
        offset: int,
        path: str,
        retained: bool,
        identifiers: tuple[int, ...],
        size: int = 0,
        taken: bool = False,
        lease: DeliveryLease | None = None,
    ) -> None:
        self.lease = lease
        self.level = level
        self.queue = queue
        self.offset = offset
        self.path = path
        self.retained = retained
        self.identifiers = identifiers
        self.size = size
        self.taken = taken


@final
class MergedSubscription:
    """How one path reaches one subscriber: its matching filters merged (MQTT 5, 3.3.4: one delivery, the highest QoS, all ids).

    `own` is the same for what the subscriber itself has sent, which filters with `no_local` do not match; None: not at all.
    """

    __slots__ = ("as_published", "excludes_own", "for_own_messages", "identifiers", "level", "session")

    def __init__(self, session: MqttSession, subscriptions: list[MqttSubscription]) -> None:
        self.session = session
        self.level = max(subscription.level for subscription in subscriptions)
        self.as_published = any(subscription.as_published for subscription in subscriptions)
        self.identifiers = tuple(subscription.identifier for subscription in subscriptions if subscription.identifier)
        local = [subscription for subscription in subscriptions if not subscription.no_local]
        self.excludes_own = len(local) < len(subscriptions)
        self.for_own_messages: MergedSubscription | None = (
            MergedSubscription(session, local) if local and self.excludes_own else None
        )


@final
class RetainedScan:
    """Latest values that a filter is still to be shown: paths that were found, the next one last, and the walk for more."""

    __slots__ = ("ready", "subscription", "walk")

    def __init__(self, subscription: MqttSubscription, walk: LatestScan, ready: list[str]) -> None:
        self.subscription = subscription
        self.walk = walk
        self.ready = ready


@final
class MqttSession:
    """One session.

    Invariant: of every queue, what matched below `positions[queue]` has been confirmed or occupies a slot; what matched
    from `lag[queue]` on is still to be read from the log. A queue that is not in `lag` is followed live.

    missed          the last offset that came to a lagging queue
    window          slots that may be occupied at once
    packet_bytes_max  the largest delivery that the connection takes, 0: any; address  its peer, "host:port"
    expiry_s        0: the session ends with its connection and lives in memory only
    baseline_ms     wall clock since when filters that begin with a wildcard count, 0: there are none
    lost_ms         wall clock when the connection ended, 0: it has not, or the session has never been without
    received        the client's marks -> who waits for their append, None once it is durable
    shares          filters as a member of a group, by name
    claims          flights with a lease behind them
    again           slots whose deliveries this connection has not had yet, oldest first
    sorting         it is being found out which queues lag: until then each of them counts as lagging
    catching_up     a read of the log is under way
    """

    __slots__ = (
        "address", "baseline_ms", "catching_up", "changed_topics", "client_id", "connection", "dirty", "disconnected_ms",
        "epoch", "expiry_s", "finding_lag", "in_flight", "in_flight_bytes", "lag", "leases", "match_cache", "missed",
        "next_slot", "outbox", "packet_bytes_max", "positions", "received", "retained_scans", "shared_subscriptions",
        "subscriptions", "to_resend", "unstored_deliveries", "unstored_takes", "will", "window",
    )  # fmt: skip

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.connection: ClientConnection | None = None
        self.window = 1
        self.packet_bytes_max = 0
        self.address = ""
        self.expiry_s = 0
        self.will: Will | None = None
        self.disconnected_ms = 0
        self.subscriptions: dict[str, MqttSubscription] = {}
        self.shared_subscriptions: dict[str, MqttSubscription] = {}
        self.leases = 0
        self.baseline_ms = 0
        self.positions: dict[QueueKey, int] = {}
        self.lag: dict[QueueKey, int] = {}
        self.missed: dict[QueueKey, int] = {}
        self.retained_scans: list[RetainedScan] = []
        self.in_flight: dict[int, InFlightMessage] = {}
        self.in_flight_bytes = 0
        self.next_slot = 1
        self.received: dict[int, list[Callable[[Failure | None], None]] | None] = {}
        self.outbox: list[Delivery] = []
        self.unstored_deliveries: list[Delivery] = []
        self.unstored_takes: list[int] = []
        self.dirty = False
        self.changed_topics: dict[str, None] = {}
        self.to_resend: list[int] = []
        self.finding_lag = False
        self.catching_up = False
        self.epoch = 0
        self.match_cache: dict[tuple[str, bytes], tuple[str, list[MqttSubscription]]] = {}

    @property
    def durable(self) -> bool:
        """The session outlives its connection, and is kept in the store."""
        return self.expiry_s > 0

    @property
    def full(self) -> bool:
        """No delivery above AT_MOST_ONCE may be added now."""
        return len(self.in_flight) >= self.window or self.in_flight_bytes >= WINDOW_BYTES_MAX

    def expires_ms(self) -> int:
        """Wall clock at which the session, being without a connection, is over; -1: never, or it has one."""
        return -1 if self.expiry_s == EXPIRY_NEVER or self.disconnected_ms == 0 else self.disconnected_ms + 1000 * self.expiry_s

    def occupy_slot(self, flight: InFlightMessage, routed: RoutedRecord) -> Delivery:
        """Give `parcel` a slot. The caller has looked at `full`."""
        slot = self.next_slot
        in_flight = self.in_flight
        while slot in in_flight:
            slot = slot % SLOT_MAX + 1
        self.next_slot = slot % SLOT_MAX + 1
        flight.size = len(routed.record.data)
        self.in_flight_bytes += flight.size
        in_flight[slot] = flight
        if flight.lease is not None:
            self.leases += 1
        return Delivery(routed, flight.level, slot, flight.retained, False, flight.identifiers)

    def free_slot(self, slot: int) -> DeliveryLease | None:
        """Free a slot, harmless when it is free; the lease behind it, which is the caller's to end."""
        flight = self.in_flight.pop(slot, None)
        if flight is None:
            return None
        self.in_flight_bytes -= flight.size
        if flight.lease is not None:
            self.leases -= 1
        return flight.lease

    def matching(self, topic: str, origin: bytes, physical_offset: int) -> tuple[str, list[MqttSubscription]]:
        """(path, filters) that a record read from the log is for: those that are not younger than it."""
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

    def disconnect(self) -> None:
        """Drop what only a connection needs."""
        self.connection = None
        self.epoch += 1
        self.outbox.clear()
        self.unstored_deliveries.clear()
        self.unstored_takes.clear()
        self.lag.clear()
        self.retained_scans.clear()
        self.missed.clear()
        self.match_cache.clear()
        self.to_resend.clear()
        for flight in self.in_flight.values():
            flight.size = 0
        self.in_flight_bytes = 0
        self.finding_lag = False
        self.catching_up = False


def merge_by_session(values: list[tuple[MqttSession, MqttSubscription]]) -> list[MergedSubscription]:
    """Merge what matched one path, by subscriber, in the order of their subscriptions."""
    grouped: dict[MqttSession, list[MqttSubscription]] = {}
    for session, subscription in values:
        grouped.setdefault(session, []).append(subscription)
    return [MergedSubscription(session, subscriptions) for session, subscriptions in grouped.items()]
