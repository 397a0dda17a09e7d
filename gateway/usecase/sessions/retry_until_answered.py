"""Questions to the store without whose answers a session cannot go on: they are asked until they are answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from domain.errors import Failure
from domain.limits import SECOND_NS
from domain.ports import Clock

Answer = TypeVar("Answer")
PAUSE_NS: Final = SECOND_NS
"""Time between a failure and the next attempt."""


def ask_until_answered(
    clock: Clock, ask: Callable[[Callable[[Answer | Failure], None]], None], then: Callable[[Answer], None]
) -> None:
    """Ask the store, and again PAUSE_NS after each Failure, whatever its code; there is no limit of attempts.

    ask    asks once, and gives the answer to its argument
    then   gets the first answer that is no Failure; at once if the store answers at once
    """

    def done(answer: Answer | Failure) -> None:
        if isinstance(answer, Failure):
            clock.call_at(clock.monotonic_ns() + PAUSE_NS, lambda: ask(done))
        else:
            then(answer)

    ask(done)
