"""Work on a large request that takes longer than one turn of the loop. Its slices run as the connection's deadlines."""

from __future__ import annotations

from collections.abc import Generator
from typing import final

from domain.access.principal import Principal
from domain.command import Command
from protocols.http.problem import RefusalError
from protocols.http.response import Response

Steps = Generator[Command | None, None, Response | None]
"""The work on one request: yields a command or None where a slice ends; returns the response, None when an event makes it."""


@final
class SlicedRequest:
    """One request that is handled in slices.

    due        monotonic ns of its next slice: at once, in the next turn that has time for it
    response   its response, when it is known without an event
    """

    def __init__(self, steps: Steps, principal: Principal | None, now: int) -> None:
        self._steps = steps
        self._principal = principal
        self.due = now
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
        self.due = now
        if command is not None and self._principal is not None:
            command.principal = self._principal
        return command
