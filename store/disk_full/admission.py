"""Admission of writes, by the free space of the volume and the state of the log."""

from __future__ import annotations

from typing import final

from domain.errors import ErrorCode, Failure
from domain.ports import Disk
from domain.store.store_event import StoreEventKind
from store.events import StoreEvents
from store.log.commit import GroupCommit
from store.settings import StoreSettings


@final
class WriteAdmission:
    """Refuses writes while the log is broken, the store closes, too many bytes wait or the volume is full.

    free_ratio   free share of the volume, 0 to 1, when `check_space` was last called
    full         why nothing is taken while the volume is full, None while there is room
    _log_full    True when no write found room either, when `check_space` was last called
    _closing     why nothing is taken since `close`, None before
    """

    def __init__(self, commit: GroupCommit, config: StoreSettings, disk: Disk, events: StoreEvents) -> None:
        self._commit = commit
        self._config = config
        self._disk = disk
        self._events = events
        self.free_ratio = 1.0
        self.full: Failure | None = None
        self._log_full = False
        self._closing: Failure | None = None

    def refusal(self) -> Failure | None:
        """Failure of writes now: STORE_UNAVAILABLE, DRAINING or OVERLOADED; None when writes are taken."""
        commit = self._commit
        if commit.faults.broken is not None or commit.faults.full is not None:
            return commit.faults.refusal()
        if self._closing is not None:
            return self._closing
        if commit.waiting_bytes() > self._config.pending_bytes_max:
            return Failure(ErrorCode.OVERLOADED, f"{commit.waiting_bytes()} bytes wait to be written")
        return self.full

    def check_space(self) -> None:
        """Read the free share of the volume; reports the begin and the end of a shortage.

        The log reports the same when a write finds no room. The later end of the two reports that messages are taken again.
        """
        free, least = self._disk.free_ratio(), self._config.free_ratio_min
        self.free_ratio = free
        was_full, self.full = self.full is not None, None
        log_was_full, self._log_full = self._log_full, self._commit.faults.full is not None
        if free < least:
            text = f"only {free:.1%} of the volume is free, {least:.0%} are needed to take messages"
            self.full = Failure(ErrorCode.STORE_UNAVAILABLE, text)
            if not was_full or (log_was_full and not self._log_full):
                self._events.notify(StoreEventKind.FULL, "", text, "free space on the volume")
        elif was_full and not self._log_full:
            self._events.notify(StoreEventKind.RESUMED, "", f"{free:.1%} of the volume is free: messages are taken again")

    def close(self, text: str) -> None:
        """Refuse all writes from now on with DRAINING and `text`."""
        self._closing = Failure(ErrorCode.DRAINING, text)
