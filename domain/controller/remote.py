"""The report of a remote replica about itself: it follows asynchronously, in another place than its store group."""

from __future__ import annotations

from typing import Final, NamedTuple


class RemoteWord(NamedTuple):
    """Part of a heartbeat.

    place       name of the place; "": the replica is not remote
    lag_bytes   bytes that it lacked of what was confirmed, at the last word of its leader
    quiet_ms    milliseconds since that word; what was confirmed since then it may lack, too
    """

    place: str = ""
    lag_bytes: int = 0
    quiet_ms: int = 0


LOCAL: Final = RemoteWord()
PLACE_CHARS_MAX: Final = 64
"""Characters of the name of a place."""
