"""State of a replica that leads: its store, its followers, and the handover to one of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, final

from domain.admin.replica import FollowerFound, ReplicaState
from domain.controller.answer import GroupAnswer
from domain.controller.change import AlterSet
from domain.controller.group import StoreGroup
from domain.controller.health import ReplicaFigures
from domain.hovering import HoveringState
from domain.ports import Clock
from domain.repeated_lines import RepeatedLines
from domain.replication.ports import LeaderStore, MendableLog
from gateway.cluster.replica.controllers import GroupControllers
from gateway.cluster.replica.cut_off import CutOff
from gateway.cluster.replica.fenced_store import FencedStore
from gateway.cluster.replica.handover import Handover
from gateway.cluster.replica.health import ReplicaHealth
from gateway.cluster.replica.registering_state import LogFacts
from gateway.cluster.replica.term_owner import TermOwner
from store.replication.leading import Leading
from store.replication.pace import ProcessorTime

log: Final = logging.getLogger("headgate.replica")


@final
class LeadingState:
    """A promoted replica. It is the SetKeeper of its leadership.

    store        its store behind the fence of the leadership, also before it may serve
    serves       True: the store was passed to `elected`, which owns it, or is closed
    _lacking     ids of the replicas out of sync
    _note        StoreGroup.one_disk_note as last logged
    _looking     True: a query of the group is in flight
    _turn        count of the answers of `reader_for`, for round robin
    """

    def __init__(
        self, term: TermOwner, store: LeaderStore, group: StoreGroup, controllers: GroupControllers, clock: Clock,
        busy: Callable[[], ProcessorTime], meter: ReplicaHealth,
    ) -> None:  # fmt: skip
        """`group`: the group at the election of this replica."""
        self._term = term
        self.log = store.replica
        self.serves = False
        self._meter = meter
        self._controllers = controllers
        self._clock = clock
        self.leading = Leading(self.log, group, term.own, self, clock, term.end, busy, meter.fence)
        self.store = store._replace(store=FencedStore(store.store, self.leading.fence))
        self._handover = Handover(self.leading, self.log, controllers, clock)
        self._cut_off = CutOff(self.leading, controllers, clock, self._handover.ask, term.end)
        self._lines = RepeatedLines(log, clock)
        self._heard = group
        self._lacking: set[int] = set()
        self._strength = HoveringState(clock, self._tell_strength)
        self._note = ""
        self._looking = False
        self._turn = 0

    def start(self) -> None:
        """Lead, and watch the room on the disk and the members."""
        log.info(
            "store group %s: this replica leads in epoch %s, from %s on",
            self.leading.group.name,
            self.log.epoch,
            self.log.begin,
        )
        self._say_note(self.leading.group)
        self.leading.start()
        self._handover.watch()
        self._cut_off.watch()

    def leave(self) -> None:
        """End the leadership, and the connections of followers."""
        self._handover.stop()
        self._strength.stop()
        self._cut_off.stop()
        self.leading.close()

    def serve(self, elected: Callable[[LeaderStore], None]) -> None:
        """Pass the store to `elected`, once all members of the SyncStateSet have the log up to the promotion."""

        def ready() -> None:
            if self._term.ended:
                self.release()
            elif not self.serves:
                self.serves = True
                elected(self.store)

        self.log.when_ready(ready)

    def release(self) -> None:
        """Close the store, unless it has another owner."""
        if not self.serves:
            self.serves = True
            self.store.store.close()

    @property
    def parts(self) -> MendableLog:
        """Its log, for reads of parts."""
        return self.log.parts

    def facts(self) -> LogFacts:
        """The properties of its log, for heartbeats."""
        return LogFacts(self.log.incarnation, 0, self.log.epoch, self.log.written)

    def measure(self) -> ReplicaFigures:
        """Its measurements since the last call."""
        return self._meter.take(self.log.work, self.leading.ack_us(), self.leading.paths.take())

    def doing(self, group: str) -> str:
        """The activity of this replica of `group` before it serves, text for people."""
        return f"this replica leads {group} in epoch {self._term.epoch}, and waits until the SyncStateSet has all of its log"

    def heard(self, group: StoreGroup) -> None:
        """Take the state of the group from a controller. A line is logged when replicas leave the set, another when all are in
        it again; those that come and go do not recur."""
        self.leading.group_heard(group)
        self._say_note(group)
        self._heard = group
        if group.lacking and self._strength.is_told and not self._lacking.issuperset(group.lacking):
            self._tell_strength(True, 0)
        self._strength.change(bool(group.lacking))

    def _tell_strength(self, is_below: bool, times: int) -> None:
        group = self._heard
        if is_below:
            self._lacking.update(group.lacking)
            log.warning(
                "store group %s is below its full strength: not in sync are replicas %s; %s are", group.name,
                ", ".join(map(str, group.lacking)), len(group.members),
            )  # fmt: skip
        else:
            self._lacking.clear()
            often = f", for a minute now; it had been below {times} times" if times else ""
            log.info("store group %s is at its full strength: %s replicas are in sync%s", group.name, len(group.members), often)

    def _say_note(self, group: StoreGroup) -> None:
        if group.one_disk_note and group.one_disk_note != self._note:
            log.warning("store group %s: %s", group.name, group.one_disk_note)
        self._note = group.one_disk_note

    def heard_slow(self, slow: frozenset[int]) -> None:
        """The controllers have reported the slow replicas."""
        if self.leading.review.slow != slow:
            log.info("store group %s: replicas that are slow: %s", self.leading.group.name, sorted(slow) or "none")
            self.leading.review.slow = slow

    def hand_over(self, done: Callable[[], None]) -> None:
        """See ReplicaTerm."""
        self._handover.hand_over(done)

    def alter(self, change: AlterSet, done: Callable[[GroupAnswer | None], None]) -> None:
        """See SetKeeper."""
        members = [each.id for each in change.members]
        self._lines.event(logging.INFO, f"store group {change.group}: the SyncStateSet is to be {members}")
        self._controllers.change(change, lambda answer: None if self._term.ended else done(answer))

    def poll(self) -> None:
        """See SetKeeper. At most one query is in flight."""
        if self._looking:
            return
        self._looking = True
        since_ns = self._clock.monotonic_ns()

        def found(group: StoreGroup | None, _known: bool) -> None:
            self._looking = False
            if group is not None:
                self._term.heard(group)
                if (group.leader, group.leader_epoch) == (self._term.own, self.log.epoch):
                    self.leading.fence.confirmed(since_ns)

        self._controllers.ask(found)

    def readers(self) -> Mapping[int, str]:
        """See ReplicaView."""
        followers = self.leading.followers.values()
        return {each.id: each.serves for each in followers if each.serves and each.connection is not None}

    def gates(self, own: str) -> Mapping[int, str]:
        """See ReplicaView. `own`: address of this replica."""
        followers, group = self.leading.followers, self.leading.group
        known = {number: each.gates for number, each in followers.items()} | {self._term.own: own}
        return {each.id: known.get(each.id, "") for each in group.replicas if not each.learner}

    def doors(self, own: str) -> Mapping[int, str]:
        """See ReplicaView. `own`: where this replica serves readers while it follows."""
        known = {number: each.serves for number, each in self.leading.followers.items()} | {self._term.own: own}
        return {each.id: known.get(each.id, "") for each in self.leading.group.replicas}

    def reader_for(self, position: int, behind_bytes: int) -> int:
        """See ReplicaView."""
        leading = self.leading
        held = [
            each.id for each in leading.followers.values()
            if each.serves and each.connection is not None and min(each.written, leading.written) - position > behind_bytes
        ]  # fmt: skip
        self._turn += 1
        return held[self._turn % len(held)] if held else 0

    def state(self) -> ReplicaState:
        """This replica for tools, with its connected followers."""
        leading, group = self.leading, self.leading.group
        found = [
            FollowerFound(
                each.id, each.serves or group.address(each.id), each.written,
                each.member in group.members,
            )
            for _, each in sorted(leading.followers.items())
            if each.connection is not None
        ]  # fmt: skip
        return ReplicaState(
            self._term.own, True, "", self.log.written, leading.written, self.log.eras(), found, group.confirming,
            group.min_in_sync, group.acks,
        )  # fmt: skip

    def figures(self) -> dict[str, float]:
        """Metrics of the log, by name."""
        return {
            "replica_follows": 0, "replica_in_sync": 1, "replica_learner": 0, "replica_has_room": int(self.log.full is None),
            "replica_written_bytes": self.log.written, "replica_synced_bytes": self.log.synced,
        }  # fmt: skip
