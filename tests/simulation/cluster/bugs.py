"""Known bugs of clusters, which the simulation has to find when they are put back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from controller.groups import election, heartbeats, registration, replica_reports
from controller.member import grey_moves, log_writer
from domain.controller.group import StoreGroup
from domain.store.store_ports import StateChange
from gateway.cluster.forwarding import store_addresses, store_connection
from gateway.cluster.replica import cut_off
from gateway.usecase.follower import presence
from gateway.usecase.sessions.snapshot import PARTS
from store.deletion import rewriting
from store.lease import confirmed_floors
from store.log import confirmation
from store.replication import fence, leading, progress, set_review
from tests.gateway.cluster.replica.bugs import applies_at_once, counts_the_connected, forgets_the_asked, shrinks_early
from tests.simulation.cluster import breaks, partings, readers, store_node
from tests.simulation.cluster.scene import run
from tests.simulation.kit.bugs import Bugs, Patch

BUGS: Final = Bugs()
BUGS.found_by(run, 20)(counts_the_connected)
BUGS.found_by(run, 40)(applies_at_once)
BUGS.found_by(run, 60)(shrinks_early)
BUGS.found_by(run, 200)(forgets_the_asked)


@BUGS.found_by(readers.run, 8)
def reads_without_fence(patch: Patch) -> None:
    """A leader answers reads whether it still leads or not."""
    patch.setattr(fence.ReadFence, "passes", lambda self: True)


@BUGS.found_by(readers.run_moved, 3)
def reads_at_once(patch: Patch) -> None:
    """A new leader answers reads at once, while the fence of the leader before may be open."""
    patch.setattr(fence, "HOLD_NS", 0)


@BUGS.found_by(readers.run, 16)
def reads_unconfirmed_positions(patch: Patch) -> None:
    """A position is readable before it is confirmed."""
    patch.setattr(confirmed_floors.ConfirmedFloors, "floor", lambda self, place: self._tables.floor(place))


@BUGS.found_by(run, 40)
def parts_by_length(patch: Patch) -> None:
    """Two messages at one offset after a double kill: logs of equal length count as equal."""
    patch.setattr(leading, "common_end", lambda eras, end, others, other_end: min(end, other_end))


@BUGS.found_by(run, 20)
def serves_the_unflushed(patch: Patch) -> None:
    """Data that is not flushed is served to a consumer."""
    confirm = confirmation.Confirmation.confirm
    patch.setattr(confirmation.Confirmation, "confirm", lambda self, written, synced: confirm(self, written, written))


@BUGS.found_by(run, 20)
def counts_words(patch: Patch) -> None:
    """A response that is repeated raises the count."""
    own = leading.Leading.held

    def held(self: Any, connection: Any, command: Any) -> None:
        self.__dict__.setdefault("words", []).append((command.written, command.synced))
        own(self, connection, command)

    def confirm(self: Any) -> None:
        others = len({self._own, *(each for one in self._set.counted() for each in one.members)}) - 1
        words = [*self.__dict__.get("words", ()), *[(0, 0)] * others]
        written = sorted((each for each, _ in words), reverse=True)[others - 1] if others else self._log.written
        synced = sorted((each for _, each in words), reverse=True)[others - 1] if others else self._log.synced
        self.written = max(self.written, min(self._log.written, written))
        self.synced = max(self.synced, min(self._log.synced, synced))
        self._log.confirm(self.written, self.synced)

    patch.setattr(leading.Leading, "held", held)
    patch.setattr(leading.Leading, "_confirm", confirm)


@BUGS.found_by(run, 30, first=35)
def wiped_disk_wins(patch: Patch) -> None:
    """An election is won by a wiped disk."""
    own: Any = registration.register

    def register(group: Any, change: Any) -> Any:
        before = group.replica(change.id)
        ruling = own(group, change)
        now = None if ruling.group is None else ruling.group.replica(change.id)
        if before is None or now is None or before.member not in group.members:
            return ruling
        found = tuple(now.member if each == before.member else each for each in ruling.group.members)
        return ruling._replace(group=replace(ruling.group, members=found))

    patch.setattr(registration, "register", register)


@BUGS.found_by(run, 5, first=1, step=10)
def late_clock_leads(patch: Patch) -> None:
    """An election is won by a replica whose clock is off."""
    patch.setattr(grey_moves.GreyMoves, "preferring", lambda self, election: election)


@BUGS.found_by(run, 20, first=1_000)
def stays_out(patch: Patch) -> None:
    """A controller whose disk was full takes part in nothing until it is started again."""
    patch.setattr(log_writer, "is_full", lambda error: False)


@BUGS.found_by(run, 10, first=8, step=10)
def election_does_not_wait(patch: Patch) -> None:
    """Any member that is alive is elected, though not all of them hold what is confirmed."""
    patch.setattr(StoreGroup, "electing", 1)


@BUGS.found_by(run, 10, first=8, step=10)
def old_reports_elect(patch: Patch) -> None:
    """An election believes what members have said before the leader was deposed."""
    own = election._fenced

    def fenced(group: Any, change: Any) -> Any:
        return own(group, replace(change, leader_epoch=group.leader_epoch, fenced=tuple(each.id for each in change.live)))

    patch.setattr(election, "_fenced", fenced)


@BUGS.found_by(run, 10, first=23, step=4)
def knows_the_settings_alone(patch: Patch) -> None:
    """A gateway looks for its store at the addresses of its settings alone, and follows no follower's word."""
    patch.setattr(store_addresses.StoreAddresses, "take", lambda self, replicas: False)
    followers_are_silent(patch)


