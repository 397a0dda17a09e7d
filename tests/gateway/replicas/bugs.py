"""Known bugs of replication, which the simulation has to find when they are put back."""

from __future__ import annotations

from typing import Any, Final

from store.replica import follower
from store.replication import leading, members
from tests.simulation.bug import Bug, applies_at_once, counts_the_connected, forgets_who_was_asked, shrinks_early


def _takes_in_too_early(_original: Any) -> Any:
    def may_join(self: Any, follower: Any, _now_ns: int) -> bool:
        known = self.group.replica(follower.id)
        return follower.connection is not None and known is not None and known.incarnation == str(follower.incarnation)

    return may_join


def _takes_written_for_synced(original: Any) -> Any:
    def has(self: Any, member: Any) -> tuple[int, int]:
        written, _ = original(self, member)
        return written, written

    return has


BUGS: Final = {
    "shrinks-early": Bug(
        "who is to be left out counts no more before the controllers have said so", 100,
        ((members.SyncStateSet, "counted", shrinks_early),),
    ),
    "forgets-the-asked": Bug(
        "a newcomer counts only when the answer has come", 40, ((members.SyncStateSet, "counted", forgets_who_was_asked),),
        first=100,
    ),
    "joins-too-early": Bug(
        "a newcomer is taken in before it has what is confirmed", 300, ((leading.Leading, "_may_join", _takes_in_too_early),),
        first=545,
    ),
    "counts-the-connected": Bug(
        "confirmed is what those have who are connected", 50, ((leading.Leading, "_confirm", counts_the_connected),)
    ),
    "written-is-synced": Bug(
        "what is written counts as durable", 300, ((leading.Leading, "_has", _takes_written_for_synced),)
    ),
    "applies-at-once": Bug("a follower applies what is not confirmed", 100, ((follower.Follower, "confirm", applies_at_once),)),
}  # fmt: skip
