"""When Python searches for cycles: rarely, and never through more objects than one turn of the loop has time for.

Nearly all objects are freed by their reference counts. A search looks at all objects of its generation: at a million queues a
search of the oldest would take seconds. So what has survived there is frozen, in portions: no later search looks at it.
"""

from __future__ import annotations

import gc
from typing import Any, Final

YOUNG: Final = 3_000
"""Objects allocated and not freed before the youngest are searched. Python's 700 cost 4 to 10 % of a message's time."""
YOUNG_SEARCHES: Final = 1
"""Searches of the youngest before those are searched that survived one. Together they bound a search to 6,000 objects."""
KEPT_MAX: Final = 10_000
"""Objects of the oldest generation, after a search of it, above which they are frozen."""


def collect_rarely() -> None:
    """Begin to search for cycles. What exists already stays: it is frozen.

    A cycle of frozen objects that becomes unreachable is never found. Objects that come and go in great numbers, such as
    connections, take care to be freed without a search.
    """
    gc.freeze()
    gc.set_threshold(YOUNG, YOUNG_SEARCHES, 1)
    if freeze_survivors not in gc.callbacks:
        gc.callbacks.append(freeze_survivors)
    gc.enable()


def freeze_survivors(phase: str, info: dict[str, Any]) -> None:
    """A callback of the collector: freeze the oldest generation when a search has left it too large."""
    if phase == "stop" and info["generation"] == 2 and len(gc.get_objects(2)) > KEPT_MAX:
        gc.freeze()
