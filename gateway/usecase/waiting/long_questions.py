"""Questions about all topics, groups or queues, and long searches: answered in steps, in each turn for a limited time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.turn import QUESTIONS_NS
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.waiting.host_turns import HostTurns

STEP_NS: Final = MILLISECOND_NS // 10
"""Least time counted for a step, so that also a clock that stands still ends a turn."""
STEP_ITEMS: Final = 64
"""Topics, groups or queues that one step should look at."""

Steps = Iterator[None]
"""The work on a question: each `next` does a step of it, and the last one answers or hands over to the store."""

_OVER: Final = object()


@final
class LongQuestions(HostTurns[Steps]):
    """The questions that wait. Of a host one is worked on at a time; hosts take turns after each step.

    A question of a small node is answered in the call of `ask`. The question of a connection that has ended is dropped.
    """

    __slots__ = ()

    def __init__(self, clock: Clock, turn_ns: int = QUESTIONS_NS) -> None:
        """`turn_ns`: time of one turn in which questions are worked on."""
        super().__init__(clock, turn_ns)

    def ask(self, connection: ClientConnection, steps: Steps) -> None:
        """Work on a new question, behind those of its host."""
        self.queue(connection.host).append((connection, steps))
        self.work()

    def go_on(self, connection: ClientConnection, steps: Steps) -> None:
        """Work on the rest of a question for which the store has answered, before new ones of its host: it holds memory."""
        self.queue(connection.host).appendleft((connection, steps))
        self.work()

    def later(self, connection: ClientConnection, step: Callable[[], None]) -> None:
        """Do `step` in a later turn, behind the questions of its host."""
        self.queue(connection.host).append((connection, _alone(step)))
        self.ask_for_turn()

    def do(self, connection: ClientConnection, work: Steps) -> None:
        """HostTurns.do: one step. Its question stays the first one of its host until it is over."""
        now = self._clock.monotonic_ns
        began = now()
        try:
            if not connection.closed and next(work, _OVER) is not _OVER:
                self.queue(connection.host).appendleft((connection, work))
        finally:
            self._used += max(STEP_NS, now() - began)
            self.ask_for_turn()


def _alone(step: Callable[[], None]) -> Steps:
    """A question of one step."""
    step()
    yield from ()
