"""A store whose ports answer late, as those of a gateway before other brokers do.

docs/decisions/0098-state-over-several-stores.md
Every method with `done` is a call. Calls reach the store in their order, each after a while. Answers come back after another
while, so in another order, but for those of `State.put`. `Lateness` says what else happens to a call.
"""

from __future__ import annotations

import inspect
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final, cast

import pytest

from domain.errors import ErrorCode, Failure
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.message.message import Message
from domain.message.once import OnceKey
from domain.ports import Clock
from domain.store.message_store import MessageStore
from domain.store.store_ports import GroupPositions, Leases, MemberPulls, MessageLog, Metadata, State, StoreListener
from domain.transaction import Timers, Transactions

BREAK_NS: Final = 20 * MILLISECOND_NS
"""Time until a connection that broke is there again."""
CALL_NS: Final = 10 * SECOND_NS
"""Time after which a call without an answer is given up."""
LATE_MS: Final = 40_000
"""`MessageLog.late_ms` of a late store."""
REPEATABLE: Final = frozenset({
    "append_once", "read", "record_at", "find", "bounds", "is_hot", "search", "settle", "offset", "drop_group", "get", "pairs",
    "keys", "size", "end", "topic",
})  # fmt: skip
"""Methods with `done` that may be carried out twice: the second time does nothing more, and is answered as the first."""
ONE_WAY: Final = frozenset({"withdraw", "renew", "release", "present"})
"""Methods without an answer that are calls too. What is neither is the store's own, and is answered at once."""
_stores: Final = count(1)
NO_ANSWER: Final = Failure(ErrorCode.STORE_UNAVAILABLE, "the store has not answered in 10 s")
OVERLOADED: Final = Failure(ErrorCode.OVERLOADED, "too many requests wait for the store")


@dataclass
class Lateness:
    """How use cases of a test reach their store. The fixture `near_and_late` sets it.

    late       True: over ports that answer late
    seed       of the delays and of all that follows
    delay_ns   time that a call or an answer is under way, on average
    breaks     share of the calls at which the connection breaks: all that is under way arrives BREAK_NS later
    repeats    share of the calls that are carried out twice, of those that may be
    losses     share of the calls that are given up after CALL_NS; half of them are carried out, and their answer is discarded
    refusals   share of the calls that are refused at once: too many are under way
    counts     how often each of these came, and `overtaken`: answers that came before that of an earlier call
    """

    late: bool = False
    seed: int = 0
    delay_ns: int = MILLISECOND_NS // 5
    breaks: float = 0.0
    repeats: float = 0.05
    losses: float = 0.0
    refusals: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    def reset(self, other: Lateness | None = None) -> None:
        """Become as `other`; None: as a new one."""
        self.__dict__.update((other or Lateness()).__dict__)

    def end_faults(self) -> None:
        """Answers are late from now on, and nothing else happens to them."""
        self.breaks = self.losses = self.refusals = 0.0


LATENESS: Final = Lateness()


