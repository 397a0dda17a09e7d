"""Repair of damaged parts of a replica's log with bytes of other replicas, one part at a time, while the log is in use.

damaged --start--> ask one replica after the other: bytes, bytes, ... --finish--> whole
                   no replica has them: abandoned, and retried later
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, final

from domain.errors import Failure
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from domain.replication.message import LogPart, LogPartRefused
from domain.replication.ports import DamagedPart, MendableLog, Mending, ReplicaDataError

POLL_NS: Final = 500 * MILLISECOND_NS
REST_NS: Final = 5_000 * MILLISECOND_NS
"""Pause before a retry of a part that no replica could give."""

Given = Callable[[LogPart | LogPartRefused | Failure], None]


class PartSource(Protocol):
    """Another replica.

    name   for people
    """

    name: str

    def read(self, position: int, end: int, done: Given) -> None:
        """Request its log from `position` to `end`, or a first part of that."""


@final
class RepairCounts:
    """Figures of all repairs of a replica since the start of its process.

    given      parts given to other replicas
    """

    def __init__(self) -> None:
        self.parts = 0
        self.size = 0
        self.failures = 0
        self.given = 0


@final
class Repairing:
    """Polls for damaged parts twice a second, and repairs them.

    why   reason of the failure of the last attempt; "" after a success
    """

    def __init__(
        self, log: MendableLog, sources: Callable[[], Sequence[PartSource]], clock: Clock, counts: RepairCounts,
        notified: Callable[[DamagedPart, str], None],
    ) -> None:  # fmt: skip
        """`sources()`: the replicas to ask, in order. `notified(part, where)` is called with a part that the replica `where`
        has repaired; `where` is "" after a failure, whose reason is in `why`."""
        self.why = ""
        self._counts = counts
        self._log = log
        self._sources = sources
        self._clock = clock
        self._notified = notified
        self._mending: Mending | None = None
        self._part = DamagedPart(0, 0)
        self._left: list[PartSource] = []
        self._rests: dict[int, int] = {}
        self._timer: Timer | None = None
        self._closed = False

    def start(self) -> None:
        """Begin to poll."""
        self._poll()

    def close(self) -> None:
        """Stop all repairs."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._mending is not None:
            self._mending.abandon()
            self._mending = None

    def _poll(self) -> None:
        if self._closed:
            return
        now = self._clock.monotonic_ns()
        self._timer = self._clock.call_at(now + POLL_NS, self._poll)
        if self._mending is not None:
            return
        self._rests = {begin: until for begin, until in self._rests.items() if until > now}
        for part in self._log.damaged():
            if part.begin not in self._rests:
                self._begin(part)
                return

    def _begin(self, part: DamagedPart) -> None:
        self._left = list(self._sources())
        if not self._left:
            self._in_vain("there is no other replica", part)
            return
        try:
            mending = self._log.mend(part)
        except OSError as error:
            self._in_vain(str(error), part)
            return
        if mending is not None:
            self._mending, self._part = mending, part
            mending.start(partial(self._ready, mending))

    def _ready(self, mending: Mending, failure: Failure | None) -> None:
        if mending is not self._mending:
            return
        if failure is not None:
            self._in_vain(failure.text, self._part)
        else:
            self._ask(mending)

    def _ask(self, mending: Mending) -> None:
        source = self._left[0]
        source.read(mending.position, mending.end, partial(self._given, mending, source))

    def _given(self, mending: Mending, source: PartSource, answer: LogPart | LogPartRefused | Failure) -> None:
        if mending is not self._mending:
            return
        if isinstance(answer, LogPart):
            try:
                mending.add(answer.data)
            except ReplicaDataError as error:
                self._next(mending, f"{source.name}: {error}")
                return
            except OSError as error:
                self._in_vain(str(error), self._part)
                return
            if mending.position == mending.end:
                mending.finish(partial(self._finished, mending, source))
            else:
                self._ask(mending)
            return
        self._next(mending, f"{source.name}: {answer.text if isinstance(answer, Failure) else answer.reason.value}")

    def _next(self, mending: Mending, why: str) -> None:
        self._left.pop(0)
        if self._left:
            self.why = why
            self._ask(mending)
        else:
            self._in_vain(why, self._part)

    def _finished(self, mending: Mending, source: PartSource, failure: Failure | None) -> None:
        if mending is not self._mending:
            return
        if failure is not None:
            self._in_vain(failure.text, self._part)
            return
        self._mending = None
        self.why = ""
        self._counts.parts += 1
        self._counts.size += mending.end - self._part.begin
        self._notified(DamagedPart(self._part.begin, mending.end), source.name)
        self._clock.call_soon(self._again)

    def _again(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._poll()

    def _in_vain(self, why: str, part: DamagedPart) -> None:
        mending, self._mending = self._mending, None
        if mending is not None:
            mending.abandon()
        self._counts.failures += 1
        self.why = why
        self._notified(part, "")
        self._rests[part.begin] = self._clock.monotonic_ns() + REST_NS
        self._log.given_up(part)
