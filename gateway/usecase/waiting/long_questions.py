"""Questions about all topics, groups or queues, and long searches: answered in steps, in each turn for a limited time."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from gateway.connection.client_connection import ClientConnection

TURN_NS: Final = MILLISECOND_NS
"""Time of one turn in which questions about the node are worked on."""
STEP_NS: Final = MILLISECOND_NS // 10
"""Least time counted for a step, so that also a clock that stands still ends a turn."""
STEP_ITEMS: Final = 64
"""Topics, groups or queues that one step should look at."""

Steps = Iterator[None]
"""The work on a question: each `next` does a step of it, and the last one answers or hands over to the store."""

_OVER: Final = object()


@final
class LongQuestions:
    """The questions that wait, each with its connection. Of a host one is worked on at a time; hosts take turns.

    A question of a small node is answered in the call of `ask`. The question of a connection that has ended is dropped.

    _turn_ns   time of one turn in which questions are worked on
    _hosts     network of a client (`domain.address.network_of_host`) -> its questions
    """

    __slots__ = ("_clock", "_hosts", "_marked", "_turn_ns", "_used_ns", "_working")

    def __init__(self, clock: Clock, turn_ns: int = TURN_NS) -> None:
        self._clock = clock
        self._turn_ns = turn_ns
        self._hosts: OrderedDict[str, deque[tuple[ClientConnection, Steps]]] = OrderedDict()
        self._used_ns = 0
        self._marked = False
        self._working = False

    def ask(self, connection: ClientConnection, steps: Steps) -> None:
        """Work on a new question, behind those of its host."""
        self._hosts.setdefault(connection.host, deque()).append((connection, steps))
        self._work()

    def go_on(self, connection: ClientConnection, steps: Steps) -> None:
        """Work on the rest of a question for which the store has answered, before new ones of its host: it holds memory."""
        self._hosts.setdefault(connection.host, deque()).appendleft((connection, steps))
        self._work()

    def later(self, connection: ClientConnection, step: Callable[[], None]) -> None:
        """Do `step` in a later turn, behind the questions of its host."""
        self._hosts.setdefault(connection.host, deque()).append((connection, _alone(step)))
        self._mark()

    def _mark(self) -> None:
        if not self._marked:
            self._marked = True
            self._clock.call_at(self._clock.monotonic_ns(), self._next_turn)

    def _next_turn(self) -> None:
        self._marked = False
        self._used_ns = 0
        if self._hosts:
            self._hosts.move_to_end(next(iter(self._hosts)))
        self._work()

    def _work(self) -> None:
        """Do steps until the turn's time is used up."""
        if self._working:
            return
        now = self._clock.monotonic_ns
        self._working = True
        try:
            while self._hosts and self._used_ns < self._turn_ns:
                began = now()
                self._step()
                self._used_ns += max(STEP_NS, now() - began)
        finally:
            self._working = False
            if self._used_ns or self._hosts:
                self._mark()

    def _step(self) -> None:
        """Do one step of the first host's first question."""
        host, questions = next(iter(self._hosts.items()))
        connection, steps = questions[0]
        over = True
        try:
            over = connection.closed or next(steps, _OVER) is _OVER
        finally:
            if over:
                questions.remove((connection, steps))
                del self._hosts[host]
                if questions:
                    self._hosts[host] = questions


def _alone(step: Callable[[], None]) -> Steps:
    """A question of one step."""
    step()
    yield from ()
