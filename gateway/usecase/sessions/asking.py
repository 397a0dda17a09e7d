"""Questions to the store that have to be answered: they are asked again until they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from domain.errors import Failure
from domain.limits import SECOND_NS
from domain.ports import Clock

Answer = TypeVar("Answer")
PAUSE_NS: Final = SECOND_NS
"""Pause before a question is asked again."""


def ask_until_answered(
    clock: Clock, ask: Callable[[Callable[[Answer | Failure], None]], None], then: Callable[[Answer], None]
) -> None:
    """Call `ask` with a callback for the answer; call it again after PAUSE_NS when the answer is a Failure."""

    def done(answer: Answer | Failure) -> None:
        if isinstance(answer, Failure):
            clock.call_at(clock.monotonic_ns() + PAUSE_NS, lambda: ask(done))
        else:
            then(answer)

    ask(done)