@pytest.fixture(params=["near", "late"])
def near_and_late(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests that use it run twice: beside their store, and with a store that answers late."""
    LATENESS.reset(Lateness(late=request.param == "late"))
    yield
    LATENESS.reset()


@pytest.fixture
def near_again() -> Iterator[None]:
    """For tests that set LATENESS themselves: later ones have their store beside them."""
    yield
    LATENESS.reset()


def reached(store: MessageStore, clock: Clock) -> MessageStore:
    """The store as use cases reach it."""
    return cast("MessageStore", LateStore(store, clock, LATENESS)) if LATENESS.late else store


class Way:
    """Carries things one after the other, each after a while."""

    def __init__(self, link: LateCalls) -> None:
        self._link = link
        self._under_way: deque[Callable[[], None]] = deque()

    def carry(self, arrive: Callable[[], None]) -> None:
        """Call `arrive` behind all that was carried before."""
        self._under_way.append(arrive)
        self._link.after_a_while(self._due)

    def _due(self) -> None:
        if self._link.is_broken:
            self._link.after_a_while(self._due)
        else:
            self._under_way.popleft()()


class LateCalls:
    """The calls of one store that are under way.

    news   what the store tells its listeners
    """

    def __init__(self, clock: Clock, lateness: Lateness) -> None:
        self._clock = clock
        self._lateness = lateness
        self._random = Random(lateness.seed)
        self._broken_until_ns = 0
        self.news = Way(self)
        self._calls = Way(self)
        self._puts = Way(self)
        self._unanswered: dict[int, None] = {}
        self._count = 0

    @property
    def is_broken(self) -> bool:
        """Whether nothing arrives now."""
        return self._clock.monotonic_ns() < self._broken_until_ns

    def after_a_while(self, act: Callable[[], None]) -> None:
        """Call `act` later, and not before a broken connection is there again."""
        begin = max(self._clock.monotonic_ns(), self._broken_until_ns)
        self._clock.call_at(begin + int(self._random.expovariate(1.0) * self._lateness.delay_ns), act)

    def _happens(self, what: str, share: float) -> bool:
        happens = share > 0 and self._random.random() < share
        self._lateness.counts[what] += happens
        return happens

    def call(self, name: str, carry_out: Callable[[Callable[[Any], None]], None], done: Callable[[Any], None] | None) -> None:
        """Carry out a method later, and answer it later still. `done` None: nobody waits for the answer."""
        lateness = self._lateness
        if done is not None and self._happens("refusals", lateness.refusals):
            done(OVERLOADED)
            return
        self._count += 1
        number = self._count
        self._unanswered[number] = None
        if self._happens("breaks", lateness.breaks):
            self._broken_until_ns = self._clock.monotonic_ns() + BREAK_NS
        answer = partial(self._answer, number, name, done)
        if self._happens("losses", lateness.losses):
            self._clock.call_at(self._clock.monotonic_ns() + CALL_NS, partial(self._deliver, number, done, NO_ANSWER))
            if self._random.random() < 0.5:
                return
            answer = partial(self._answer, number, name, None)
        if name in REPEATABLE and self._happens("repeats", lateness.repeats):
            self._calls.carry(lambda: carry_out(lambda _: carry_out(answer)))
        else:
            self._calls.carry(lambda: carry_out(answer))

    def _answer(self, number: int, name: str, done: Callable[[Any], None] | None, value: object) -> None:
        way = self._puts if name == "put" else Way(self)
        way.carry(partial(self._deliver, number, done, value))

    def _deliver(self, number: int, done: Callable[[Any], None] | None, value: object) -> None:
        if number in self._unanswered:
            self._lateness.counts["overtaken"] += number != next(iter(self._unanswered))
            del self._unanswered[number]
        if done is not None:
            done(value)


class LatePort:
    """One port: of the methods that its class declares, those that are calls are late. The rest is that of `port`."""

    def __init__(self, port: object, declared: type, calls: LateCalls) -> None:
        self._port: Any = port
        for name, method in vars(declared).items():
            if name in ONE_WAY or (inspect.isfunction(method) and "done" in inspect.signature(method).parameters):
                setattr(self, name, _late(name, getattr(port, name), calls))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


def _copied(value: Any) -> Any:
    """A message of its own for the store; `copy` cannot copy an instance of a compiled class."""
    if not isinstance(value, Message):
        return value
    return Message(**{name: getattr(value, name) for name in inspect.signature(Message).parameters})


def _late(name: str, method: Callable[..., None], calls: LateCalls) -> Callable[..., None]:
    shape = inspect.signature(method)

    def call(*given: Any, **named: Any) -> None:
        bound = shape.bind(*given, **named)
        done = bound.arguments.get("done")
        for argument, value in bound.arguments.items():
            if isinstance(value, list):
                bound.arguments[argument] = [_copied(each) for each in value]  # the store's marks are not seen by the caller

        def carry_out(answer: Callable[[Any], None]) -> None:
            if "done" in shape.parameters:
                bound.arguments["done"] = answer
            method(*bound.args, **bound.kwargs)
            if "done" not in shape.parameters:
                answer(None)

        calls.call(name, carry_out, done)

    return call


class LateLog(LatePort):
    """The messages of a late store. An append with `done` has a key, so that it may be carried out twice.

    Listeners are told of news in its order, all in one turn: `told` holds for each of them.
    """

    append_once: Callable[..., None]

    def __init__(self, log: MessageLog, calls: LateCalls, scope: str) -> None:
        super().__init__(log, MessageLog, calls)
        self._calls = calls
        self._scope = scope
        self._appends = 0
        self._notified: dict[tuple[str, int], int] = {}
        self._listeners: list[StoreListener] = []
        self._plain = self.__dict__.pop("append")
        log.listen(self)

    def append(self, messages: Sequence[Any], done: Callable[[Any], None] | None, changes: Sequence[Any] = ()) -> None:
        """MessageLog.append."""
        if done is None:
            self._plain(messages, None, changes)
            return
        self._appends += 1
        self.append_once(OnceKey(self._scope, self._appends.to_bytes(8, "big")), messages, done, changes)

    def listen(self, listener: StoreListener) -> None:
        """MessageLog.listen."""
        self._listeners.append(listener)

    def notified(self, topic: str, queue_id: int) -> int:
        """MessageLog.told."""
        return self._notified.get((topic, queue_id), -1)

    def late_ms(self) -> int:
        """MessageLog.late_ms."""
        return LATE_MS

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """StoreListener.arrived."""

        def arrive() -> None:
            self._notified[topic, queue_id] = int.from_bytes(records[-1][20:28], "big") + 1
            for listener in self._listeners:
                listener.arrived(topic, queue_id, records)

        self._calls.news.carry(arrive)

    def freed(self, group: str, topic: str) -> None:
        """StoreListener.freed."""

        def free() -> None:
            for listener in self._listeners:
                listener.freed(group, topic)

        self._calls.news.carry(free)


class LateStore:
    """A `MessageStore` over another one, `near`, whose ports answer late. The rest is that store's own."""

    def __init__(self, near: MessageStore, clock: Clock, lateness: Lateness) -> None:
        calls = LateCalls(clock, lateness)
        self.near = near
        self.log = LateLog(near.log, calls, f"late-{next(_stores)}")
        self.leases = LatePort(near.leases, Leases, calls)
        self.positions = LatePort(near.positions, GroupPositions, calls)
        self.pulls = LatePort(near.pulls, MemberPulls, calls)
        self.metadata = LatePort(near.metadata, Metadata, calls)
        self.state = LatePort(near.state, State, calls)
        self.transactions = LatePort(near.transactions, Transactions, calls)
        self.timers = LatePort(near.timers, Timers, calls)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.near, name)
