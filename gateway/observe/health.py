"""Health of the node, and the reason why it does not serve: the answers of /healthz and /readyz."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.limits import SECOND_NS
from domain.store.store_event import ENDS, StoreEvent, StoreEventKind

STARTING: Final = "starting"
FOLLOWING: Final = "following"
SERVING: Final = "serving"
STOPPING: Final = "stopping"

_BLOCKING: Final = (StoreEventKind.STOPPED, *ENDS)
_ENDED: Final = {end: begin for begin, end in ENDS.items()}


@final
class Health:
    """The state of the process. The thread that answers during the start reads it, so each attribute is replaced whole.

    phase      STARTING, SERVING or STOPPING
    standby    during the start: what a replica does that serves nobody because it does not lead; "" where there is none
    progress   during the start: what recovery has read so far; "" before and after
    faults     kind of event -> why the store takes no writes
    waits      what a gateway waits for that has no store, or a controller for the others; "": nothing
    behind     why the store of another process, which this gateway forwards to, takes no messages; empty: it does
    beside     the same of parts of the process that have one of their own, and outlive the node: their faults count too
    """

    def __init__(self, monotonic_ns: Callable[[], int]) -> None:
        self._monotonic_ns = monotonic_ns
        self._began_ns = monotonic_ns()
        self.phase = STARTING
        self.progress = ""
        self.standby = ""
        self.waits = ""
        self.behind: tuple[str, ...] = ()
        self.faults: dict[StoreEventKind, str] = {}
        self.beside: tuple[Health, ...] = ()

    def heard(self, event: StoreEvent) -> None:
        """Take the progress of recovery, the begin of a fault that blocks writes, or its end, from an event of the store."""
        if not event.is_news:
            return
        if event.kind is StoreEventKind.RECOVERING:
            self.progress = event.cause
        elif event.kind in _BLOCKING:
            text = ": ".join(part for part in (event.file, event.cause, event.remedy) if part)
            self.faults = {**self.faults, event.kind: text}
        elif event.kind in _ENDED:
            self.faults = {kind: text for kind, text in self.faults.items() if kind is not _ENDED[event.kind]}

    def reasons(self) -> list[str]:
        """Why clients should go elsewhere, a sentence each; empty when the node serves."""
        found = [text for each in (self, *self.beside) for text in each.faults.values()]
        if self.waits:
            found.append(self.waits)
        else:
            found += self.behind
        if self.phase == STARTING and self.standby:
            found.append(self.standby)
        elif self.phase == STARTING:
            found.append(f"the node starts: {self.progress}" if self.progress else "the node starts")
        elif self.phase == STOPPING:
            found.append("the node stops")
        return found

    def document(self) -> dict[str, object]:
        """The answer of /healthz: that the process lives, and what it does."""
        seconds = round((self._monotonic_ns() - self._began_ns) / SECOND_NS, 3)
        status = FOLLOWING if self.phase == STARTING and self.standby else self.phase
        out: dict[str, object] = {"status": status, "seconds": seconds}
        if self.phase == STARTING and self.progress:
            out["progress"] = self.progress
        return out

    def readiness(self) -> dict[str, object]:
        """The answer of /readyz."""
        reasons = self.reasons()
        return {"ready": not reasons, "reasons": reasons}
