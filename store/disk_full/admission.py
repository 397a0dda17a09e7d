"""Admission of writes, by the free space of the volume and the state of the log."""

from __future__ import annotations

from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.ports import Disk
from domain.store.store_event import StoreEventKind
from store.events import StoreEvents
from store.log.commit import GroupCommit
from store.settings import StoreSettings

MARGIN: Final = 10
"""Divisor of a bound: so much more than the bound has to be free before it ends."""


@final
class FreeSpace:
    """The bound of the free space of a volume, which has too little below a bound, until there is a tenth more than the bound.

    A store that hovers round the bound would stop and go on again and again.
    """

    def __init__(self, least: float) -> None:
        """`least`: the bound, a share from 0 to 1."""
        self._least = least
        self._enough = least + min(least, 1 - least) / MARGIN
        self._is_low = False

    def is_low(self, free: float) -> bool:
        """Take the free share of now. True when it is too little."""
        self._is_low = free < (self._enough if self._is_low else self._least)
        return self._is_low


@final
class WriteAdmission:
    """Refuses writes while the log is broken, the store closes, too many bytes wait or the volume is full.

    free_ratio   free share of the volume, 0 to 1, when `check_space` was last called
    full         why nothing is taken while the volume is full, None while there is room
    _closing     why nothing is taken since `close`, None before
    """

    def __init__(self, commit: GroupCommit, config: StoreSettings, disk: Disk, events: StoreEvents) -> None:
        self._commit = commit
        self._config = config
        self._disk = disk
        self._events = events
        self.free_ratio = 1.0
        self.full: Failure | None = None
        self._space = FreeSpace(config.free_ratio_min)
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
        """Read the free share of the volume; reports the begin and the end of a shortage."""
        free, enough = self._disk.free_ratio(), self._config.free_ratio_min
        self.free_ratio = free
        if self._space.is_low(free):
            text = f"only {free:.1%} of the volume is free, {enough:.0%} are needed to take messages"
            self.full = Failure(ErrorCode.STORE_UNAVAILABLE, text)
            self._events.stops(StoreEventKind.FULL, "free space", "", text, "free space on the volume")
        elif self.full is not None:
            self.full = None
            text = f"{free:.1%} of the volume is free: messages are taken again"
            self._events.goes_on(StoreEventKind.FULL, "free space", text)

    def close(self, text: str) -> None:
        """Refuse all writes from now on with DRAINING and `text`."""
        self._closing = Failure(ErrorCode.DRAINING, text)
