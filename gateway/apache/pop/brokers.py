"""Brokers for POP: late and unreachable ones, and notification of readers when they answer again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, final

from domain.errors import ErrorCode, Failure
from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from gateway.apache.pop.call import Pop
from gateway.brokers.broker_links import Brokers
from gateway.link.link import Answered
from gateway.link.request import Request
from protocols.remoting.wire.frame import Frame

POP_MS: Final = 3_000
"""Timeout of a POP."""
MS_DIGITS_MAX: Final = 15
"""Digits of a time in milliseconds that is believed."""
LATE_NS: Final = 250 * MILLISECOND_NS
"""Time without an answer after which a broker is late, and skipped."""
TICK_NS: Final = 50 * MILLISECOND_NS
NOTIFICATIONS_MAX: Final = 8_192
"""NOTIFICATIONs that one broker holds for this node at most."""
UNHURRIED: Final = 1_000
"""NOTIFICATIONs per broker up to which each lasts as long as its reader wants. With N times as many, each lasts N times as
long, which keeps the rate of renewals at a broker constant."""
NOTIFICATION_MARGIN_MS: Final = 5_000
"""Time beyond that of a NOTIFICATION after which it times out."""


class PopReader(Protocol):
    """Reader of brokers (`gateway.apache.pop.group_read.GroupRead`)."""

    def back(self, broker: str) -> None:
        """A broker that was late or unreachable answers again."""


def hear_clock(brokers: Brokers, broker: str, answer: Frame) -> None:
    """Note what an answer to a POP, or to a change of an invisible time, says of the broker's clock: `popTime` is now."""
    shown = (answer.fields() or {}).get("popTime", "")
    if shown.isdecimal() and 0 < len(shown) <= MS_DIGITS_MAX:
        brokers.clocks.heard(broker, int(shown))


@final
class PopBrokers:
    """Sends POPs and NOTIFICATIONs, and marks brokers that do not answer within LATE_NS as late."""

    def __init__(self, brokers: Brokers, clock: Clock) -> None:
        self._brokers = brokers
        self._clock = clock
        self._asked: dict[Pop, None] = {}
        self._late: dict[str, int] = {}
        self._missing: dict[str, dict[PopReader, None]] = {}
        self._notifications: dict[str, int] = {}
        self._ticking = False

    def now_ns(self) -> int:
        """Monotonic time in nanoseconds."""
        return self._clock.monotonic_ns()

    def after(self, pause_ms: int, callback: Callable[[], None]) -> None:
        """Call `callback` after `pause_ms` milliseconds."""
        self._clock.call_at(self._clock.monotonic_ns() + pause_ms * MILLISECOND_NS, callback)

    def pop(self, pop: Pop, request: Request, done: Callable[[Pop, Frame | Failure], None]) -> None:
        """Send a POP to its broker. `pop.overdue` is called once, if the broker is late."""
        self._asked[pop] = None
        self._tick_soon()
        self._brokers.ask(pop.broker, request, partial(self._answered, pop, done), POP_MS)

    def _answered(self, pop: Pop, done: Callable[[Pop, Frame | Failure], None], answer: Frame | Failure) -> None:
        self._asked.pop(pop, None)
        if pop.is_late:
            left = self._late.get(pop.broker, 0) - 1
            if left > 0 and isinstance(answer, Failure):
                self._late[pop.broker] = left
            else:
                self._late.pop(pop.broker, None)
        if isinstance(answer, Frame):
            hear_clock(self._brokers, pop.broker, answer)
        done(pop, answer)

    def poll_ms(self, broker: str, wanted_ms: int) -> int:
        """Duration in ms of the next NOTIFICATION at a broker: `wanted_ms`, or a multiple of it under load (UNHURRIED)."""
        return wanted_ms * max(1, -(-self._notifications.get(broker, 0) // UNHURRIED))

    def notify(self, broker: str, request: Request, poll_ms: int, done: Answered) -> bool:
        """Send a NOTIFICATION that the broker answers after `poll_ms` at the latest. False: it holds NOTIFICATIONS_MAX."""
        count = self._notifications.get(broker, 0)
        if count >= NOTIFICATIONS_MAX:
            return False
        self._notifications[broker] = count + 1
        self._brokers.ask(broker, request, partial(self._notified, broker, done), poll_ms + NOTIFICATION_MARGIN_MS)
        return True

    def _notified(self, broker: str, done: Answered, answer: Frame | Failure) -> None:
        self._notifications[broker] -= 1
        done(answer)

    def absence(self, broker: str, reader: PopReader) -> Failure | None:
        """The failure of an unreachable broker, and `reader.back` is called when it is reachable; None: it is reachable."""
        reason = self._brokers.waits(broker)
        if not reason:
            return None
        self.miss(broker, reader)
        return Failure(ErrorCode.STORE_UNAVAILABLE, f"broker {broker} does not answer: {reason}")

    def is_late(self, broker: str, reader: PopReader) -> bool:
        """True while a broker is late; then `reader.back` is called when it answers."""
        if broker not in self._late:
            return False
        self.miss(broker, reader)
        return True

    def miss(self, broker: str, reader: PopReader) -> None:
        """Call `reader.back` once when `broker` answers again."""
        self._missing.setdefault(broker, {})[reader] = None
        self._tick_soon()

    def forget(self, reader: PopReader) -> None:
        """Drop `reader`: it is not called any more."""
        for missing in self._missing.values():
            missing.pop(reader, None)

    def _tick_soon(self) -> None:
        if not self._ticking:
            self._ticking = True
            self._clock.call_at(self._clock.monotonic_ns() + TICK_NS, self._tick)

    def _tick(self) -> None:
        """Mark POPs as late after LATE_NS, and notify the readers of brokers that answer again."""
        self._ticking = False
        before = self._clock.monotonic_ns() - LATE_NS
        overdue: list[Pop] = []
        for pop in self._asked:
            if pop.begun_ns > before:
                break
            overdue.append(pop)
        for pop in overdue:
            del self._asked[pop]
            self._late[pop.broker] = self._late.get(pop.broker, 0) + 1
        for pop in overdue:
            pop.overdue()
        for broker in [name for name in self._missing if name not in self._late and not self._brokers.waits(name)]:
            for reader in self._missing.pop(broker):
                reader.back(broker)
        if self._asked or self._missing:
            self._tick_soon()
