"""Events of the store as lines of the process's log."""

from __future__ import annotations

import logging
from typing import Final

from domain.store.store_event import StoreEvent, StoreEventKind

log = logging.getLogger("headgate.store")

_LEVELS: Final = {
    StoreEventKind.RECOVERING: logging.INFO,
    StoreEventKind.STOPPED: logging.CRITICAL,
    StoreEventKind.FULL: logging.ERROR,
    StoreEventKind.RESUMED: logging.WARNING,
    StoreEventKind.STALLED: logging.ERROR,
    StoreEventKind.MOVING: logging.WARNING,
    StoreEventKind.SHORT: logging.ERROR,
    StoreEventKind.ENOUGH: logging.INFO,
    StoreEventKind.DAMAGED: logging.CRITICAL,
    StoreEventKind.REBUILT: logging.ERROR,
    StoreEventKind.CUT: logging.WARNING,
    StoreEventKind.SET_ASIDE: logging.WARNING,
    StoreEventKind.PRESSED: logging.WARNING,
    StoreEventKind.CLOCK: logging.ERROR,
    StoreEventKind.LEFT: logging.WARNING,
    StoreEventKind.UNREADABLE: logging.ERROR,
    StoreEventKind.FAULT: logging.ERROR,
}


def log_store_event(event: StoreEvent) -> None:
    """Write one line: what has happened, the file, the cause and the remedy; a fault of the program with its traceback."""
    parts = [f"store {event.kind.value}", event.file, event.cause, event.remedy]
    error = event.error if event.kind is StoreEventKind.FAULT else None
    facts = {"event": event.kind.value, "file": event.file, "cause": event.cause, "remedy": event.remedy}
    log.log(_LEVELS[event.kind], "%s", ": ".join(part for part in parts if part), exc_info=error, extra=facts)
