"""Reads with large answers: the bytes of one turn of the loop are bounded, and hosts take turns with the rest."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, final

from domain.client.mqtt_session import ReadingResumed
from domain.ports import Clock
from gateway.connection.client_connection import ClientConnection

BYTES_PER_TURN: Final = 512 * 1024
"""Bytes of messages after which further reads wait for the next turn. The read that reaches it may have 4 MiB more."""
LARGE_BYTES: Final = 2 * BYTES_PER_TURN
SHORT_TURNS: Final = 3
"""Turns without reads that follow one with LARGE_BYTES: an answer takes neighbours several turns, and reads of megabytes take
10 ms of each."""
LEAST_BYTES: Final = 8 * 1024
"""Least bytes counted for a read that has waited, so that one turn does not do thousands that find nothing."""
UNKNOWN_BYTES: Final = 64 * 1024
"""Bytes counted for a receive before its host has had an answer."""
HOSTS_MAX: Final = 4_096


@final
class ReadTurns:
    """Shares the turns between the reads of all connections.

    Bytes are added up without a look at the clock: when they reach BYTES_PER_TURN, the reads that still come in the same turn
    wait, and the sum begins at 0 with the next one, or SHORT_TURNS later when it is large. Reads that wait are done in a turn
    until they have reached it again, one of each host by turns. A connection whose reads wait is not read.

    crowded    True: further reads wait for the next turn
    _bytes     the sum
    _short     turns that are still to pass without reads
    _queues    host -> its reads that wait
    _expected  host -> bytes of its largest recent answer, halved with each smaller one
    """

    __slots__ = ("_bytes", "_clock", "_expected", "_queues", "_short", "crowded", "waiting")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bytes = 0
        self._short = 0
        self._queues: OrderedDict[str, deque[tuple[ClientConnection, Callable[[], None]]]] = OrderedDict()
        self._expected: dict[str, int] = {}
        self.crowded = False
        self.waiting = 0

    def count(self, size: int) -> None:
        """`size` bytes of messages were read for an answer."""
        self._bytes += size
        if self._bytes >= BYTES_PER_TURN and not self.crowded:
            self._short = SHORT_TURNS if self._bytes >= LARGE_BYTES else 0
            self._ask()

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
        queue = self._queues.get(connection.host)
        if queue is None:
            queue = self._queues[connection.host] = deque()
        queue.append((connection, read))
        if not self.crowded:
            self._ask()

    def _ask(self) -> None:
        self.crowded = True
        self._clock.call_at(self._clock.monotonic_ns(), self._next_turn)

    def _next_turn(self) -> None:
        if self._short > 0:
            self._short -= 1
            self._ask()
            return
        self.crowded = False
        self._bytes = 0
        queues = self._queues
        try:
            while queues and not self.crowded:
                host, queue = queues.popitem(last=False)
                connection, read = queue.popleft()
                if queue:
                    queues[host] = queue
                connection.reads_waiting -= 1
                self.waiting -= 1
                read()
                self.count(LEAST_BYTES)
                if connection.reads_waiting == 0:
                    connection.answer(ReadingResumed())
        finally:
            if queues and not self.crowded:  # the read has failed
                self._ask()
