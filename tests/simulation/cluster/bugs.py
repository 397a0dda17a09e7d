"""Known bugs of clusters, which the simulation has to find when they are put back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from controller.groups import registration
from controller.member import grey_moves
from domain.store_ports import StateChange
from gateway.usecase.sessions.snapshot import PARTS
from store.log import confirmation
from store.replica import follower
from store.replication import leading, members
from tests.simulation.bug import Bug, applies_at_once, counts_the_connected, forgets_who_was_asked, shrinks_early
from tests.simulation.cluster import store_node


def _parts_by_length(_original: Any) -> Any:
    return lambda eras, end, others, other_end: min(end, other_end)


def _serves_what_is_written(original: Any) -> Any:
    return lambda self, written, synced: original(self, written, written)


def _notes_each_word(original: Any) -> Any:
    def held(self: Any, connection: Any, command: Any) -> None:
        self.__dict__.setdefault("words", []).append((command.written, command.synced))
        original(self, connection, command)

    return held


def _counts_words(_original: Any) -> Any:
    def confirm(self: Any) -> None:
        others = len({self._own, *self._set.counted()}) - 1
        words = [*self.__dict__.get("words", ()), *[(0, 0)] * others]
        written = sorted((each for each, _ in words), reverse=True)[others - 1] if others else self._log.written
        synced = sorted((each for _, each in words), reverse=True)[others - 1] if others else self._log.synced
        self.written = max(self.written, min(self._log.written, written))
        self.synced = max(self.synced, min(self._log.synced, synced))
        self._log.confirm(self.written, self.synced)

    return confirm


def _keeps_its_place(original: Any) -> Any:
    def register(group: Any, change: Any) -> Any:
        before = group.replica(change.id)
        ruling = original(group, change)
        now = None if ruling.group is None else ruling.group.replica(change.id)
        if before is None or now is None or before.member not in group.members:
            return ruling
        found = tuple(now.member if each == before.member else each for each in ruling.group.members)
        return ruling._replace(group=replace(ruling.group, members=found))

    return register


class _MarkedState:
    """A `State` in which no packet identifier is forgotten."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def put(self, changes: Sequence[StateChange], done: Any) -> None:
        """State.put."""
        kept = [
            replace(each, value=b"\x01") if each.value is None and each.space == PARTS and each.key[16:17] == b"m" else each
            for each in changes
        ]
        self._state.put(kept, done)


class _MarkedStore:
    """A `MessageStore` with such a state."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.state = _MarkedState(store.state)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def _keeps_marks(original: Any) -> Any:
    return lambda self, store: _MarkedStore(original(self, store))


def _asks_for_no_clock(_original: Any) -> Any:
    return lambda self, election: election


BUGS: Final = {
    "parts-by-length": Bug(
        "two messages at one offset after a double kill: logs of equal length count as equal", 40,
        ((leading, "common_end", _parts_by_length),),
    ),
    "serves-the-unflushed": Bug(
        "unflushed data served to a consumer", 20, ((confirmation.Confirmation, "confirm", _serves_what_is_written),)
    ),
    "confirms-alone": Bug(
        "an acknowledgement above `flushed`, under an old epoch after a pause, of a record that the new epoch lacks", 20,
        ((leading.Leading, "_confirm", counts_the_connected),),
    ),
    "counts-words": Bug(
        "a retried response raises the count", 20,
        ((leading.Leading, "held", _notes_each_word), (leading.Leading, "_confirm", _counts_words)),
    ),
    "applies-at-once": Bug(
        "a truncation leaves timers and leases past the cut", 40, ((follower.Follower, "confirm", applies_at_once),)
    ),
    "shrinks-early": Bug(
        "the SyncStateSet shrinks after the acknowledgement", 60, ((members.SyncStateSet, "counted", shrinks_early),)
    ),
    "forgets-the-asked": Bug(
        "the SyncStateSet grows behind a late answer", 200, ((members.SyncStateSet, "counted", forgets_who_was_asked),)
    ),
    "wiped-disk-wins": Bug("an election is won by a wiped disk", 30, ((registration, "register", _keeps_its_place),), first=35),
    "late-clock-leads": Bug(
        "an election is won by a replica whose clock is off", 5, ((grey_moves.GreyMoves, "preferring", _asks_for_no_clock),),
        first=1, step=10,
    ),
    "lost-mark": Bug(
        "a packet identifier is reused, and its mark was not removed", 20,
        ((store_node.StoreNode, "ports_of", _keeps_marks),),
    ),
}  # fmt: skip
