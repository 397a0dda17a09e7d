"""Reads with large answers: the bytes of one turn of the loop are bounded, and hosts take turns with the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.client.mqtt_session import ReadingResumed
from domain.ports import Clock
from domain.turn import READ_BYTES
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.waiting.host_turns import HostTurns

LARGE_BYTES: Final = 2 * READ_BYTES
SHORT_TURNS: Final = 3
"""Turns without reads that follow one with LARGE_BYTES: an answer takes neighbours several turns, and reads of megabytes take
10 ms of each."""
LEAST_BYTES: Final = 8 * 1024
"""Least bytes counted for a read that has waited, so that one turn does not do thousands that find nothing."""
UNKNOWN_BYTES: Final = 64 * 1024
"""Bytes counted for a receive before its host has had an answer."""
HOSTS_MAX: Final = 4_096


@final
class ReadTurns(HostTurns[Callable[[], None]]):
    """Shares the turns between the reads of all connections.

    Bytes are added up without a look at the clock: when they reach READ_BYTES, the reads that still come in the same turn wait,
    and the sum begins at 0 with the next one, or SHORT_TURNS later when it is large. A connection whose reads wait is not read.

    waiting    number of reads that wait
    _short     turns that are still to pass without reads
    _expected  host -> bytes of its largest recent answer, halved with each smaller one
    """

    __slots__ = ("_expected", "_short", "waiting")

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, READ_BYTES)
        self._short = 0
        self._expected: dict[str, int] = {}
        self.waiting = 0

    def count(self, size: int) -> None:
        """`size` bytes of messages were read for an answer."""
        self._used += size
        if self._used >= self._share and not self.crowded:
            self._short = SHORT_TURNS if self._used >= LARGE_BYTES else 0
            self.ask_for_turn()

    def expect(self, host: str) -> None:
        """A read of unknown size begins, whose answer comes in a later turn: it counts as the last ones of its host."""
        self.count(self._expected.get(host, UNKNOWN_BYTES))

    def came(self, host: str, size: int) -> None:
        """An answer of `size` bytes has come for a read that was expected."""
        if len(self._expected) >= HOSTS_MAX and host not in self._expected:
            self._expected.clear()
        self._expected[host] = max(size, self._expected.get(host, 0) >> 1)

    def add(self, connection: ClientConnection, read: Callable[[], None]) -> None:
        """Call `read` in a later turn, also when the connection has closed meanwhile."""
        connection.reads_waiting += 1
        self.waiting += 1
        self.queue(connection.host).append((connection, read))
        self.ask_for_turn()

    def do(self, connection: ClientConnection, work: Callable[[], None]) -> None:
        """HostTurns.do: one read."""
        connection.reads_waiting -= 1
        self.waiting -= 1
        work()
        self.count(LEAST_BYTES)
        if connection.reads_waiting == 0:
            connection.answer(ReadingResumed())

    def next_turn(self) -> None:
        """HostTurns.next_turn, unless this turn is to pass without reads."""
        if self._short > 0:
            self._short -= 1
            self.crowded = False
            self.ask_for_turn()
            return
        super().next_turn()
