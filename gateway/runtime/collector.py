"""Schedule of the cycle collector: rare searches, each through no more objects than one turn of the loop has time for.

Nearly all objects are freed by their reference counts. A search looks at all objects of its generation: at a million queues a
search of the oldest would take seconds. So the objects that have survived there are frozen, in portions, and no later search
looks at them.

Python begins a search when a fixed number of objects more were made than freed. A node that makes as many as it frees, such as
leases, begins none, and the youngest generation, which has only the new ones, grows to hundreds of thousands: the next search
takes half a second. So a timer searches too.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Final, final

YOUNG: Final = 6_000
"""Objects made and not freed before the youngest are searched. Python's 700 cost 4 to 10 % of a message's time."""
TOGETHER: Final = -1
"""Each search of the youngest is one of the next generation, too, so what survives it is of the oldest: an object that stays,
such as a connection, is looked at once."""
NEVER: Final = 1 << 30
"""Only the timer searches the oldest generation."""
TICK_S: Final = 0.02
"""Time between two searches of all but the oldest."""
LOOK_TICKS: Final = 4
POLL_S: Final = 0.01
"""Ticks between two looks at the oldest generation, and the time from the tick to the look: a look counts the objects, and
has a turn of its own."""
SEARCH_LOOKS: Final = 25
"""Looks between two searches of the oldest generation, while it is small. Its bytes are summed up before a search only: that
takes 1.2 ms for 10,000 objects, and to count them 0.14 ms."""
KEPT_MAX: Final = 10_000
KEPT_BYTES_MAX: Final = 1024 * 1024
"""Objects of the oldest generation, and their bytes, above which they are frozen: a search looks at each reference in them."""


@final
class Collector:
    """Searches for cycles from `begin` on.

    _later   calls a function after seconds
    """

    def __init__(self, later: Callable[[float, Callable[[], None]], object]) -> None:
        self._later = later
        self._ticks = 0

    def begin(self) -> None:
        """Begin. Objects that exist already are frozen.

        A cycle of frozen objects that becomes unreachable is never found. Objects that come and go in great numbers, such as
        connections, take care to be freed without a search.
        """
        gc.freeze()
        gc.set_threshold(YOUNG, TOGETHER, NEVER)
        gc.enable()
        self._later(TICK_S, self._tick)

    def _tick(self) -> None:
        """Search the objects made since the last tick; survivors are of the oldest generation."""
        self._later(TICK_S, self._tick)
        gc.collect(1)
        self._ticks += 1
        if self._ticks % LOOK_TICKS == 0:
            self._later(POLL_S, self._poll)

    def _poll(self) -> None:
        """Freeze the oldest generation when it is large; search it now and then while it is small."""
        search = self._ticks % (LOOK_TICKS * SEARCH_LOOKS) == 0
        if _is_large(search):
            gc.freeze()
        elif search:
            gc.collect(2)


def _is_large(search: bool) -> bool:
    """True when the oldest generation has many objects, or a search of it would take too long."""
    kept = gc.get_objects(2)
    return len(kept) > KEPT_MAX or (search and sum(map(sys.getsizeof, kept)) > KEPT_BYTES_MAX)


def collect_all() -> None:
    """Free all unreachable objects, frozen ones too. The time grows with the number of objects: no client may be served."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
