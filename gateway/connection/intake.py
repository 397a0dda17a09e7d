"""The share of the event loop that each connection gets: bytes are handled in slices, and in each turn for a limited time.

A connection with more bytes than one slice is not read on; its remaining slices wait behind those of other connections. So a
peer's answer never waits for all that another peer has sent (docs/decisions/0023-turns-are-shared.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock

SLICE_NS: Final = 2 * MILLISECOND_NS
"""Time that one slice of a connection should take."""
SLICE_BYTES_MIN: Final = 1024
SLICE_BYTES_FIRST: Final = 4 * 1024
SLICE_BYTES_MAX: Final = 64 * 1024
TURN_NS: Final = 6 * MILLISECOND_NS
"""Time in which one turn handles received bytes."""
WHOLE_TURN_NS: Final = 15 * MILLISECOND_NS
"""Time of one turn with all that its bytes cause: appends, deliveries, writes. Above it, turns handle fewer bytes."""
MESSAGE_NS: Final = 5_000
"""What a turn still does for a command, and for a message, when its bytes are handled: the append, the delivery, two writes."""
LEAST_NS: Final = MILLISECOND_NS // 4
"""Least time in which a turn handles bytes."""
UNFINISHED_BYTES_MAX: Final = 1024 * 1024
"""Bytes of messages that may wait to be stored or delivered by the node; above it, connections that send are not read."""


class SlicedConnection(Protocol):
    """A connection with received bytes that are not handled yet: a pump.

    sends   True: it has sent messages, and waits while the store has too many
    """

    sends: bool

    def take_slice(self) -> bool:
        """Handle one slice. True: more of its bytes wait and may be handled."""


@final
class PumpIntake:
    """Handles the bytes of all connections, in turns of limited length.

    waited   number of times that a sending connection waited for the store
    """

    __slots__ = (
        "_began_ns", "_budget_ns", "_clock", "_fresh", "_marked", "_now", "_sending", "_started", "_unfinished_bytes",
        "_used_ns", "waited",
    )  # fmt: skip

    def __init__(self, clock: Clock, unfinished_bytes: Callable[[], int]) -> None:
        """`unfinished_bytes` is what was taken from clients and is not stored or delivered yet."""
        self._clock = clock
        self._now = clock.monotonic_ns
        self._unfinished_bytes = unfinished_bytes
        self._fresh: deque[SlicedConnection] = deque()
        self._started: deque[SlicedConnection] = deque()
        self._sending: deque[SlicedConnection] = deque()
        self._budget_ns = TURN_NS
        self._used_ns = 0
        self._began_ns = 0
        self._marked = False
        self.waited = 0

    @property
    def open(self) -> bool:
        """True while this turn may handle more bytes."""
        return self._used_ns < self._budget_ns

    def may_send(self) -> bool:
        """True while the store takes more messages."""
        return self._unfinished_bytes() <= UNFINISHED_BYTES_MAX

    def used(self, took_ns: int, now_ns: int) -> None:
        """Bytes were handled, which took or will take `took_ns` of this turn."""
        self._used_ns += took_ns
        if not self._marked and self._used_ns > LEAST_NS:
            # Turns with less are not measured: there, a callback more would be noticed.
            self._mark(now_ns - took_ns)

    def add(self, connection: SlicedConnection) -> None:
        """Handle the bytes of `connection` slice by slice, from the next turn on at the latest."""
        if connection.sends and not self.may_send():
            self.waited += 1
            self._sending.append(connection)
        else:
            self._fresh.append(connection)
        if not self._marked:
            self._mark(self._now())

    def _mark(self, began_ns: int) -> None:
        self._marked = True
        self._began_ns = began_ns
        self._clock.call_at(began_ns, self._next_turn)

    def _next_turn(self) -> None:
        """Begin a turn: measure the one that has ended, and go on with what was left."""
        now = self._now()
        took = now - self._began_ns
        if took > WHOLE_TURN_NS:
            self._budget_ns = max(LEAST_NS, min(self._used_ns, self._budget_ns) * WHOLE_TURN_NS // took)
        elif self._budget_ns < TURN_NS:
            self._budget_ns = min(TURN_NS, self._budget_ns * 5 // 4)
        self._used_ns = 0
        self._marked = False
        if self._sending and self.may_send():
            self._fresh.extend(self._sending)
            self._sending.clear()
        self._serve()
        if not self._marked and (self._fresh or self._started or self._sending):
            self._marked = True
            self._began_ns = now
            waiting = not (self._fresh or self._started)
            self._clock.call_at(now + MILLISECOND_NS if waiting else now, self._next_turn)

    def _serve(self) -> None:
        """Handle slices until the turn's time is used; connections that have not been served yet go first."""
        while self._used_ns < self._budget_ns:
            if self._fresh:
                connection = self._fresh.popleft()
            elif self._started:
                connection = self._started.popleft()
            else:
                return
            if connection.sends and not self.may_send():
                self.waited += 1
                self._sending.append(connection)
            elif connection.take_slice():
                self._started.append(connection)
