"""State of a replica that leads: its store, its followers, and the handover to one of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, final

from domain.admin.replica import FollowerFound, ReplicaState
from domain.controller.answer import GroupAnswer
from domain.controller.change import AlterSet, ElectLeader
from domain.controller.group import StoreGroup
from domain.controller.health import ReplicaFigures
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from domain.replication.ports import LeaderLog, LeaderStore, MendableLog
from gateway.cluster.replica.controllers import GroupControllers
from gateway.cluster.replica.health import ReplicaHealth
from gateway.cluster.replica.registering_state import LogFacts
from gateway.cluster.replica.term_owner import TermOwner
from store.replication.leading import Leading
from store.replication.pace import ProcessorTime
from store.replication.set_review import member_of

log: Final = logging.getLogger("headgate.replica")
POLL_MS: Final = 500
"""Time between two checks of a leader's disk space."""
FULL_MS: Final = 2_000
"""Time without room after which another replica should lead: a full disk often recovers by itself."""
AGAIN_MS: Final = (5_000, 60_000)
"""Pause before the next request for an election: the first one, and the limit; it doubles each time."""


@final
class Handover:
    """Requests the election of another replica, a connected member of the SyncStateSet: its node stops, or has no room.

    asked   elections requested because there was no room
    """

    def __init__(self, leading: Leading, led: LeaderLog, controllers: GroupControllers, clock: Clock) -> None:
        self.asked = 0
        self._leading = leading
        self._led = led
        self._group = leading.group.name
        self._controllers = controllers
        self._clock = clock
        self._full_since_ns = 0
        self._next_ns = 0
        self._pause_ms = AGAIN_MS[0]
        self._notified = False
        self._timer: Timer | None = None

    def watch(self) -> None:
        """Check the disk space of this leader every POLL_MS until `stop`."""
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + POLL_MS * MILLISECOND_NS, self.watch)
        now, full = self._clock.monotonic_ns(), self._led.full
        if full is None:
            self._full_since_ns, self._notified = 0, False
            return
        self._full_since_ns = self._full_since_ns or now
        if now - self._full_since_ns < FULL_MS * MILLISECOND_NS or now < self._next_ns:
            return
        successor = self._successor(True)
        if successor:
            self._next_ns = now + self._pause_ms * MILLISECOND_NS
            self._pause_ms = min(2 * self._pause_ms, AGAIN_MS[1])
            self.asked += 1
            log.warning(
                "store group %s: this leader has no room (%s): replica %s should lead", self._group, full.text, successor
            )
            self._elect(successor, self._answered)
        elif not self._notified:
            self._notified = True
            log.error(
                "store group %s: this leader has no room (%s), and no member of the SyncStateSet has said that it has some: "
                "sends are refused until there is room on one of them", self._group, full.text,
            )  # fmt: skip

    def stop(self) -> None:
        """End `watch`."""
        if self._timer is not None:
            self._timer.cancel()

    def hand_over(self, done: Callable[[], None]) -> None:
        """Request an election, since this node stops. `done`: the request is answered, or there is no candidate."""
        successor = self._successor(True) or self._successor(False)
        if not successor:
            done()
            return
        log.warning("store group %s: this node stops: replica %s should lead", self._group, successor)
        self._elect(successor, lambda _answer: done())

    def _successor(self, with_room: bool) -> int:
        """The id of the connected member of the SyncStateSet that has most of the log; 0: there is none."""
        leading = self._leading
        heirs = [
            (each.written, number)
            for number, each in leading.followers.items()
            if each.connection is not None
            and (each.has_room or not with_room)
            and member_of(each.id, each.incarnation) in leading.group.members
        ]
        return max(heirs)[1] if heirs else 0

    def _elect(self, successor: int, done: Callable[[GroupAnswer | None], None]) -> None:
        change = ElectLeader(self._group, designated=successor, leader_epoch=self._leading.group.leader_epoch)
        self._controllers.change(change, done)

    def _answered(self, answer: GroupAnswer | None) -> None:
        if answer is None or answer.refusal is not None:
            why = "nobody knows whether it was made" if answer is None or answer.refusal is None else answer.refusal.value
            log.warning("store group %s: the election is asked for again later: %s", self._group, why)


@final
class LeadingState:
    """A promoted replica. It is the SetKeeper of its leadership.

    store        its store, also before it may serve
    serves       True: the store was passed to `elected`, which owns it, or is closed
    _lacking     ids of the replicas out of sync
    _looking     True: a query of the group is in flight
    _turn        count of the answers of `reader_for`, for round robin
    """

    def __init__(
        self, term: TermOwner, store: LeaderStore, group: StoreGroup, controllers: GroupControllers, clock: Clock,
        busy: Callable[[], ProcessorTime], meter: ReplicaHealth,
    ) -> None:  # fmt: skip
        """`group`: the group at the election of this replica."""
        self._term = term
        self.store = store
        self.log = store.replica
        self.serves = False
        self._meter = meter
        self._controllers = controllers
        self.leading = Leading(self.log, group, term.own, self, clock, term.end, busy)
        self._handover = Handover(self.leading, self.log, controllers, clock)
        self._lacking: tuple[int, ...] = ()
        self._looking = False
        self._turn = 0

    def start(self) -> None:
        """Lead, and watch the room on the disk."""
        log.warning(
            "store group %s: this replica leads in epoch %s, from %s on",
            self.leading.group.name,
            self.log.epoch,
            self.log.begin,
        )
        self.leading.start()
        self._handover.watch()

    def leave(self) -> None:
        """End the leadership, and the connections of followers."""
        self._handover.stop()
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
        return self._meter.take(self.log.work, self.leading.ack_us(), self.leading.paths())

    def doing(self, group: str) -> str:
        """The activity of this replica of `group` before it serves, text for people."""
        return f"this replica leads {group} in epoch {self._term.epoch}, and waits until the SyncStateSet has all of its log"

    def heard(self, group: StoreGroup) -> None:
        """Take the state of the group from a controller. A line is logged whenever the set of replicas out of sync changes."""
        self.leading.group_heard(group)
        lacking = group.lacking
        if lacking == self._lacking:
            return
        self._lacking = lacking
        if lacking:
            log.warning(
                "store group %s is below its full strength: not in sync are replicas %s; %s are", group.name,
                ", ".join(map(str, lacking)), len(group.members),
            )  # fmt: skip
        else:
            log.warning("store group %s is at its full strength: %s replicas are in sync", group.name, len(group.members))

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
        log.info("store group %s: the SyncStateSet is to be %s", change.group, [each.id for each in change.members])
        self._controllers.change(change, lambda answer: None if self._term.ended else done(answer))

    def poll(self) -> None:
        """See SetKeeper. At most one query is in flight."""
        if self._looking:
            return
        self._looking = True

        def found(group: StoreGroup | None, _known: bool) -> None:
            self._looking = False
            if group is not None:
                self._term.heard(group)

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
                member_of(each.id, each.incarnation) in group.members,
            )
            for _, each in sorted(leading.followers.items())
            if each.connection is not None
        ]  # fmt: skip
        return ReplicaState(self._term.own, True, "", self.log.written, leading.written, self.log.eras(), found)

    def figures(self) -> dict[str, float]:
        """Metrics of the log, by name."""
        return {
            "replica_follows": 0, "replica_in_sync": 1, "replica_learner": 0, "replica_has_room": int(self.log.full is None),
            "replica_written_bytes": self.log.written, "replica_synced_bytes": self.log.synced,
        }  # fmt: skip
