"""The ticket of commands about the numbers of a security context, whose outcome changes that and answers what has waited."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from domain.errors import Failure


@final
class Claim:
    """A command about a security context (`domain.admin.oscore`) that is under way.

    settled   gets its outcome, a run or a failure, and the time in monotonic ns
    """

    __slots__ = ("settled",)

    def __init__(self, settled: Callable[[int | Failure, int], None]) -> None:
        self.settled = settled
