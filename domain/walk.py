"""Walks: work on each of many clients, members or sessions, of which a turn of the loop does a share.

See docs/decisions/0119-no-turn-grows.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.turn import WALKS_NS

STEP_NS: Final = MILLISECOND_NS // 50
"""Least time counted for a step, so that also a clock that stands still ends a turn: WALKS_NS has at most 100 steps."""

PAUSE_NS: Final = MILLISECOND_NS
"""Time after which a walk goes on that has caused much which the store has not answered yet."""
UNANSWERED_BYTES: Final = 64 * 1024
"""Bytes without an answer of the store above which a walk should pause. All that a sync has made durable is answered in one
turn: the longer it takes, the more a walk would have caused meanwhile."""

Walk = Iterator[None]
"""Each `next` works on one item, or on a few when that takes microseconds."""
PausingWalk = Iterator[bool]
"""The same. True: it pauses for PAUSE_NS."""

_OVER: Final = object()


@final
class Walks:
    """The walks of one process. They share WALKS_NS of each turn of the loop, and take turns after each step.

    The first steps are made within `begin`, when this turn has time left: few items are done when it returns. What a walk works
    on may change between two steps: a step looks at what is so then.

    clock     of the process
    waiting   number of walks that are not at their end
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._walks: deque[Walk | PausingWalk] = deque()
        self._paused = 0
        self._used = 0
        self._working = False
        self._scheduled = False

    @property
    def waiting(self) -> int:
        """Number of walks that are not at their end."""
        return len(self._walks) + self._paused

    def begin(self, walk: Walk | PausingWalk) -> None:
        """Work on `walk` from now on. A walk that raises ends; the others go on."""
        self._walks.append(walk)
        self._work()

    def _work(self) -> None:
        if self._working:
            return  # a step has begun another walk
        self._working = True
        now = self.clock.monotonic_ns
        try:
            while self._walks and self._used < WALKS_NS:
                walk = self._walks.popleft()
                began = now()
                try:
                    step = next(walk, _OVER)
                    if step is True:
                        self._paused += 1
                        self.clock.call_at(now() + PAUSE_NS, partial(self._resume, walk))
                    elif step is not _OVER:
                        self._walks.append(walk)
                finally:
                    self._used += max(STEP_NS, now() - began)
        finally:
            self._working = False
            if not self._scheduled:
                # Also when nothing waits: the next turn has its whole share.
                self._scheduled = True
                self.clock.call_at(now(), self._next_turn)

    def _resume(self, walk: Walk | PausingWalk) -> None:
        self._paused -= 1
        self.begin(walk)

    def _next_turn(self) -> None:
        self._scheduled = False
        self._used = 0
        if self._walks:
            self._work()
