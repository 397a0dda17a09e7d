"""Events of the store: each is reported once, and counted each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from domain.errors import StoreError, lacks_descriptor
from domain.shortage import lack_of
from domain.store.store_event import Report, StoreEvent, StoreEventKind

NOTIFIED_MAX: Final = 1_024
"""Limit on remembered unreadable places, each of which is reported once."""


@final
class StoreEvents:
    """Passes events to the `Report` of the store's owner.

    counts       kind -> number of events since the start, repeated ones included
    _notified    reported texts about unreadable places
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._notified: dict[str, None] = {}
        self.counts: dict[StoreEventKind, int] = dict.fromkeys(StoreEventKind, 0)

    def notify(self, kind: StoreEventKind, file: str, cause: str, remedy: str = "", error: BaseException | None = None) -> None:
        """Count and report one event."""
        self.counts[kind] += 1
        self._report(StoreEvent(kind, file, cause, remedy, error))

    def fault(self, what: str, error: Exception) -> None:
        """Report that `what`, a callback, has raised `error`; the work before the callback is not undone."""
        self.notify(StoreEventKind.FAULT, "", f"{what} raised {type(error).__name__}: {error}", "report this as a bug", error)

    def run(self, what: str, call: Callable[..., None], *arguments: Any) -> None:
        """Call `call` for an independent receiver: an exception is reported and does not reach the caller."""
        try:
            call(*arguments)
        except Exception as error:
            self.fault(what, error)

    def unreadable(self, error: OSError | StoreError) -> None:
        """Report, once for each place, the error of a read."""
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
