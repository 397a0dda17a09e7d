"""Counters of messages: in by topic, out by topic and group, and in total; over a minute, an hour and a day."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final, final

from domain import limits
from domain.admin.broker import FlowRate, QueryRates, Rates
from domain.errors import ErrorCode, Failure
from domain.event import Leased, Refused
from domain.ports import Clock
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs

TICK_S: Final = 10
TICK_NS: Final = TICK_S * limits.SECOND_NS
DAY_MS: Final = 86_400_000
COUNTERS_MAX: Final = 16_384
"""Counters of one kind. A new one beyond it replaces those that counted nothing for a day, or is not kept."""

ROOM_LOOKS_MAX: Final = 256
"""Counters that one tick looks at to make room: with all of them a turn would take some hundred milliseconds."""

_NAMES: Final[Mapping[str, tuple[str, int]]] = {
    "TOPIC_PUT_NUMS": ("put", 0),
    "TOPIC_PUT_SIZE": ("put", 1),
    "GROUP_GET_NUMS": ("got", 0),
    "GROUP_GET_SIZE": ("got", 1),
    "BROKER_PUT_NUMS": ("all-put", 0),
    "BROKER_GET_NUMS": ("all-got", 0),
}
"""RocketMQ's name of a statistic -> (kind of counter, column: 0 messages, 1 bytes)."""


@final
class CountWindow:
    """Sums in time slots of `ticks` ticks each. The latest `slots` slots are kept; `add` and `sum` drop older ones."""

    __slots__ = ("_at", "_rows", "_ticks")

    def __init__(self, ticks: int, slots: int) -> None:
        self._ticks = ticks
        self._rows = [[0, 0, 0] for _ in range(slots)]
        self._at = -1

    def add(self, count: int, size: int, times: int, tick: int) -> None:
        """Add `count` messages of `size` bytes in total, which passed in `times` calls, to the slot of `tick`."""
        row = self._turn(tick)
        row[0] += count
        row[1] += size
        row[2] += times

    def sum(self, tick: int, slots: int) -> tuple[int, int, int]:
        """(messages, bytes, calls) in the latest `slots` slots, the current one included."""
        self._turn(tick)
        size = len(self._rows)
        rows = [self._rows[(self._at - back) % size] for back in range(slots)]
        return sum(row[0] for row in rows), sum(row[1] for row in rows), sum(row[2] for row in rows)

    def _turn(self, tick: int) -> list[int]:
        slot = tick // self._ticks
        size = len(self._rows)
        if slot != self._at:
            for passed in range(max(self._at + 1, slot - size + 1), slot + 1):
                self._rows[passed % size] = [0, 0, 0]
            self._at = slot
        return self._rows[slot % size]


@final
class Counter:
    """Counts messages over a minute, an hour, a day, and since the start.

    A call of `add` costs three additions; the sums of a tick are added to the windows when the tick ends or a window is read.
    """

    __slots__ = ("_bytes", "_count", "_day", "_hour", "_minute", "_size", "_tick", "_times", "_total")

    def __init__(self) -> None:
        self._minute = CountWindow(1, 7)
        self._hour = CountWindow(60, 7)
        self._day = CountWindow(360, 25)
        self._total = 0
        self._bytes = 0
        self._tick = 0
        self._count = 0
        self._size = 0
        self._times = 0

    def add(self, count: int, size: int, tick: int) -> None:
        """Count `count` messages of `size` bytes in total."""
        if tick != self._tick:
            self.settle(tick)
        self._count += count
        self._size += size
        self._times += 1

    def begin(self, total: int) -> None:
        """Begin at `total`, which is part of no window."""
        self._total = total

    def reach(self, total: int, tick: int) -> None:
        """Raise the count to `total`; the difference to the last call counts in this tick."""
        if total > self.total():
            self.add(total - self.total(), 0, tick)

    def settle(self, tick: int) -> None:
        """Add the sums of the last tick to the windows."""
        if self._times:
            for window in (self._minute, self._hour, self._day):
                window.add(self._count, self._size, self._times, self._tick)
            self._total += self._count
            self._bytes += self._size
            self._count = self._size = self._times = 0
        self._tick = tick

    def total(self) -> int:
        """Messages since the start."""
        return self._total + self._count

    def sums(self) -> tuple[int, int]:
        """(messages, bytes) since the start."""
        return self._total + self._count, self._bytes + self._size

    def minute(self, tick: int) -> CountWindow:
        """The window of the last minute."""
        self.settle(tick)
        return self._minute

    def hour(self, tick: int) -> CountWindow:
        """The window of the last hour."""
        self.settle(tick)
        return self._hour

    def day(self, tick: int) -> CountWindow:
        """The window of the last day."""
        self.settle(tick)
        return self._day


