"""The ticket of commands about the sequence numbers of a security context."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from domain.errors import Failure


@final
class Claim:
    """Ticket of a pending command about a security context (`domain.admin.oscore`).

    settled   called with its outcome (a run or a failure) and the time in monotonic ns
    """

    __slots__ = ("settled",)

    def __init__(self, settled: Callable[[int | Failure, int], None]) -> None:
        self.settled = settled
