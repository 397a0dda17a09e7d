"""One session as it stands in memory: filters, window, positions, marks. Pure state; `sessions` decides, `snapshot` keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.errors import Failure
from domain.filter.path import matches
from domain.mqtt_session import EXPIRY_NEVER, SLOT_MAX, Delivery, Interest, Parcel, Will
from domain.receipt import Receipt
from gateway.connection.client_connection import ClientConnection
from gateway.routing.routes import path_in
from gateway.usecase.publish.latest import LatestScan

WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024
"""Record bytes that may be on their way to one client unconfirmed; one message always may."""
REMEMBERED_MAX: Final = 1_024

HELD: Final = 0
SETTLED: Final = 1
RETURNED: Final = 2
BURIED: Final = 3

Place = tuple[str, int]
"""A queue: topic and queue id."""


@final
class Claim:
    """A lease of a consumer group's ledger that stands behind a flight.

    topic      whose queue the receipt speaks of: the group's retry topic, perhaps
    end_ms     wall clock at which the lease ends, unless it is renewed
    attempt    the how manieth delivery it is
    renewing   it is being moved, and gets another receipt
    fate       what becomes of it: HELD, SETTLED, RETURNED to the group after `delay_ms`, or BURIED as a dead letter
    """

    __slots__ = ("attempt", "delay_ms", "end_ms", "fate", "group", "receipt", "renewing", "topic")

    def __init__(self, group: str, topic: str, receipt: Receipt, end_ms: int, attempt: int = 1) -> None:
        self.attempt = attempt
        self.delay_ms = 0
        self.group = group
        self.topic = topic
        self.receipt = receipt
        self.end_ms = end_ms
        self.renewing = False
        self.fate = HELD


@final
class Flight:
    """What occupies a slot: where its record is (by `path` for a latest value, which has no offset), and how it was sent.

    claim   the lease behind it, for a member of a group as long as the ledger has it
    """

    __slots__ = ("claim", "identifiers", "level", "offset", "path", "place", "retained", "size", "taken")

    def __init__(
        self,
        level: int,
        place: Place,
        offset: int,
        path: str,
        retained: bool,
        identifiers: tuple[int, ...],
        size: int = 0,
        taken: bool = False,
        claim: Claim | None = None,
    ) -> None:
        self.claim = claim
        self.level = level
        self.place = place
        self.offset = offset
        self.path = path
        self.retained = retained
        self.identifiers = identifiers
        self.size = size
        self.taken = taken


@final
class Reach:
    """How one path reaches one subscriber: its matching filters merged (MQTT 5, 3.3.4: one delivery, the highest QoS, all ids).

    `own` is the same for what the subscriber itself has sent, which filters with `no_local` do not match; None: not at all.
    """

    __slots__ = ("as_published", "identifiers", "level", "own", "picky", "session")

    def __init__(self, session: MqttSession, interests: list[Interest]) -> None:
        self.session = session
        self.level = max(interest.level for interest in interests)
        self.as_published = any(interest.as_published for interest in interests)
        self.identifiers = tuple(interest.identifier for interest in interests if interest.identifier)
        local = [interest for interest in interests if not interest.no_local]
        self.picky = len(local) < len(interests)
        self.own: Reach | None = Reach(session, local) if local and self.picky else None


@final
class Show:
    """Latest values that a filter is still to be shown: paths that were found, the next one last, and the walk for more."""

    __slots__ = ("interest", "ready", "walk")

    def __init__(self, interest: Interest, walk: LatestScan, ready: list[str]) -> None:
        self.interest = interest
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
        "address",
        "again",
        "baseline_ms",
        "catching_up",
        "claims",
        "client_id",
        "connection",
        "dirty",
        "epoch",
        "expiry_s",
        "flying_bytes",
        "held",
        "in_flight",
        "interests",
        "lag",
        "latest",
        "lost_ms",
        "missed",
        "next_slot",
        "outbox",
        "packet_bytes_max",
        "positions",
        "received",
        "remembered",
        "shares",
        "sorting",
        "taking",
        "touched",
        "will",
        "window",
    )  # fmt: skip

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.connection: ClientConnection | None = None
        self.window = 1
        self.packet_bytes_max = 0
        self.address = ""
        self.expiry_s = 0
        self.will: Will | None = None
        self.lost_ms = 0
        self.interests: dict[str, Interest] = {}
        self.shares: dict[str, Interest] = {}
        self.claims = 0
        self.baseline_ms = 0
        self.positions: dict[Place, int] = {}
        self.lag: dict[Place, int] = {}
        self.missed: dict[Place, int] = {}
        self.latest: list[Show] = []
        self.in_flight: dict[int, Flight] = {}
        self.flying_bytes = 0
        self.next_slot = 1
        self.received: dict[int, list[Callable[[Failure | None], None]] | None] = {}
        self.outbox: list[Delivery] = []
        self.held: list[Delivery] = []
        self.taking: list[int] = []
        self.dirty = False
        self.touched: dict[str, None] = {}
        self.again: list[int] = []
        self.sorting = False
        self.catching_up = False
        self.epoch = 0
        self.remembered: dict[tuple[str, bytes], tuple[str, list[Interest]]] = {}

    @property
    def durable(self) -> bool:
        """The session outlives its connection, and is kept in the store."""
        return self.expiry_s > 0

    @property
    def full(self) -> bool:
        """No delivery above AT_MOST_ONCE may be added now."""
        return len(self.in_flight) >= self.window or self.flying_bytes >= WINDOW_BYTES_MAX

    def ends_ms(self) -> int:
        """Wall clock at which the session, being without a connection, is over; -1: never, or it has one."""
        return -1 if self.expiry_s == EXPIRY_NEVER or self.lost_ms == 0 else self.lost_ms + 1000 * self.expiry_s

    def enter(self, flight: Flight, parcel: Parcel) -> Delivery:
        """Give `parcel` a slot. The caller has looked at `full`."""
        slot = self.next_slot
        in_flight = self.in_flight
        while slot in in_flight:
            slot = slot % SLOT_MAX + 1
        self.next_slot = slot % SLOT_MAX + 1
        flight.size = len(parcel.record.data)
        self.flying_bytes += flight.size
        in_flight[slot] = flight
        if flight.claim is not None:
            self.claims += 1
        return Delivery(parcel, flight.level, slot, flight.retained, False, flight.identifiers)

    def leave(self, slot: int) -> Claim | None:
        """Free a slot, harmless when it is free; the lease behind it, which is the caller's to end."""
        flight = self.in_flight.pop(slot, None)
        if flight is None:
            return None
        self.flying_bytes -= flight.size
        if flight.claim is not None:
            self.claims -= 1
        return flight.claim

    def matching(self, topic: str, origin: bytes, physical_offset: int) -> tuple[str, list[Interest]]:
        """(path, filters) that a record read from the log is for: those that are not younger than it."""
        key = (topic, origin)
        found = self.remembered.get(key)
        if found is None:
            path = path_in(topic, origin)
            found = (path, [interest for interest in self.interests.values() if matches(interest.pattern, path)])
            if len(self.remembered) >= REMEMBERED_MAX:
                self.remembered.clear()
            self.remembered[key] = found
        return found[0], [interest for interest in found[1] if interest.since <= physical_offset]

    def disconnect(self) -> None:
        """Drop what only a connection needs."""
        self.connection = None
        self.epoch += 1
        self.outbox.clear()
        self.held.clear()
        self.taking.clear()
        self.lag.clear()
        self.latest.clear()
        self.missed.clear()
        self.remembered.clear()
        self.again.clear()
        for flight in self.in_flight.values():
            flight.size = 0
        self.flying_bytes = 0
        self.sorting = False
        self.catching_up = False


def fold(values: list[tuple[MqttSession, Interest]]) -> list[Reach]:
    """Merge what matched one path, by subscriber, in the order of their subscriptions."""
    grouped: dict[MqttSession, list[Interest]] = {}
    for session, interest in values:
        grouped.setdefault(session, []).append(interest)
    return [Reach(session, interests) for session, interests in grouped.items()]
