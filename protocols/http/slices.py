"""Work on a large request that takes longer than one turn of the loop: its slices, and the turns in which they run."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, final

from domain.command import Command
from domain.limits import MILLISECOND_NS
from domain.principal import Principal
from protocols.http.problem import RefusalError
from protocols.http.response import Response

SLOT_NS: Final = 2 * MILLISECOND_NS
"""Time from the slice of one request to that of another. A slice takes less, so the loop serves others in between."""

Steps = Generator[Command | None, None, Response | None]
"""The work on one request: yields a command or None where a slice ends; returns the response, None when an event makes it."""


@final
class SliceClock:
    """The slots of all large requests of a node: they take turns. A request that is alone goes on in every turn of the loop."""

    def __init__(self) -> None:
        self._free_at = -SLOT_NS
        self._last: object = None

    def slot(self, owner: object, now: int) -> int:
        """Monotonic ns of the next slice of the request that `owner` stands for."""
        if self._last is owner:
            return now
        self._last = owner
        self._free_at = max(now, self._free_at + SLOT_NS)
        return self._free_at


@final
class SlicedRequest:
    """One request that is handled in slices.

    due        monotonic ns of its next slice
    over       True: there are no more slices
    response   its response, when it is known without an event
    """

    def __init__(self, steps: Steps, principal: Principal | None, clock: SliceClock, now: int) -> None:
        self._steps = steps
        self._principal = principal
        self._clock = clock
        self._owner = object()
        self.due = clock.slot(self._owner, now)
        self.over = False
        self.response: Response | None = None

    def run(self, now: int) -> Command | None:
        """Run the next slice. Returns its command, if it made one."""
        try:
            command = next(self._steps)
        except StopIteration as stop:
            self.over = True
            self.response = stop.value
            return None
        except RefusalError as refusal:
            self.over = True
            self.response = refusal.response
            return None
        self.due = self._clock.slot(self._owner, now)
        if command is not None and self._principal is not None:
            command.principal = self._principal
        return command