@final
class MessageCounters:
    """The verb QueryRates. As a StoreListener it counts messages that are stored; `received` and `pulled` count deliveries."""

    def __init__(self, clock: Clock) -> None:
        self.counters_max: int = COUNTERS_MAX
        self._clock = clock
        self._began_ns = clock.monotonic_ns()
        self._tick = 0
        self._put: dict[str, Counter] = {}
        self._got: dict[tuple[str, str], Counter] = {}
        self._all_put = Counter()
        self._all_got = Counter()
        self._full_at = -1
        self._day = clock.wall_ms() // DAY_MS
        self._totals_at_midnight = {"put": (0, 0), "got": (0, 0)}
        self._followed: dict[str, tuple[Callable[[], int], Counter]] = {}
        clock.call_at(self._began_ns + TICK_NS, self._next)
        self.verbs: Verbs = {QueryRates: self._query}

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """Count messages that were stored."""
        counter = self._put.get(topic)
        if counter is None:
            counter = Counter()
            if self._has_room(self._put):
                self._put[topic] = counter
        count = len(records)
        size = len(records[0]) if count == 1 else sum(map(len, records))
        counter.add(count, size, self._tick)
        self._all_put.add(count, size, self._tick)

    def follow(self, name: str, total: Callable[[], int]) -> None:
        """Add a count that is kept elsewhere to the figures, as a rate by the second. `total` is called once a tick."""
        counter = Counter()
        counter.begin(total())
        self._followed[name] = (total, counter)

    def freed(self, group: str, topic: str) -> None:
        """Do nothing: leases are not counted."""

    def pulled(self, group: str, topic: str, count: int, size: int) -> None:
        """Count `count` messages of `size` bytes together, which `group` has pulled."""
        self._delivered(group, topic, count, size)

    def received(self, group: str, topic: str, messages: Sequence[Leased]) -> int:
        """Count messages that `group` has received. Returns the bytes of their records."""
        size = sum([len(message.record) for message in messages])
        self._delivered(group, topic, len(messages), size)
        return size

    def _delivered(self, group: str, topic: str, count: int, size: int) -> None:
        counter = self._got.get((topic, group))
        if counter is None:
            counter = Counter()
            if self._has_room(self._got):
                self._got[topic, group] = counter
        counter.add(count, size, self._tick)
        self._all_got.add(count, size, self._tick)

    def per_second(self, group: str) -> float:
        """Messages a second that were delivered to `group` in the last minute, over all topics."""
        found = [counter.minute(self._tick).sum(self._tick, 7)[0] for (_, name), counter in self._got.items() if name == group]
        return sum(found) / self._seconds(1, 7)

    def put_per_second(self, topic: str) -> float:
        """Messages a second that were stored in `topic` in the last minute."""
        counter = self._put.get(topic)
        return counter.minute(self._tick).sum(self._tick, 7)[0] / self._seconds(1, 7) if counter is not None else 0.0

    def topics(self) -> dict[str, tuple[int, int]]:
        """Topic -> (messages, bytes) stored since the start, for at most COUNTERS_MAX topics."""
        return {topic: counter.sums() for topic, counter in self._put.items()}

    def deliveries(self) -> dict[tuple[str, str], tuple[int, int]]:
        """(group, topic) -> (messages, bytes) delivered since the start, for at most COUNTERS_MAX of them."""
        return {(group, topic): counter.sums() for (topic, group), counter in self._got.items()}

    def sums(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """((messages, bytes) stored, (messages, bytes) delivered) since the start, over all topics and groups."""
        return self._all_put.sums(), self._all_got.sums()

    def figures(self) -> dict[str, float]:
        """Totals, and messages a second over 10 s, a minute and ten minutes, of messages stored (put) and delivered (got)."""
        found: dict[str, float] = {}
        for name, counter in (("put", self._all_put), ("got", self._all_got)):
            yesterday, today = self._totals_at_midnight[name]
            found[f"{name}_total"] = counter.total()
            found[f"{name}_before_yesterday_total"] = yesterday
            found[f"{name}_before_today_total"] = today
            found[f"{name}_per_second_10s"] = counter.minute(self._tick).sum(self._tick, 2)[0] / self._seconds(1, 2)
            found[f"{name}_per_second_60s"] = counter.minute(self._tick).sum(self._tick, 7)[0] / self._seconds(1, 7)
            found[f"{name}_per_second_600s"] = counter.hour(self._tick).sum(self._tick, 2)[0] / self._seconds(60, 2)
        for name, (total, counter) in self._followed.items():
            counter.reach(total(), self._tick)
            found[f"{name}_per_second_10s"] = counter.minute(self._tick).sum(self._tick, 2)[0] / self._seconds(1, 2)
        return found

    def _query(self, connection: ClientConnection, command: QueryRates) -> None:
        kind, at = _NAMES.get(command.name, ("", 0))
        topic, _, group = command.key.rpartition("@")
        counter = {
            "put": self._put.get(command.key),
            "got": self._got.get((topic, group)),
            "all-put": self._all_put,
            "all-got": self._all_got,
        }.get(kind)
        if counter is None:
            failure = Failure(ErrorCode.ARGUMENT_ILLEGAL, f"The stats <{command.name}> <{command.key}> not exist")
            connection.answer(Refused(command.ticket, failure))
            return
        tick = self._tick
        rates = [
            self._rate(counter.minute(tick), at, 1, 7),
            self._rate(counter.hour(tick), at, 60, 7),
            self._rate(counter.day(tick), at, 360, 25),
        ]
        connection.answer(Rates(command.ticket, *rates))

    def _rate(self, window: CountWindow, at: int, ticks: int, slots: int) -> FlowRate:
        found = window.sum(self._tick, slots)
        return FlowRate(found[at], found[at] / self._seconds(ticks, slots), found[at] / found[2] if found[2] else 0.0)

    def _seconds(self, ticks: int, slots: int) -> float:
        """Seconds that the latest `slots` slots cover: the last one is still open, and the node may be younger than them."""
        up_s = (self._clock.monotonic_ns() - self._began_ns) / limits.SECOND_NS
        open_s = up_s - self._tick // ticks * ticks * TICK_S
        return max(1.0, min(up_s, (slots - 1) * ticks * TICK_S + open_s))

    def _has_room(self, counters: dict[str, Counter] | dict[tuple[str, str], Counter]) -> bool:
        if len(counters) < self.counters_max:
            return True
        if self._full_at != self._tick:
            self._full_at = self._tick
            oldest = list(islice(counters.items(), ROOM_LOOKS_MAX))
            for key, counter in oldest:
                del counters[key]  # type: ignore[arg-type]
                if counter.day(self._tick).sum(self._tick, 25)[2]:
                    counters[key] = counter  # type: ignore[index]
        return len(counters) < self.counters_max

    def _next(self) -> None:
        now = self._clock.monotonic_ns()
        for total, counter in self._followed.values():
            counter.reach(total(), self._tick)
        self._tick = (now - self._began_ns) // TICK_NS
        day = self._clock.wall_ms() // DAY_MS
        if day != self._day:
            self._day = day
            self._totals_at_midnight = {
                "put": (self._totals_at_midnight["put"][1], self._all_put.total()),
                "got": (self._totals_at_midnight["got"][1], self._all_got.total()),
            }
        self._clock.call_at(self._began_ns + (self._tick + 1) * TICK_NS, self._next)
