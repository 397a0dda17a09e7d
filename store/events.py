"""Events of the store: each is told once, and counted each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from domain.errors import StoreError, lacks_descriptor
from domain.store.store_event import Report, StoreEvent, StoreEventKind
from store.disk_full.errors import lack_of

NOTIFIED_MAX: Final = 1_024
"""Unreadable places that are remembered, so that each is told once."""


@final
class StoreEvents:
    """Hands events to the `Report` that the store was opened with.

    counts   kind -> number of events since the start, repeated ones included
    _notified    texts about unreadable places that have been told
    """

    __slots__ = ("_notified", "_report", "counts")

    def __init__(self, report: Report) -> None:
        self._report = report
        self._notified: dict[str, None] = {}
        self.counts: dict[StoreEventKind, int] = dict.fromkeys(StoreEventKind, 0)

    def notify(self, kind: StoreEventKind, file: str, cause: str, remedy: str = "", error: BaseException | None = None) -> None:
        """Tell one event."""
        self.counts[kind] += 1
        self._report(StoreEvent(kind, file, cause, remedy, error))

    def fault(self, what: str, error: Exception) -> None:
        """Tell that `what`, a callback, has raised `error`: what it was called for is done all the same."""
        self.notify(StoreEventKind.FAULT, "", f"{what} raised {type(error).__name__}: {error}", "report this as a bug", error)

    def run(self, what: str, call: Callable[..., None], *arguments: Any) -> None:
        """Call `call`, whose caller has nothing to do with what is done next: an exception is told, and goes no further."""
        try:
            call(*arguments)
        except Exception as error:
            self.fault(what, error)

    def unreadable(self, error: OSError | StoreError) -> None:
        """Tell, once for each place, that a reader got an error instead of what it asked for."""
        text = str(error)
        if text in self._notified:
            self.counts[StoreEventKind.UNREADABLE] += 1
            return
        if len(self._notified) >= NOTIFIED_MAX:
            del self._notified[next(iter(self._notified))]
        self._notified[text] = None
        file = error.file if isinstance(error, StoreError) else str(error.filename or "")
        remedy = "run `headgate check` on the data directory"
        if isinstance(error, OSError) and lacks_descriptor(error):
            remedy = lack_of(error).remedy
        self.notify(StoreEventKind.UNREADABLE, file, text, remedy, error)
