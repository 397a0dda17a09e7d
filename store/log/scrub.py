"""The scrubber: slow, repeated reads of the whole log, to find damage before a reader meets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, final

from domain.errors import lacks_descriptor
from store.log import batch
from store.log.damage import SuspectedSegments
from store.log.survey import LogSurvey, Stretch
from store.settings import StoreSettings

DAY_S: Final = 86_400
DAMAGED_MAX: Final = 1_024
"""Limit on remembered damaged parts; further ones are reported at each pass."""
_COST_BYTES: Final = 64
"""Bytes that cost as much as a visit (`domain.turn.STORE_TASK_COST`)."""


@final
class Scrubber:
    """Checks the CRCs of all durable batches, in repeated passes from the first to the last.

    suspects        segments in which a reader has met damage; they are checked first
    damaged         known damaged parts, by their first position
    _owed           bytes to check in this second
    _pass_s         seconds since the begin of this pass
    _waits          True from the end of a pass to the begin of the next one
    """

    def __init__(
        self,
        suspects: SuspectedSegments,
        durable: Callable[[], int],
        incarnation: int,
        config: StoreSettings,
        notified: Callable[[Stretch], None],
    ) -> None:
        """`durable()`: position below which the log is durable. Of `config` only the settings `scrub_…` are used.

        `notified` is called once with each damaged part.
        """
        self._segments = suspects.segments
        self._durable = durable
        self._incarnation = incarnation
        self._days = config.scrub_days
        self._bytes_min = config.scrub_bytes_min
        self._pass_min_s = config.scrub_pass_s
        self.suspects = suspects
        self._notified = notified
        self._at = suspects.segments.first
        self._owed = 0
        self._pass_s = 0
        self._waits = False
        self._found: set[int] = set()
        self.checked_bytes = 0
        self.passes = 0
        self.damaged: dict[int, Stretch] = {}

    def second(self) -> Iterator[int]:
        """Check the bytes due in one second; yields the cost of each step, in visits. Raises OSError without a file descriptor;
        every other OSError counts as damage."""
        yield from self._suspected()
        self._pass_s += 1
        if not self._days or (self._waits and self._pass_s < self._pass_min_s):
            return
        if self._waits:
            self._waits, self._pass_s = False, 0
        size = self._durable() - self._segments.first
        self._owed += max(self._bytes_min, size // (self._days * DAY_S))
        while self._owed > 0:
            checked = self._step()
            if not checked:
                self._owed = 0
                return
            self._owed -= checked
            self.checked_bytes += checked
            yield checked // _COST_BYTES + 1

    def _suspected(self) -> Iterator[int]:
        bases = self.suspects.bases
        while bases:
            at = next(iter(bases))
            del bases[at]
            segment = self._segments.at(at)
            while segment is not None and at < min(segment.end, self._durable()) and segment is self._segments.around(at):
                behind = self._segments.after(self._check(at))
                if behind == at:
                    break
                self.checked_bytes += behind - at
                yield (behind - at) // _COST_BYTES + 1
                at = behind

    def mended(self, begin: int) -> None:
        """Forget the damaged part that begins at `begin`: it is repaired."""
        self.damaged.pop(begin, None)

    def _step(self) -> int:
        """Check one batch, or find the end of a damaged part. Returns the bytes; 0 at the end of a pass."""
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
        self._at = self._check(position)
        return max(self._at - before, 1)

    def _check(self, position: int) -> int:
        """Check the batch at `position`, or find the end of the damage; the position behind it, or `position`: check again."""
        segment = self._segments.at(position)
        if segment is not None and segment.base == position and not self._segments.intact(segment):
            return self._bad(Stretch(position, position, segment.end, 0, False, "the file is missing, or too short"))
        found = self._good(position)
        if found:
            return position + found
        stretch = self._stretch(position)
        return position if stretch is None else self._bad(stretch)

    def _bad(self, stretch: Stretch) -> int:
        self._found.add(stretch.begin)
        if stretch.begin not in self.damaged:
            if len(self.damaged) < DAMAGED_MAX:
                self.damaged[stretch.begin] = stretch
            self._notified(stretch)
        return stretch.end

    def _good(self, position: int) -> int:
        """Size of the batch at `position` if it is whole; 0 if it is damaged or unreadable. Raises OSError without a file
        descriptor: it is checked later."""
        segment = self._segments.at(position)
        if segment is None:
            return 0
        try:
            front = segment.file.read(position - segment.base, batch.HEADER_BYTES)
            found = batch.header(front, position)
            if found is None or found.is_gap or not batch.holds(segment.file.read(position - segment.base, found.size), found):
                return 0
        except OSError as error:
            if lacks_descriptor(error):
                raise
            return 0
        return found.size

    def _stretch(self, position: int) -> Stretch | None:
        """Damaged part that begins at `position`; None when the log is readable there now."""
        survey = LogSurvey(self._segments, self._incarnation)
        found = next(survey.run(position, self._durable()), None)
        return found if isinstance(found, Stretch) else None

    def _end_pass(self) -> None:
        """End a pass. Damaged parts that it has not found again are repaired or deleted."""
        self.passes += 1
        self._waits = True
        self.damaged = {begin: each for begin, each in self.damaged.items() if begin in self._found}
        self._found.clear()
        self._at = self._segments.first
