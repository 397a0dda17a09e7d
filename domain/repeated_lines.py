"""Lines of the log that recur: one line with a count instead of many."""

from __future__ import annotations

import logging
from typing import Final, final

from domain.limits import SECOND_NS
from domain.ports import Clock

EVERY_NS: Final = 10 * SECOND_NS
"""Time between two lines of one text."""
AFTER_NS: Final = 2 * SECOND_NS
"""Time for which a state has to last before it has a line: at a start, and at an election, it soon ends by itself."""
TEXTS_MAX: Final = 64
"""Texts that are remembered; the one that was written first is forgotten first."""


@final
class RepeatedLines:
    """Lines of one place of the program.

    _events   text -> (time of its last line, number of events since)
    """

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._events: dict[str, tuple[int, int]] = {}
        self._state = ""
        self._line_ns = 0

    def event(self, level: int, text: str) -> None:
        """Write `text` at once when it is new, else every EVERY_NS, with the number of events since its last line."""
        now = self._clock.monotonic_ns()
        last_ns, count = self._events.pop(text, (now - EVERY_NS, 0))
        if now - last_ns < EVERY_NS:
            self._events[text] = (last_ns, count + 1)
            return
        seconds = (now - last_ns) // SECOND_NS
        self._log.log(level, "%s (%d times in %d s)" if count else "%s", *((text, count + 1, seconds) if count else (text,)))
        if len(self._events) >= TEXTS_MAX:
            del self._events[next(iter(self._events))]
        self._events[text] = (now, 0)

    def state(self, level: int, text: str) -> None:
        """Take the state of something, as often as the caller looks at it; "": nothing is to be said. One that lasts for
        AFTER_NS has a line, and another one every EVERY_NS."""
        now = self._clock.monotonic_ns()
        if text != self._state:
            self._state, self._line_ns = text, now + AFTER_NS - EVERY_NS
        if text and now - self._line_ns >= EVERY_NS:
            self._line_ns = now
            self._log.log(level, "%s", text)

    def forget(self) -> None:
        """Write each text at once again: what was wrong is over."""
        self._events.clear()
