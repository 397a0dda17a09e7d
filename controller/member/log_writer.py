"""Writes of a member's raft log: one output of raft at a time, tried again while the disk has no room."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, final

from controller.raft.persisted import RaftStorage
from controller.raft.ready import Ready
from domain.hovering import HoveringState
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from domain.shortage import is_full, lack_of

AGAIN_MS: Final = 1_000
"""Time between two attempts while there is no room."""

log = logging.getLogger("headgate.controller")


@final
class RaftLogWriter:
    """The log of one member.

    A file of the log appears whole or not at all, and a later attempt writes a new one: unlike a sync of the same pages, a
    write that found no room may be repeated.

    waits     why the log is not written for now, with what ends it; "": it is written
    is_busy   True from `write` until its output is durable
    """

    def __init__(self, storage: RaftStorage, clock: Clock, failed: Callable[[str], None]) -> None:
        """`failed(reason)` is called after any error but a lack of room. The caller writes nothing afterwards."""
        self.waits = ""
        self.is_busy = False
        self._storage = storage
        self._clock = clock
        self._failed = failed
        self._timer: Timer | None = None
        self._stopped = False
        self._reason = ""
        self._full = HoveringState(clock, self._tell)

    def stop(self) -> None:
        """Report nothing any more, and try nothing again."""
        self._stopped = True
        self._full.stop()
        if self._timer is not None:
            self._timer.cancel()

    def write(self, ready: Ready, done: Callable[[], None]) -> None:
        """Write an output of raft; `done` is called when it is durable. Not while `is_busy`."""
        self.is_busy = True
        try:
            if ready.hard_state is not None:
                self._storage.put_hard_state(ready.hard_state)
            if ready.snapshot is not None:
                self._storage.put_snapshot(ready.snapshot)
            if ready.entries:
                self._storage.put_entries(ready.entries)
        except OSError as error:
            self._fail(error)
        else:
            self._flush(done)

    def _flush(self, done: Callable[[], None]) -> None:
        try:
            self._storage.flush(partial(self._flushed, done))
        except OSError as error:
            self._flushed(done, error)

    def _flushed(self, done: Callable[[], None], error: OSError | None) -> None:
        if self._stopped:
            return
        if error is None:
            self._full.change(False)
            self.waits, self.is_busy = "", False
            done()
        elif is_full(error):
            self._wait(done, error)
        else:
            self._fail(error)

    def _wait(self, done: Callable[[], None], error: OSError) -> None:
        lack = lack_of(error)
        self._reason = f"a write of its log {lack.found} ({error}). It goes on by itself when {lack.until}: {lack.remedy}"
        self._full.change(True)
        self.waits = f"its log cannot be written ({error}): it goes on by itself when {lack.until}"
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + AGAIN_MS * MILLISECOND_NS, partial(self._flush, done))

    def _tell(self, is_full: bool, times: int) -> None:
        if is_full:
            log.error("this controller takes no part: %s", self._reason)
        else:
            often = f", for a minute now; it had stopped {times} times" if times else ""
            log.warning("this controller takes part again: its log can be written%s", often)

    def _fail(self, error: OSError) -> None:
        self._failed(f"its log cannot be written: {error}")
