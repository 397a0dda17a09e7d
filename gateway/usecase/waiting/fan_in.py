"""Fan-in: one question about many places, and one call with the answers when all of them are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, TypeVar, TypeVarTuple, cast, final

from domain.errors import Failure
from gateway.usecase.waiting.long_questions import STEP_ITEMS, Steps

Answer = TypeVar("Answer")
Place = TypeVarTuple("Place")


@final
class FanIn(Generic[Answer, *Place]):
    """Calls `ask` for each place, then `then` once, with the answers by place and the first failure or None.

    `ask` may answer before it returns or later, and in any order; answers and failure are those in the order of the places. A
    place that failed has no answer; a place that is named twice is asked about once.
    """

    __slots__ = ("_answers", "_ask", "_open", "_then")

    def __init__(
        self,
        ask: Callable[[*Place, Callable[[Answer | Failure], None]], None],
        then: Callable[[dict[tuple[*Place], Answer], Failure | None], None],
    ) -> None:
        self._ask = ask
        self._then = then
        self._answers: dict[tuple[*Place], Answer | Failure | None] = {}
        self._open = 0

    def start(self, places: Iterable[tuple[*Place]]) -> None:
        """Ask about each of `places`, a few. Without a place `then` is called at once."""
        for _ in self.steps(places):
            pass

    def steps(self, places: Iterable[tuple[*Place]]) -> Steps:
        """As `start`, in steps, for many places."""
        # One more than there are places, so that answers which come before `ask` returns do not end the fan-in early.
        self._open = 1
        answers = self._answers
        for at, place in enumerate(places, 1):
            if place not in answers:
                answers[place] = None
                self._open += 1
                self._ask(*place, partial(self._take, place))
            if at % STEP_ITEMS == 0:
                yield
        self._count_down()

    def _take(self, place: tuple[*Place], answer: Answer | Failure) -> None:
        self._answers[place] = answer
        self._count_down()

    def _count_down(self) -> None:
        self._open -= 1
        if self._open > 0:
            return
        found: dict[tuple[*Place], Answer] = {}
        failures: list[Failure] = []
        for place, answer in self._answers.items():
            if isinstance(answer, Failure):
                failures.append(answer)
            else:
                found[place] = cast(Answer, answer)
        self._then(found, failures[0] if failures else None)
