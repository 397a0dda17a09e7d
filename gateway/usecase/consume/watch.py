"""Watching: new messages by path, while the connection is open. Nothing is kept for a watcher that is away."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, final

from domain.command import Unwatch, Watch
from domain.delivery.expiry import has_expired
from domain.errors import ErrorCode, Failure
from domain.event import Refused, WatchedMessages, WatchStarted
from domain.filter.path_matching import is_filter
from domain.message import property as properties
from domain.message.record import Record
from domain.ports import Clock
from gateway.connection.client_connection import ClientConnection
from gateway.routing.routes import SubscriberRoutes
from gateway.usecase.handler import Verbs
from gateway.usecase.waiting.long_polls import RightsCheck

PENDING_MAX: Final = 4_096
"""Records that one watch may have waiting for the end of a loop turn."""
TURN_OFFERS: Final = 1_024
"""Watches to which records are offered in one turn; what arrives beyond waits for the next turns, in its order."""
TURN_WATCHES: Final = 128
"""Watches whose records are delivered in one turn."""
WATCHES_PER_CONNECTION_MAX: Final = 1_024


@final
class Watcher:
    """One watch.

    connection   where records are delivered
    ticket       the command's ticket, which names the watch on its connection
    pending      records that arrived for it and are not delivered yet, at most PENDING_MAX
    ended        True: nothing is delivered any more
    """

    __slots__ = ("command", "connection", "ended", "pattern", "pending", "ticket")

    def __init__(self, connection: ClientConnection, command: Watch) -> None:
        self.connection = connection
        self.command = command
        self.ticket = command.ticket
        self.pattern = command.pattern
        self.pending: deque[bytes] = deque()
        self.ended = False


Interest = Callable[[str, bool], None]
"""(filter, whether it begins or ends)"""


class Watches:
    """The verbs Watch and Unwatch. As a StoreListener it delivers new records: one Delivered a watch and loop turn.

    dropped       records that watches lost, the oldest first, since more than `pending_max` arrived before a delivery
    pending_max   records that one watch may have waiting: PENDING_MAX
    _waiting      watches with pending records, in the order of delivery
    _offers       offers that this turn may still make
    _arrivals     records that have not been offered to all their watches yet
    _partly       the watches that the first of them has still to be offered to, the next one last; None: it was offered to none
    """

    def __init__(self, clock: Clock, interest: Interest | None = None) -> None:
        """`interest` is called with the filter of each watch that begins (True) or ends (False)."""
        self._interest = interest
        self._clock = clock
        self._routes: SubscriberRoutes[Watcher, list[Watcher]] = SubscriberRoutes(list)
        self._of_connection: dict[ClientConnection, dict[object, Watcher]] = {}
        self._waiting: dict[Watcher, None] = {}
        self._offers = TURN_OFFERS
        self._arrivals: deque[tuple[str, bytes]] = deque()
        self._partly: list[Watcher] | None = None
        self.dropped = 0
        self.pending_max: int = PENDING_MAX
        self.verbs: Verbs = {Watch: self.watch, Unwatch: self.unwatch}

    @property
    def watching(self) -> int:
        """Watches that are on."""
        return self._routes.size

    def watch(self, connection: ClientConnection, command: Watch) -> None:
        """Answer Watched and deliver from now on. Refused FILTER_ILLEGAL, or QUOTA beyond WATCHES_PER_CONNECTION_MAX.

        The adapter of a connection that peers share bounds the watches of each peer.

        A second watch under the same ticket takes the place of the first.
        """
        if not is_filter(command.pattern):
            connection.answer(Refused(command.ticket, Failure(ErrorCode.FILTER_ILLEGAL, "not a legal topic filter")))
            return
        self._end(connection, command.ticket)
        mine = self._of_connection.get(connection)
        if mine is None:
            mine = self._of_connection[connection] = {}
            connection.on_close.append(lambda: self._close(connection))
        if len(mine) >= WATCHES_PER_CONNECTION_MAX and not connection.shared:
            failure = Failure(ErrorCode.QUOTA, f"a connection may hold {WATCHES_PER_CONNECTION_MAX} watches")
            connection.answer(Refused(command.ticket, failure))
            return
        watcher = Watcher(connection, command)
        mine[command.ticket] = watcher
        self._routes.insert(command.pattern, watcher)
        if self._interest is not None:
            self._interest(command.pattern, True)
        connection.answer(WatchStarted(command.ticket))

    def unwatch(self, connection: ClientConnection, command: Unwatch) -> None:
        """End one watch; harmless when there is none."""
        self._end(connection, command.ticket)

    def review(self, check: RightsCheck) -> None:
        """End and refuse the watches that `check` forbids: rights have changed."""
        for connection, watchers in list(self._of_connection.items()):
            for watcher in list(watchers.values()):
                failure = check(connection, watcher.command)
                if failure is not None:
                    self._end(connection, watcher.ticket)
                    connection.answer(Refused(watcher.ticket, failure))

    @property
    def arriving(self) -> int:
        """Records that wait to be offered to watches, and watches that wait for their records."""
        return len(self._arrivals) + len(self._waiting)

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """Keep each unexpired record for the watches that match it, and deliver them at the end of the loop turn."""
        if not self._routes.size:
            return
        for at, data in enumerate(records):
            if self._arrivals or not self._offer(topic, data):
                if not self._arrivals:
                    self._clock.call_at(self._clock.monotonic_ns(), self._go_on)
                self._arrivals.extend((topic, each) for each in records[at:])
                return

    def _offer(self, topic: str, data: bytes) -> bool:
        """Offer a record to watches, as many as this turn may. True: all have it."""
        left = self._partly
        if left is None:
            stored = Record(data).properties
            if properties.has(stored, properties.HG_EXPIRE_MS_START) and has_expired(data, self._clock.wall_ms()):
                return True
            watchers = self._routes.of(topic, properties.find(stored, properties.ORIGIN_MQTT_TOPIC_START))[1]
            if len(watchers) <= self._offers:
                for watcher in watchers:
                    self._keep(watcher, data)
                self._offers -= len(watchers)
                return True
            left = self._partly = watchers[::-1]
        some = min(self._offers, len(left))
        self._offers -= some
        for _ in range(some):
            self._keep(left.pop(), data)
        if not left:
            self._partly = None
        return not left

    def _keep(self, watcher: Watcher, data: bytes) -> None:
        if watcher.ended:
            return
        pending = watcher.pending
        if not pending:
            if not self._waiting:
                self._clock.call_soon(self._deliver)
            self._waiting[watcher] = None
        elif len(pending) >= self.pending_max:
            pending.popleft()
            self.dropped += 1
        pending.append(data)

    def _go_on(self) -> None:
        """Offer the records that have arrived and wait, in their order."""
        self._offers = TURN_OFFERS
        while self._arrivals:
            if not self._offer(*self._arrivals[0]):
                self._clock.call_at(self._clock.monotonic_ns(), self._go_on)
                return
            self._arrivals.popleft()

    def freed(self, group: str, topic: str) -> None:
        """Do nothing: watches lease nothing."""

    def _deliver(self) -> None:
        """Deliver to TURN_WATCHES watches; the others have their turn by a timer, so that other work runs in between."""
        if not self._arrivals:
            self._offers = TURN_OFFERS
        for watcher in list(islice(self._waiting, TURN_WATCHES)):
            del self._waiting[watcher]
            records = list(watcher.pending)
            watcher.pending.clear()
            watcher.connection.answer(WatchedMessages(watcher.ticket, records))
        if self._waiting:
            self._clock.call_at(self._clock.monotonic_ns(), self._deliver)

    def _end(self, connection: ClientConnection, ticket: object) -> None:
        watcher = self._of_connection.get(connection, {}).pop(ticket, None)
        if watcher is not None:
            self._drop(watcher)

    def _drop(self, watcher: Watcher) -> None:
        self._routes.remove(watcher.pattern, watcher)
        if self._interest is not None:
            self._interest(watcher.pattern, False)
        watcher.ended = True
        watcher.pending.clear()
        self._waiting.pop(watcher, None)

    def _close(self, connection: ClientConnection) -> None:
        for watcher in self._of_connection.pop(connection, {}).values():
            self._drop(watcher)
