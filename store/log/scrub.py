"""The scrubber: reads the log again and again, slowly, so that damage is found before a reader needs what is damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, final

from store.log import batch
from store.log.segment import Segments
from store.log.survey import LogSurvey, Stretch

RATE_BYTES_MIN: Final = 64 * 1024
"""Bytes that are checked in a second at least, when there are so many."""
PASS_S_MIN: Final = 3_600
"""Seconds from the begin of a pass to that of the next one at least: a small log is not read all the time."""
DAY_S: Final = 86_400
DAMAGED_MAX: Final = 1_024
"""Damaged parts that are remembered; further ones are told at each pass."""
_COST_BYTES: Final = 64
"""Bytes that cost as much as a visit (`store.turns.COST_MAX`)."""


@final
class Scrubber:
    """Checks the CRCs of all batches that are durable, from the first to the last, then again from the first.

    checked_bytes   bytes checked since the start
    passes          how often it has come to the end since the start
    damaged         the damaged parts that it knows, by their first position
    _at             position of the batch that is checked next
    _found          damaged parts found in this pass
    _owed           bytes to check in this second
    _pass_s         seconds since this pass began
    _waits          True at the end of a pass, until the next one may begin
    """

    __slots__ = (
        "_at", "_days", "_durable", "_found", "_incarnation", "_owed", "_pass_s", "_segments", "_told", "_waits",
        "checked_bytes", "damaged", "passes",
    )  # fmt: skip

    def __init__(
        self,
        segments: Segments,
        durable: Callable[[], int],
        incarnation: int,
        days: int,
        told: Callable[[Stretch], None],
    ) -> None:
        """`durable()`: position below which the log is on the disk; `days`: in which the whole log is checked once, 0: never.

        `told` gets each damaged part once.
        """
        self._segments = segments
        self._durable = durable
        self._incarnation = incarnation
        self._days = days
        self._told = told
        self._at = segments.first
        self._owed = 0
        self._pass_s = 0
        self._waits = False
        self._found: set[int] = set()
        self.checked_bytes = 0
        self.passes = 0
        self.damaged: dict[int, Stretch] = {}

    def second(self) -> Iterator[int]:
        """Check what is due in one second; yields the cost of each step, in visits. Raises no OSError: it is damage."""
        self._pass_s += 1
        if not self._days or (self._waits and self._pass_s < PASS_S_MIN):
            return
        if self._waits:
            self._waits, self._pass_s = False, 0
        size = self._durable() - self._segments.first
        self._owed += max(RATE_BYTES_MIN, size // (self._days * DAY_S))
        while self._owed > 0:
            checked = self._step()
            if not checked:
                self._owed = 0
                return
            self._owed -= checked
            self.checked_bytes += checked
            yield checked // _COST_BYTES + 1

    def mended(self, begin: int) -> None:
        """The damaged part that begins at `begin` is good again."""
        self.damaged.pop(begin, None)

    def _step(self) -> int:
        """Check one batch, or find how far the damage goes. Returns the bytes; 0 at the end of a pass."""
        segments = self._segments
        before = self._at = max(self._at, segments.first)
        position = segments.after(before)
        if position >= self._durable():
            self._end_pass()
            return 0
        segment = segments.around(position)
        if segment is None:  # deleted meanwhile
            self._at = segments.first
            return 1
        found = self._good(position)
        if found:
            self._at = position + found
            return self._at - before
        stretch = self._stretch(position)
        if stretch is None:
            return 1
        self._found.add(stretch.begin)
        if stretch.begin not in self.damaged:
            if len(self.damaged) < DAMAGED_MAX:
                self.damaged[stretch.begin] = stretch
            self._told(stretch)
        self._at = max(stretch.end, position + 1)
        return self._at - before

    def _good(self, position: int) -> int:
        """The size of the batch at `position` when it is whole; 0 when it is damaged or cannot be read."""
        segment = self._segments.at(position)
        if segment is None:
            return 0
        try:
            front = segment.file.read(position - segment.base, batch.HEADER_BYTES)
            found = batch.header(front, position)
            if found is None or found.is_gap or not batch.holds(segment.file.read(position - segment.base, found.size), found):
                return 0
        except OSError:
            return 0
        return found.size

    def _stretch(self, position: int) -> Stretch | None:
        """What is damaged from `position` on; None when it can be read now."""
        survey = LogSurvey(self._segments, self._incarnation)
        found = next(survey.run(position, self._durable()), None)
        return found if isinstance(found, Stretch) else None

    def _end_pass(self) -> None:
        """Begin again. What was damaged before and is not any more has been mended or deleted."""
        self.passes += 1
        self._waits = True
        self.damaged = {begin: each for begin, each in self.damaged.items() if begin in self._found}
        self._found.clear()
        self._at = self._segments.first
