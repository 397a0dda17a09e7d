"""Replicas that lead nothing for a while, because they were slow as leaders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

FIRST_MS: Final = 60_000
"""Time of the first ejection of a replica; each further one doubles it."""
LONGEST_MS: Final = 3_600_000
FORGOTTEN_MS: Final = 7_200_000
"""Time in office, or fit for it, after which earlier ejections count no more."""
SHARE_MAX: Final = 1 / 3
"""At most this share of all replicas is out at a time, but one always may be: when most are slow, the cause is a common one."""
PROBES: Final = 10
"""Ordinary polls in a row, after the ejection time, that make a replica fit again."""

Place = tuple[str, int]
"""(store group, replica id)."""


@dataclass(slots=True)
class Ejection:
    """One replica.

    until_ms    least end of the ejection
    probes      ordinary polls in a row since then
    is_out      False: it is fit again, and its earlier ejections still count
    """

    until_ms: int
    times: int
    probes: int = 0
    is_out: bool = True


@final
class Ejections:
    """Ejected replicas. `now_ms`: monotonic milliseconds from the caller."""

    def __init__(self) -> None:
        self._of: dict[Place, Ejection] = {}

    def is_out(self, place: Place) -> bool:
        """True for a replica that should not lead."""
        found = self._of.get(place)
        return found is not None and found.is_out

    def count(self) -> int:
        """Number of ejected replicas."""
        return sum(each.is_out for each in self._of.values())

    def has_room(self, replicas: int) -> bool:
        """True when one more replica may be ejected; `replicas`: the number of all."""
        return self.count() + 1 <= max(1, int(replicas * SHARE_MAX))

    def eject(self, place: Place, now_ms: int) -> int:
        """Eject a replica. Returns the least time, in milliseconds."""
        found = self._of.get(place)
        times = found.times + 1 if found is not None else 1
        out_ms = min(FIRST_MS << min(times - 1, 16), LONGEST_MS)
        self._of[place] = Ejection(now_ms + out_ms, times)
        return out_ms

    def looked(self, place: Place, is_ordinary: bool, now_ms: int) -> bool:
        """Count the poll of a replica's figures as a probe. True when the replica has become fit again."""
        found = self._of.get(place)
        if found is None:
            return False
        if not found.is_out:
            if now_ms - found.until_ms > FORGOTTEN_MS:
                del self._of[place]
            return False
        found.probes = found.probes + 1 if is_ordinary and now_ms >= found.until_ms else 0
        if found.probes < PROBES:
            return False
        found.is_out, found.until_ms = False, now_ms
        return True

    def keep(self, places: set[Place]) -> None:
        """Forget the replicas that there are no more."""
        self._of = {place: each for place, each in self._of.items() if place in places}
