"""One question about many places, and what was answered when all have answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, TypeVar, TypeVarTuple, final

from domain.errors import Failure

Answer = TypeVar("Answer")
Place = TypeVarTuple("Place")


@final
class FanIn(Generic[Answer, *Place]):
    """Asks `ask` about each place, and calls `then` once: with the answers by place, and the first failure or None.

    Answers may come at once or later, and in any order; answers and failure are told in the order of the places. A place
    that failed has no answer; one that is named twice is asked about once.
    """

    __slots__ = ("_answers", "_ask", "_open", "_places", "_then")

    def __init__(
        self,
        ask: Callable[[*Place, Callable[[Answer | Failure], None]], None],
        then: Callable[[dict[tuple[*Place], Answer], Failure | None], None],
    ) -> None:
        self._ask = ask
        self._then = then
        self._places: list[tuple[*Place]] = []
        self._answers: dict[tuple[*Place], Answer | Failure] = {}
        self._open = 0

    def start(self, places: Iterable[tuple[*Place]]) -> None:
        """Ask. Without a place it is over at once."""
        self._places = list(dict.fromkeys(places))
        # One more than there are places, so that answers which come at once do not end the round early.
        self._open = len(self._places) + 1
        for place in self._places:
            self._ask(*place, partial(self._take, place))
        self._over()

    def _take(self, place: tuple[*Place], answer: Answer | Failure) -> None:
        self._answers[place] = answer
        self._over()

    def _over(self) -> None:
        self._open -= 1
        if self._open > 0:
            return
        found: dict[tuple[*Place], Answer] = {}
        failures: list[Failure] = []
        for place in self._places:
            answer = self._answers[place]
            if isinstance(answer, Failure):
                failures.append(answer)
            else:
                found[place] = answer
        self._then(found, failures[0] if failures else None)
