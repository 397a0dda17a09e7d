"""Work of one connection's calls, a part of it in each turn of the loop, so that no peer fills a turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, final

from domain.command import Command
from domain.turn import RECEIVED_NS

Step = Callable[[int], Sequence[Command]]
"""A part of the work of a call, given the monotonic time in ns -> commands. It finds out itself whether its call has ended."""

TURN_WEIGHT_MAX: Final = 256
"""Work that one turn begins of a connection. A unit is some 50 function calls, the least that one message of a batch costs."""


@final
class Backlog:
    """Steps in the order in which they came, and the work of this turn.

    Work within RECEIVED_NS may be one turn, and has the room of one; `run` is called once in a turn, and begins the next one.
    The pump measures how long that takes, and shares the turns between connections (gateway.connection.intake), but it does
    not see what commands cause at the end of the turn.
    """

    __slots__ = ("_at_ns", "_steps", "_used")

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()
        self._used: int = 0
        self._at_ns: int = -RECEIVED_NS

    @property
    def waits(self) -> bool:
        """True while there are steps."""
        return len(self._steps) > 0

    def is_open(self, now: int) -> bool:
        """True when nothing waits and the turn at `now` has room: work may begin at once."""
        if now - self._at_ns >= RECEIVED_NS:
            self._at_ns = now
            self._used = 0
        return self._used < TURN_WEIGHT_MAX and not self._steps

    def charge(self, weight: int) -> None:
        """Count work of this turn."""
        self._used += weight

    def add(self, step: Step) -> None:
        """Let `step` run in a later turn."""
        self._steps.append(step)

    def go_on(self, step: Step) -> None:
        """Let `step`, with which the one that runs goes on, run before all others: half-done work holds memory."""
        self._steps.appendleft(step)

    def run(self, now: int) -> list[Command]:
        """Run the steps for which a turn has room, one at least -> their commands. Steps that they add wait."""
        self._at_ns = now
        self._used = 0
        commands: list[Command] = []
        left = len(self._steps)
        while left > 0 and self._used < TURN_WEIGHT_MAX:
            left -= 1
            self._used += 1
            commands += self._steps.popleft()(now)
        return commands