@BUGS.found_by(run, 40, first=10_200)
def followers_are_silent(patch: Patch) -> None:
    """A follower tells no gateway who leads: no gateway finds a leader that was added while none was connected."""
    patch.setattr(presence.Presence, "_greet", lambda self, connection, command: connection.driver.close())


@BUGS.found_by(run, 20)
def lost_mark(patch: Patch) -> None:
    """A packet identifier is used again, and its mark was not removed."""
    ports_of = store_node.StoreNode.ports_of
    patch.setattr(store_node.StoreNode, "ports_of", lambda self, store: _MarkedStore(ports_of(self, store)))


@BUGS.found_by(partings.run, 4)
def leads_on_alone(patch: Patch) -> None:
    """A leader that hears nobody, or nobody who could confirm, leads on and keeps its clients."""
    patch.setattr(cut_off.CutOff, "watch", lambda self: None)


@BUGS.found_by(partings.run_jolted, 4)
def forgives_all(patch: Patch) -> None:
    """Each pause of a leader gives its followers their whole time again."""

    def forgive(self: Any, _late_ns: int, now_ns: int) -> None:
        self.moved_ns, self.heard_ns, self.lost_ns = (
            max(each, now_ns) for each in (self.moved_ns, self.heard_ns, self.lost_ns)
        )

    patch.setattr(progress.ReplicaProgress, "forgive", forgive)


@BUGS.found_by(partings.run_moved, 4)
def leaves_nobody_to_move_to(patch: Patch) -> None:
    """The same as `shrinks_below_the_least`, met by an operator: no other replica is in the set, and no controller minds."""
    patch.setattr(set_review, "least_of", lambda group: 1)
    patch.setattr(replica_reports, "_is_too_small", lambda change, group, live: False)


@BUGS.found_by(partings.run, 4)
def shrinks_below_the_least(patch: Patch) -> None:
    """A SyncStateSet shrinks below `min_in_sync`: nobody else may lead."""
    patch.setattr(set_review, "least_of", lambda group: 1)


@BUGS.found_by(partings.run_before, 4)
def stays_at_the_replaced(patch: Patch) -> None:
    """A gateway stays at a leader that has been replaced, as long as that one gives signs of life."""
    patch.setattr(store_connection.StoreConnection, "_look_elsewhere", lambda self, why: None)


@BUGS.found_by(breaks.run_leader, 3)
def a_broken_connection_is_death(patch: Patch) -> None:
    """A leader is replaced because its connection to a controller has ended."""
    patch.setattr(heartbeats.Heartbeats, "may_return", lambda self, group, now_ms: False)


@BUGS.found_by(run, 20)
def deletes_timers(patch: Patch) -> None:
    """Retention deletes a part of the log, and the timers in it are not written again."""
    patch.setattr(rewriting.SegmentRewriting, "_copy", lambda self, pending, at: self._copy_halves())


@BUGS.found_by(partings.run_last, 3)
def drops_the_dead(patch: Patch) -> None:
    """An election leaves out the dead where fewer than `min_in_sync` are alive: only the last of them may lead."""
    led: Any = election._led
    patch.setattr(election, "_led", lambda group, winner, voters, keeps_dead: led(group, winner, voters, False))


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
