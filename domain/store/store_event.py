"""Events of a store: a disk that fails or is full, damage, and the measures taken."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

RECOVERING_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the log between two events of kind RECOVERING."""


class StoreEventKind(enum.Enum):
    """Kind of an event. The value is the stable name in metrics."""

    RECOVERING = "recovering"
    """Progress of an opening store: it is reported each time another RECOVERING_BYTES of the log have been read."""
    STOPPED = "stopped"
    """No writes are taken until a restart."""
    FULL = "full"
    """No writes are taken until there is room."""
    RESUMED = "resumed"
    """Writes are taken again."""
    STALLED = "stalled"
    """Nothing that waits for a sync, or for other replicas, is taken until those before it are answered."""
    MOVING = "moving"
    """What waited for a sync, or for other replicas, is answered: writes are taken again."""
    SHORT = "short"
    """Of a leader: fewer replicas are in sync than appends above `flushed` need. They are refused."""
    ENOUGH = "enough"
    """Of a leader: as many replicas are in sync as appends above `flushed` need."""
    DAMAGED = "damaged"
    """Bytes that were durable are wrong or missing."""
    REBUILT = "rebuilt"
    """Damage was made good from an older copy, or from the log."""
    CUT = "cut"
    """What a crash left unfinished at the end of the log was cut off: it had not been flushed."""
    SET_ASIDE = "set_aside"
    """A replica's log had records that the log of its leader lacks: they are kept in a folder of their own."""
    PRESSED = "pressed"
    """Messages were deleted before their time, to make room."""
    CLOCK = "clock"
    """The wall clock has jumped ahead, and is not followed."""
    LEFT = "left"
    """A file that is not needed any more could not be deleted."""
    UNREADABLE = "unreadable"
    """A reader was refused, because what it asked for is damaged."""
    FAULT = "fault"
    """A callback raised an exception; everything else went on."""


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """One event: one line in the log, unless the store hovers round a bound (`is_line`).

    file     name within the data directory; "" when it concerns no single file
    cause    what is wrong, and what was done about it
    remedy   what a person has to do; "" when there is nothing to do
    is_line  False: it is for those who need the state alone, and has no line
    is_news  False: it is for the log alone, since the state has been like that for a while
    """

    kind: StoreEventKind
    file: str
    cause: str
    remedy: str = ""
    error: BaseException | None = None
    is_line: bool = True
    is_news: bool = True


ENDS: Final = {
    StoreEventKind.FULL: StoreEventKind.RESUMED,
    StoreEventKind.STALLED: StoreEventKind.MOVING,
    StoreEventKind.SHORT: StoreEventKind.ENOUGH,
}
"""Kinds of events by which writes stop -> kinds by which they go on."""
Report = Callable[[StoreEvent], None]
"""Takes an event; it must not call the store."""


def unheard(event: StoreEvent) -> None:
    """A Report that drops all events."""
