"""Events of the store: each is reported once, and counted each time. Kinds by which writes stop have an end, and do not
recur while the store hovers round a bound (`domain.hovering`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, final

from domain.errors import StoreError, lacks_descriptor
from domain.hovering import HoveringState
from domain.ports import Clock
from domain.shortage import lack_of
from domain.store.store_event import ENDS, Report, StoreEvent, StoreEventKind

NOTIFIED_MAX: Final = 1_024
"""Limit on remembered unreadable places, each of which is reported once."""


@final
class StoreEvents:
    """Passes events to the `Report` of the store's owner.

    counts       kind -> number of events since the start, repeated ones included; of kinds that have an end, lines alone
    _notified    reported texts about unreadable places
    _bounds      kind that has an end -> when it has lines
    _reasons     kind that has an end -> which part of the store asks for it -> (file, cause, remedy)
    _ended       last text about an end
    """

    def __init__(self, report: Report, clock: Clock) -> None:
        self._report = report
        self._bounds = {kind: HoveringState(clock, partial(self._tell, kind)) for kind in ENDS}
        self._reasons: dict[StoreEventKind, dict[str, tuple[str, str, str]]] = {kind: {} for kind in ENDS}
        self._ended = ""
        self._notified: dict[str, None] = {}
        self.counts: dict[StoreEventKind, int] = dict.fromkeys(StoreEventKind, 0)

    def notify(self, kind: StoreEventKind, file: str, cause: str, remedy: str = "", error: BaseException | None = None) -> None:
        """Count and report one event."""
        self.counts[kind] += 1
        self._report(StoreEvent(kind, file, cause, remedy, error))

    def stops(self, kind: StoreEventKind, part: str, file: str, cause: str, remedy: str) -> None:
        """Report that `part` of the store refuses writes, for a reason of a kind that has an end (`ENDS`).

        Where another part refuses them too for a reason of that kind, and where they have just gone on, it has no line.
        No effect while the part refuses them already.
        """
        reasons = self._reasons[kind]
        if part in reasons:
            return
        reasons[part] = (file, cause, remedy)
        bound = self._bounds[kind]
        was_told = bound.is_told
        bound.change(True)
        if was_told:
            self._news(kind)

    def goes_on(self, kind: StoreEventKind, part: str, text: str) -> None:
        """Report that `part` of the store takes writes again. They go on when no other part refuses them by this kind."""
        reasons = self._reasons[kind]
        if reasons.pop(part, None) is None:
            return
        if reasons:
            self._news(kind)
            return
        self._ended = text
        bound = self._bounds[kind]
        bound.change(False)
        if bound.is_told:
            self._report(StoreEvent(ENDS[kind], "", text, is_line=False))

    def close(self) -> None:
        """Report nothing later: the store has been closed."""
        for bound in self._bounds.values():
            bound.stop()

    def _news(self, kind: StoreEventKind) -> None:
        """Report all reasons of a kind to those who need the state alone."""
        found = self._reasons[kind].values()
        text = "; ".join(": ".join(part for part in reason if part) for reason in found)
        self._report(StoreEvent(kind, "", text, is_line=False))

    def _tell(self, kind: StoreEventKind, is_on: bool, times: int) -> None:
        if is_on:
            [(file, cause, remedy)] = self._reasons[kind].values()
            self.notify(kind, file, cause, remedy)
            return
        end, text = ENDS[kind], self._ended
        if times:
            text = f"{text}, for a minute now; they had stopped {times} times"
        self.counts[end] += 1
        self._report(StoreEvent(end, "", text, is_news=not times))

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
