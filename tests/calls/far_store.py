"""A store behind a link that delays, reorders, loses and repeats frames under a seed, in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from random import Random
from typing import Final

import pytest

from domain.errors import Failure
from domain.histogram import Histogram
from domain.limits import MILLISECOND_NS
from domain.lite import LiteQueues
from domain.message_store import MessageStore
from domain.ports import Clock
from domain.store_ports import GroupPositions, Leases, MemberPulls, MessageLog, Metadata, Outlook, State
from domain.transaction import Timers, Transactions
from tests.calls.link import StoreLink
from tests.calls.ports import RemoteLeases, RemoteLog, RemotePositions, RemotePulls, RemoteState
from tests.calls.service import CallService

_lives: Final = count(1)
DELAY_NS: Final = MILLISECOND_NS // 5
"""Time that a frame takes, on average."""


class FarLink:
    """The connections between a gateway and a store, one after the other.

    node             the life of the gateway
    lost, repeated   frames so far
    """

    def __init__(self, store: MessageStore, clock: Clock, seed: int, loss: float = 0.02, repeats: float = 0.05) -> None:
        self._clock = clock
        self._random = Random(seed)
        self._loss, self._repeats = loss, repeats
        self._service = CallService(store, clock)
        self.link = StoreLink("store-1", clock)
        self._connection = 0
        self.node = f"gateway-{next(_lives)}"
        self.lost = self.repeated = 0
        self._connect()

    def _connect(self) -> None:
        self._connection += 1
        number = self._connection
        self._back = partial(self._carry, number, self.link.received)
        self._service.connected(self.node, self._back)
        self.link.connected(1, partial(self._carry, number, partial(self._service.received, self.node)))

    def _carry(self, connection: int, receive: Callable[[bytes], None], body: bytes) -> None:
        """Take a frame to the other side after a while; sometimes twice, sometimes not at all: then the connection breaks."""
        if connection != self._connection:
            return
        if self._random.random() < self._loss:
            self.lost += 1
            self._break()
            return
        times = 1
        if self._random.random() < self._repeats:
            times = 2
            self.repeated += 1
        for _ in range(times):
            delay_ns = int(self._random.expovariate(1.0) * DELAY_NS)
            self._clock.call_at(self._clock.monotonic_ns() + delay_ns, partial(self._arrive, connection, receive, body))

    def _arrive(self, connection: int, receive: Callable[[bytes], None], body: bytes) -> None:
        if connection == self._connection:
            receive(body)

    def _break(self) -> None:
        self._connection += 1
        self._service.lost(self.node, self._back)
        self.link.lost()
        self._clock.call_at(self._clock.monotonic_ns() + 20 * MILLISECOND_NS, self._connect)


class LateNews:
    """A listener at the store that passes on what it hears after a while, in its order."""

    def __init__(self, log: RemoteLog, clock: Clock, seed: int) -> None:
        self._log = log
        self._clock = clock
        self._random = Random(seed)
        self._last_ns = 0

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        self._later(lambda: self._log.arrived(topic, queue_id, records))

    def freed(self, group: str, topic: str) -> None:
        self._later(lambda: self._log.freed(group, topic))

    def _later(self, tell: Callable[[], None]) -> None:
        now = self._clock.monotonic_ns()
        self._last_ns = max(self._last_ns, now + int(self._random.expovariate(1.0) * DELAY_NS))
        self._clock.call_at(self._last_ns, tell)


class LapsingLeases(RemoteLeases):
    """Leases over the link; `lapse` is the store's own."""

    def __init__(self, link: StoreLink, near: Leases) -> None:
        super().__init__(link)
        self._near = near

    def lapse(self) -> None:
        self._near.lapse()


class FollowedState(RemoteState):
    """State over the link; `follow` is the store's own."""

    def __init__(self, link: StoreLink, near: State) -> None:
        super().__init__(link)
        self.follow = near.follow


class FarStore:
    """A `MessageStore` whose log, leases, positions, pulls and state are reached over a link; the rest is the store's own."""

    def __init__(self, near: MessageStore, clock: Clock, seed: int = 0, loss: float = 0.0) -> None:
        self.near = near
        self.far = FarLink(near, clock, seed, loss)
        link = self.far.link
        log = RemoteLog(link, self.far.node)
        near.log.listen(LateNews(log, clock, seed))
        self.log: MessageLog = log
        self.leases: Leases = LapsingLeases(link, near.leases)
        self.dead_letters = near.dead_letters
        self.positions: GroupPositions = RemotePositions(link)
        self.pulls: MemberPulls = RemotePulls(link)
        self.state: State = FollowedState(link, near.state)
        self.metadata: Metadata = near.metadata
        self.transactions: Transactions = near.transactions
        self.timers: Timers = near.timers
        self.lite_queues: LiteQueues = near.lite_queues
        self.outlook: Outlook = near.outlook

    @property
    def broken(self) -> Failure | None:
        return self.near.broken

    def timed(self) -> tuple[int, int]:
        return self.near.timed()

    def figures(self) -> dict[str, float]:
        return self.near.figures()

    def unanswered_bytes(self) -> int:
        return self.near.unanswered_bytes()

    def histograms(self) -> dict[str, Histogram]:
        return self.near.histograms()

    def drain(self, done: Callable[[], None]) -> None:
        self.near.drain(done)

    def close(self) -> None:
        self.near.close()


@dataclass
class Distance:
    """How use cases of a test reach their store; `each_distance` sets it for the tests of a folder.

    far    True: over a link
    loss   share of the frames that get lost, each with its connection
    seed   of the link
    """

    far: bool = False
    loss: float = 0.0
    seed: int = 0


DISTANCE: Final = Distance()


@pytest.fixture(params=["near", "far"], autouse=True)
def each_distance(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test runs twice: beside its store, and over a link. A `conftest.py` that imports it sets that up for its folder."""
    DISTANCE.far = request.param == "far"
    yield
    DISTANCE.far, DISTANCE.loss, DISTANCE.seed = False, 0.0, 0


def reached(store: MessageStore, clock: Clock) -> MessageStore:
    """The store as use cases reach it."""
    return FarStore(store, clock, DISTANCE.seed, DISTANCE.loss) if DISTANCE.far else store
