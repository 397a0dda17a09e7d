"""The newest figures of one replica."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final, final

from domain.controller.health import UNMEASURED, ReplicaFigures

RECENT: Final = 8
"""Number of the newest samples, which show the present state of a replica."""
PAST: Final = 120
"""Number of the samples before these, which show its ordinary state."""
PAST_MIN: Final = 16
"""Samples of the past without which nothing is compared with it."""


CLOCKS: Final = 32
"""Samples of a clock that are kept: heartbeats may be late for some seconds."""


@final
class FiguresHistory:
    """Figures of a replica in one role: leader and follower do different work, so figures of one role say nothing of the other.

    heard_ms   time of the newest figures
    skew_ms    last reported bound on the difference of clocks; UNMEASURED: none reported
    _paths     the newest times of the path to it, as its leader measures them
    _path_ms   time of the last of these
    _clocks    wall clock of the replica less the time of its heartbeat; the same in both roles
    """

    def __init__(self) -> None:
        self._samples: deque[ReplicaFigures] = deque(maxlen=RECENT + PAST)
        self._clocks: deque[int] = deque(maxlen=CLOCKS)
        self._leads = False
        self._paths: deque[int] = deque(maxlen=RECENT)
        self._path_ms = 0
        self.heard_ms = 0
        self.skew_ms = UNMEASURED

    def add(self, figures: ReplicaFigures, leads: bool, now_ms: int) -> None:
        """Figures have come, of the time since the last ones. The past is forgotten when the role has changed."""
        if leads != self._leads:
            self._samples.clear()
            self._paths.clear()
            self._leads = leads
        self._samples.append(figures)
        self.heard_ms = now_ms
        self.skew_ms = figures.skew_ms
        if figures.wall_ms != UNMEASURED:
            self._clocks.append(figures.wall_ms - now_ms)

    def add_path(self, micros: int, now_ms: int) -> None:
        """Add a time of the path, measured by the leader. Times of an earlier leader are soon displaced."""
        self._paths.append(micros)
        self._path_ms = now_ms

    def paths(self, since_ms: int) -> Sequence[int]:
        """The newest times of the path to it; empty when they are too few, or ended before `since_ms`."""
        return tuple(self._paths) if len(self._paths) == RECENT and self._path_ms >= since_ms else ()

    @property
    def is_full(self) -> bool:
        """True when there are enough samples of the present state."""
        return len(self._samples) >= RECENT

    @property
    def recent(self) -> Sequence[ReplicaFigures]:
        """The newest samples."""
        return tuple(islice(self._samples, max(len(self._samples) - RECENT, 0), None))

    @property
    def past(self) -> Sequence[ReplicaFigures]:
        """The samples before the newest ones; empty while they are too few."""
        count = len(self._samples) - RECENT
        return tuple(islice(self._samples, count)) if count >= PAST_MIN else ()

    @property
    def clock_ms(self) -> int | None:
        """Wall clock of the replica less the monotonic time of the receiver; None without enough samples.

        A slow heartbeat makes a clock seem late: the largest of the newest differences is the most exact one.
        """
        return max(self._clocks) if len(self._clocks) >= RECENT else None
