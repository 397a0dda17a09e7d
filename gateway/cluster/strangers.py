"""Meetings with nodes, answers and files of another store group or another history: refused, counted, and logged once each."""

from __future__ import annotations

import logging
from typing import Final, final

REMEMBERED_MAX: Final = 256
"""Meetings that are remembered in order to log each once. Beyond them the oldest one is forgotten, and logged again."""


@final
class Strangers:
    """Counter of what one process has refused because it belongs to another store group or to another history.

    count   refusals since the start
    """

    def __init__(self, log: logging.Logger) -> None:
        """`log`: gets one WARNING for each place and text."""
        self.count = 0
        self._log = log
        self._known: dict[tuple[str, str], None] = {}

    def refused(self, group: str, where: str, why: str) -> None:
        """Something was refused. `where`: address or file that it came from; `why`: text for people."""
        self.count += 1
        if (where, why) in self._known:
            return
        if len(self._known) >= REMEMBERED_MAX:
            del self._known[next(iter(self._known))]
        self._known[where, why] = None
        self._log.warning("store group %s: refused, from %s: %s", group, where or "an unknown address", why)
