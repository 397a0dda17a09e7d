"""Counting what flows: by topic in, by topic and group out, and in all; over a minute, an hour and a day."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from domain import limits
from domain.admin.broker import FlowRate, QueryRates, Rates
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Leased, Refused
from domain.ports import Clock
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verb

TICK_S: Final = 10
TICK_NS: Final = TICK_S * limits.SECOND_NS
DAY_MS: Final = 86_400_000
COUNTERS_MAX: Final = 16_384
"""Counters of one kind. When there are as many, those of which a day saw nothing make room; else a new one is not kept."""

_NAMES: Final[Mapping[str, tuple[str, int]]] = {
    "TOPIC_PUT_NUMS": ("put", 0),
    "TOPIC_PUT_SIZE": ("put", 1),
    "GROUP_GET_NUMS": ("got", 0),
    "GROUP_GET_SIZE": ("got", 1),
    "BROKER_PUT_NUMS": ("all-put", 0),
    "BROKER_GET_NUMS": ("all-got", 0),
}
"""RocketMQ's names of statistics -> what is counted, and which number of it."""


@final
class CountWindow:
    """Numbers in slots of `ticks` ticks, of which the latest `slots` are kept. Turning is done by whoever looks or adds."""

    __slots__ = ("_at", "_rows", "_ticks")

    def __init__(self, ticks: int, slots: int) -> None:
        self._ticks = ticks
        self._rows = [[0, 0, 0] for _ in range(slots)]
        self._at = -1

    def add(self, count: int, size: int, times: int, tick: int) -> None:
        """`count` messages of `size` bytes went by, `times` times."""
        row = self._turn(tick)
        row[0] += count
        row[1] += size
        row[2] += times

    def sum(self, tick: int, slots: int) -> tuple[int, int, int]:
        """(messages, bytes, times) in the latest `slots` slots, the one under way among them."""
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
    """One thing that is counted: a minute, an hour and a day of it, and all.

    What goes by in one tick is three additions; the windows get it when the tick is over, or when somebody looks.
    """

    __slots__ = ("_count", "_day", "_hour", "_minute", "_size", "_tick", "_times", "_total")

    def __init__(self) -> None:
        self._minute = CountWindow(1, 7)
        self._hour = CountWindow(60, 7)
        self._day = CountWindow(360, 25)
        self._total = 0
        self._tick = 0
        self._count = 0
        self._size = 0
        self._times = 0

    def add(self, count: int, size: int, tick: int) -> None:
        """`count` messages of `size` bytes went by at once."""
        if tick != self._tick:
            self.settle(tick)
        self._count += count
        self._size += size
        self._times += 1

    def begin(self, total: int) -> None:
        """What was there before it is no part of any window."""
        self._total = total

    def reach(self, total: int, tick: int) -> None:
        """It is `total` by now; what is new since it was told last went by in this tick."""
        if total > self.total():
            self.add(total - self.total(), 0, tick)

    def settle(self, tick: int) -> None:
        """Give the windows what they have not got yet."""
        if self._times:
            for window in (self._minute, self._hour, self._day):
                window.add(self._count, self._size, self._times, self._tick)
            self._total += self._count
            self._count = self._size = self._times = 0
        self._tick = tick

    def total(self) -> int:
        """All messages."""
        return self._total + self._count

    def minute(self, tick: int) -> CountWindow:
        """The last minute."""
        self.settle(tick)
        return self._minute

    def hour(self, tick: int) -> CountWindow:
        """The last hour."""
        self.settle(tick)
        return self._hour

    def day(self, tick: int) -> CountWindow:
        """The last day."""
        self.settle(tick)
        return self._day


@final
class MessageCounters:
    """QueryRates, and as a StoreListener the count of what comes in; receivers tell what goes out."""

    def __init__(self, clock: Clock) -> None:
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

    def verbs(self) -> Mapping[type[Command], Verb]:
        """QueryRates."""
        return {QueryRates: self._query}

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """Messages have come in."""
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
        """Have a count that somebody else keeps among the figures, by the second; it is looked at once a tick."""
        counter = Counter()
        counter.begin(total())
        self._followed[name] = (total, counter)

    def freed(self, group: str, topic: str) -> None:
        """Leases are not counted."""

    def pulled(self, group: str, topic: str, records: Sequence[bytes]) -> None:
        """`group` has been given messages, as records."""
        count = len(records)
        self._gone(group, topic, count, len(records[0]) if count == 1 else sum(map(len, records)))

    def received(self, group: str, topic: str, messages: Sequence[Leased]) -> None:
        """`group` has been given messages, on lease."""
        self._gone(group, topic, len(messages), sum([len(message.record) for message in messages]))

    def _gone(self, group: str, topic: str, count: int, size: int) -> None:
        counter = self._got.get((topic, group))
        if counter is None:
            counter = Counter()
            if self._has_room(self._got):
                self._got[topic, group] = counter
        counter.add(count, size, self._tick)
        self._all_got.add(count, size, self._tick)

    def per_second(self, group: str) -> float:
        """Messages a second that `group` was given in the last minute, over all topics."""
        found = [counter.minute(self._tick).sum(self._tick, 7)[0] for (_, name), counter in self._got.items() if name == group]
        return sum(found) / self._seconds(1, 7)

    def put_per_second(self, topic: str) -> float:
        """Messages a second that came into `topic` in the last minute."""
        counter = self._put.get(topic)
        return counter.minute(self._tick).sum(self._tick, 7)[0] / self._seconds(1, 7) if counter is not None else 0.0

    def figures(self) -> dict[str, float]:
        """Totals, and messages a second over 10 s, a minute and ten minutes, for both directions."""
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
        """How long the latest slots have lasted: all but the last are whole, unless the node is younger than that."""
        up_s = (self._clock.monotonic_ns() - self._began_ns) / limits.SECOND_NS
        under_way = up_s - self._tick // ticks * ticks * TICK_S
        return max(1.0, min(up_s, (slots - 1) * ticks * TICK_S + under_way))

    def _has_room(self, counters: dict[str, Counter] | dict[tuple[str, str], Counter]) -> bool:
        if len(counters) < COUNTERS_MAX:
            return True
        if self._full_at != self._tick:
            self._full_at = self._tick
            for key in [key for key, counter in counters.items() if counter.day(self._tick).sum(self._tick, 25)[2] == 0]:
                del counters[key]  # type: ignore[arg-type]
        return len(counters) < COUNTERS_MAX

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
