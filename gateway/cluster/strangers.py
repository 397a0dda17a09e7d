"""Meetings with nodes, answers and files of another store group or another history: refused, counted, and logged once each."""

from __future__ import annotations

import logging
from typing import Final, final

from domain.controller.request import StrangerSeen
from domain.limits import MILLISECOND_NS
from domain.ports import Clock

REMEMBERED_MAX: Final = 256
"""Meetings that are remembered in order to log each once. Beyond them the oldest one is forgotten, and logged again."""


@final
class Strangers:
    """Counter of what one process has refused because it belongs to another store group or to another history.

    count   refusals since the start
    _known  meeting -> time of the last refusal, monotonic ns
    """

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        """`log`: gets one WARNING for each place and text."""
        self.count = 0
        self._log = log
        self._clock = clock
        self._known: dict[tuple[str, str, str], int] = {}

    def refused(self, group: str, where: str, why: str) -> None:
        """Something was refused. `where`: address or file that it came from; `why`: text for people."""
        self.count += 1
        meeting, now_ns = (group, where, why), self._clock.monotonic_ns()
        if meeting not in self._known:
            if len(self._known) >= REMEMBERED_MAX:
                del self._known[next(iter(self._known))]
            self._log.warning("store group %s: refused, from %s: %s", group, where or "an unknown address", why)
        self._known[meeting] = now_ns

    def recent(self, within_ms: int) -> list[StrangerSeen]:
        """What was refused in the last `within_ms`."""
        now_ns = self._clock.monotonic_ns()
        found = [StrangerSeen(*each, (now_ns - at_ns) // MILLISECOND_NS) for each, at_ns in self._known.items()]
        return [each for each in found if each.age_ms <= within_ms]
