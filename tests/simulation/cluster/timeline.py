"""What has happened in a run, for a person: who led, which fault, what clients saw, and when."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.cluster.machine import RUNNING
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.ledger import Ledger


class Timeline:
    """Lines with times. Each is part of the trace of the run, too.

    lines   (virtual nanoseconds, who, what)
    """

    def __init__(self, clock: VirtualClock, ledger: Ledger) -> None:
        self.lines: list[tuple[int, str, str]] = []
        self._clock = clock
        self._ledger = ledger

    def note(self, who: str, what: str) -> None:
        """Add a line."""
        now = self._clock.monotonic_ns()
        self.lines.append((now, who, what))
        self._ledger.note(f"{now} {who}: {what}")

    def text(self) -> str:
        """All lines."""
        return "\n".join(f"{now / 1e9:9.3f} s  {who:<14} {what}" for now, who, what in self.lines)

    @contextmanager
    def with_logs(self) -> Iterator[None]:
        """Add what the processes log, which is no part of the trace."""
        handler = _LogLines(self)
        logger = logging.getLogger("headgate")
        before = logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before[0])
            logger.propagate = before[1]

    def logged(self, what: str) -> None:
        """A line of a log."""
        self.lines.append((self._clock.monotonic_ns(), RUNNING[0], what))


class _LogLines(logging.Handler):
    """The log of all processes: each line is that of the process that runs."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(logging.INFO)
        self._timeline = timeline

    def emit(self, record: logging.LogRecord) -> None:
        """Handler.emit."""
        self._timeline.logged(record.getMessage().partition("\n")[0][:200])
