"""Replica of a store group during one term: from the opening of its store until it is deposed or fails.

registered --> follows the leader --> elected: log made durable --> promoted --> leads --> deposed: the term ends
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, final

from domain.admin.replica import ReplicaState
from domain.command import Command
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import AlterSet, ElectLeader
from domain.controller.group import ReplicaReport, StoreGroup
from domain.controller.health import UNMEASURED, ReplicaFigures
from domain.errors import ErrorCode, Failure, StoreError
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Entropy, Timer
from domain.replication.ports import FollowerLog, LeaderLog, LeaderStore, MendableLog
from domain.replication.reads import FollowerReads
from gateway.cluster.replica.controllers import GroupControllers, GroupListener
from gateway.cluster.replica.follower_commands import FollowerCommands
from gateway.cluster.replica.follower_figures import follower_figures
from gateway.cluster.replica.handover import Handover
from gateway.cluster.replica.health import ReplicaHealth
from gateway.cluster.replica.history import refusal_of
from gateway.cluster.replica.in_sync_log import InSyncLog
from gateway.cluster.replica.leader_follow import LeaderFollow
from gateway.cluster.replica.log_repairs import LogRepairs
from gateway.cluster.replica.promotion import Promotion
from gateway.cluster.replica.registration import LogFacts, ReplicaPlace, ReplicaRegistration, incarnation_text
from gateway.cluster.replica.repair_sources import RepairSources
from gateway.cluster.replica.replica_state import ServingFollowers, follower_state, leader_state
from gateway.cluster.replica.settings import SKEW_MS
from gateway.link.request import Sign
from gateway.link.wire import Dialer
from gateway.usecase.handler import Verb
from store.replication.leading import Leading
from store.replication.pace import UNKNOWN, ProcessorTime
from store.replication.repairing import RepairCounts

log: Final = logging.getLogger("headgate.replica")
WATCH_NS: Final = 200 * MILLISECOND_NS
"""Time between two checks of a follower's log for a failed disk."""


@dataclass(frozen=True, slots=True)
class ReaderEvents:
    """Calls to the part that serves readers while a replica follows.

    renewed     called when the log has begun again: `ReplicaTerm.reads` are others
    followed    called with the epoch of each leader that the replica begins to follow
    promoting   called when the replica is about to lead: what it reads from now on is refused
    """

    renewed: Callable[[], None]
    followed: Callable[[int], None]
    promoting: Callable[[], None]


@final
class ReplicaTerm:
    """One term of a replica.

    leading         its leadership; None while it follows
    why             reason why it is not registered yet, or why the term ended; "": neither
    ended           True: the term has ended, or is closed
    needs_a_person  True: it has ended, and a further term would end in the same way
    promoted        its store from the promotion on, also before it may serve; None while it follows
    meter           measurements of this replica, for its heartbeats
    _unserved       store of a leader that was not passed to `elected` yet
    """

    def __init__(
        self, follower: FollowerLog, place: ReplicaPlace, controllers: GroupControllers, dialer: Dialer, sign: Sign | None,
        clock: Clock, entropy: Entropy, elected: Callable[[LeaderStore], None], over: Callable[[str], None],
        standby: Callable[[str], None], readers: ReaderEvents | None = None, repairs: RepairCounts | None = None,
        skew_ms: int = SKEW_MS, busy: Callable[[], ProcessorTime] = lambda: UNKNOWN,
    ) -> None:  # fmt: skip
        """`elected(store)` is called when the store of a leader may serve; `over(reason)` once, when the term has ended.
        `standby(text)` is called with a text for people when the state of a replica that does not serve changes. `readers`:
        None: it serves no readers while it follows. `repairs`: counters of repaired parts; `skew_ms`: permitted difference
        between the clocks of replicas; `busy`: as in store.replication.pace."""
        self.leading: Leading | None = None
        self.promoted: LeaderStore | None = None
        self.meter = ReplicaHealth(clock, skew_ms)
        self.why = "no controller answers"
        self.ended = False
        self.needs_a_person = False
        self._standby = standby
        self._readers = readers
        self._said = ""
        self._unserved: LeaderStore | None = None
        self._watching: Timer | None = None
        self._follower = follower
        self._leader_log: LeaderLog | None = None
        self._place = place
        self._controllers = controllers
        self._clock = clock
        self._busy = busy
        self._entropy = entropy
        self._elected = elected
        self._over = over
        self._own = 0
        self._serving = ServingFollowers()
        self._epoch = 0
        self._followed = LeaderFollow(place, dialer, sign, clock, entropy, self.meter.broke)
        self._promoting: StoreGroup | None = None
        self._promotion = Promotion(clock)
        self._asking = False
        self._is_beginning = False
        self._runs = (place.identity.run, *place.identity.runs_before)
        self._looking = False
        self._closed = False
        self._group: StoreGroup | None = None
        self._strength = InSyncLog()
        self._succession = Handover(place.group, controllers, clock)
        self._repairs = repairs or RepairCounts()
        self._commands = FollowerCommands(self, place.group, self._repairs, self.meter.broke)
        sources = RepairSources(dialer, clock, entropy, sign)
        self._log_repairs = LogRepairs(place.group, lambda: (self._group, self._own), sources, clock, self._repairs)
        self._enrolment = ReplicaRegistration(place, self._facts, controllers, clock, self._enrolled)

    def start(self) -> None:
        """Register, then follow or lead as the controllers decide."""
        self._controllers.attach(GroupListener(self._heard, self._told_slow, self._measure))
        self.meter.start()
        self._enrolment.start()
        self._log_repairs.begin(self._follower.parts)
        self._watch()

    def hand_over(self, done: Callable[[], None]) -> None:
        """Request the election of the follower in sync that has most of the log. `done`: the request is answered, or there is
        nothing to hand over."""
        self._succession.hand_over(None if self._closed else self.leading, done)

    def close(self) -> None:
        """End the term without a call of `over`. The log of a follower is closed, and a store not yet passed to `elected`."""
        if self._closed:
            return
        self._closed = True
        self._leave()
        if self._unserved is not None:
            self._unserved.store.close()
            self._unserved = None
        elif self._leader_log is None:
            self._follower.close()

    def _leave(self) -> None:
        """Stop all work. The controllers detect the end of the connection, and elect another leader without a wait."""
        self.ended = True
        self.meter.stop()
        self._enrolment.end()
        self._controllers.close()
        self._log_repairs.close()
        self._promotion.end()
        self._succession.stop()
        self._followed.end()
        if self.leading is not None:
            self.leading.close()
        if self._watching is not None:
            self._watching.cancel()

    def _end(self, reason: str, needs_a_person: bool = False) -> None:
        """End the term for `reason`, text for people."""
        if not self.ended:
            self.why = reason
            self.needs_a_person = needs_a_person
            log.warning("store group %s: %s", self._place.group, reason)
            self._leave()
            if self._leader_log is not None:
                self._leader_log.depose(Failure(ErrorCode.STORE_UNAVAILABLE, f"this node does not lead any more: {reason}"))
            self._over(reason)

    def _watch(self) -> None:
        """Report the activity of this replica until it serves, and end the term of a follower whose disk has failed.

        The next term opens the log again: it keeps verified data, or fails with a report.
        """
        served = self._leader_log is not None and self._unserved is None
        if self.ended or served:
            return
        if self._leader_log is None and self._follower.broken is not None:
            self._end(self._follower.broken.text)
            return
        if (text := self._doing()) != self._said:
            self._said = text
            self._standby(text)
        self._watching = self._clock.call_at(self._clock.monotonic_ns() + WATCH_NS, self._watch)

    def _doing(self) -> str:
        """The activity of a replica that does not serve, text for people."""
        group = f"store group {self._place.group}"
        if self._leader_log is not None:
            return f"this replica leads {group} in epoch {self._epoch}, and waits until the SyncStateSet has all of its log"
        if self._enrolment.why:
            return f"this replica of {group} is not registered at the controllers: {self._enrolment.why}"
        if self._controllers.refuses:
            return f"this replica of {group} waits for an operator: {self._controllers.refuses}"
        if self._promoting is not None:
            return f"this replica was elected to lead {group}, and makes its log durable"
        followed = self._followed
        if not followed.any:
            return f"{group} has no leader: this replica waits for an election"
        what = "follows" if followed.takes else "tries to follow"
        leader = f"replica {followed.replica} at {followed.address}"
        why = f": {followed.refuses}" if followed.refuses else ""
        return f"this replica {what} {leader}, which leads {group} in epoch {self._epoch}{why}"

    @property
    def own(self) -> int:
        """The id of this replica; 0: it has none yet."""
        return self._own

    @property
    def reads(self) -> FollowerReads:
        """Reads of this replica while it follows; replaced when `renewed` is called."""
        return self._follower.reads

    def readers(self) -> Mapping[int, str]:
        """See ReplicaView."""
        return self._serving.all(self.leading)

    def reader_for(self, position: int, behind_bytes: int) -> int:
        """See ReplicaView."""
        return self._serving.one(self.leading, position, behind_bytes)

    def state(self) -> ReplicaState:
        """See ReplicaView."""
        leading, led = self.leading, self._leader_log
        if leading is None or led is None:
            return follower_state(self._own, self._followed.address, self._follower)
        return leader_state(self._own, leading, led)

    def figures(self) -> dict[str, float]:
        """Metrics of the log, by name."""
        led = self._leader_log
        if led is None:
            now = self._clock.monotonic_ns()
            return follower_figures(self._follower, self._followed.following, self._group, self._own, now)
        return {
            "replica_follows": 0, "replica_in_sync": 1, "replica_learner": 0, "replica_has_room": int(led.full is None),
            "replica_written_bytes": led.written, "replica_synced_bytes": led.synced,
        }  # fmt: skip

    # Controllers

    def _facts(self) -> LogFacts:
        follower = self._follower
        eras = follower.eras()
        return LogFacts(follower.incarnation, follower.continues, eras[-1].epoch if eras else 0, follower.written)

    def _report(self) -> ReplicaReport:
        led = self._leader_log
        if led is not None:
            return ReplicaReport(self._own, incarnation_text(led.incarnation), led.epoch, led.written)
        facts = self._facts()
        return ReplicaReport(self._own, incarnation_text(facts.incarnation), facts.epoch, facts.position)

    def _measure(self) -> ReplicaFigures:
        leading, led = self.leading, self._leader_log
        work = self._follower.work if led is None else led.work
        if leading is None:
            return self.meter.take(work, UNMEASURED)
        return self.meter.take(work, leading.ack_us(), leading.paths())

    def _told_slow(self, slow: frozenset[int]) -> None:
        """The controllers have reported the slow replicas."""
        if self.leading is not None and self.leading.slow != slow:
            log.info("store group %s: replicas that are slow: %s", self._place.group, sorted(slow) or "none")
            self.leading.slow = slow

    def _enrolled(self, own: int, group: StoreGroup) -> None:
        log.info("store group %s: this is replica %s, with %s bytes of log", group.name, own, self._follower.written)
        try:
            self._follower.registered()
        except OSError as error:
            self._end(f"the data directory cannot be written: {error}")
            return
        first = self._own == 0
        self._own = own
        self._epoch = group.leader_epoch
        self.why = ""
        if first:
            self._controllers.begin(self._place.address, self._report)
        self._heard(group)

    def _heard(self, group: StoreGroup) -> None:
        """A controller has reported the state of the group: follow, lead, register or request an election."""
        self._group = group
        if self.ended or not self._own or self._enrolment.why or self._promoting is not None or self._is_beginning:
            return
        registered = group.replica(self._own)
        if registered is not None and registered.run not in ("", *self._runs):
            self._end(f"{GroupRefusal.COPIED.value} (the other one is at {registered.address})")
            return
        if self.leading is not None:
            self.leading.group_heard(group)
            self._strength.heard(group)
            return
        self._look_at_history(group)
        if registered is None or registered.incarnation != incarnation_text(self._follower.incarnation):
            self._enrolment.why = "the controllers do not know this log"
            self._followed.end()
            self._enrolment.start()
        elif group.leader == self._own:
            if group.leader_epoch > self._epoch and registered.member in group.members:
                self._promote(group)
        elif self._controllers.refuses:
            self._followed.end()
        elif group.leader and group.leader_epoch >= self._epoch:
            self._follow(group)
        elif not group.members and not self._place.learner:
            self._ask_election(group)

    def _look_at_history(self, group: StoreGroup) -> None:
        """Set and log the reason why this replica waits for an operator, if it does."""
        why = refusal_of(group, self._own, self._follower, self._place.learner) if group.leader_epoch >= self._epoch else ""
        if why and why != self._controllers.refuses:
            log.warning("store group %s: %s", group.name, why)
        self._controllers.refuses = why

    def _ask_election(self, group: StoreGroup) -> None:
        """Request the first election of a group, unless another replica is known to have a longer log."""
        longest = max((each.position for each in group.replicas if not each.learner and each.id != self._own), default=-1)
        if self._asking or longest > self._follower.written:
            return
        self._asking = True

        def answered(answer: GroupAnswer | None) -> None:
            self._asking = False
            if answer is not None and answer.group is not None:
                self._heard(answer.group)

        self._controllers.change(ElectLeader(self._place.group, asker=self._own), answered)

    # Following

    def _follow(self, group: StoreGroup) -> None:
        if self._followed.follow(self._follower, self._own, group, self._anew):
            self._epoch = group.leader_epoch
            if self._readers is not None:
                self._readers.followed(self._epoch)

    def _anew(self, first: int, behind: bool) -> None:
        """Restart the log at `first`, since the leader cannot continue it. `behind` as in Following."""
        follower = self._follower
        self._followed.end()
        self._log_repairs.rest()
        if follower.foreign and follower.written > follower.first:
            self._end(
                f"the data directory has {follower.written - follower.first:,} bytes of a log that was never replicated, and "
                "the store group has another log. Give this replica an empty directory (--data) if it may take the group's log",
                needs_a_person=True,
            )
            return
        log.warning(
            "store group %s: this log, which ends at %s, cannot be continued by its leader: it begins anew at %s",
            self._place.group, follower.written, first,
        )  # fmt: skip
        self._is_beginning = True
        self.meter.other_log()
        follower.restart_log(first, int.from_bytes(self._entropy.token(8), "big") >> 1 | 1, behind, self._begun_anew)

    def _begun_anew(self, error: Exception | None) -> None:
        self._is_beginning = False
        if self.ended:
            return
        if error is not None:
            self._end(f"a new log cannot be begun: {error}")
            return
        self._log_repairs.begin(self._follower.parts)
        if self._readers is not None:
            self._readers.renewed()
        self._enrolment.why = "a new log is registered"
        self._enrolment.start()

    # Leading

    def _promote(self, group: StoreGroup) -> None:
        if not self._followed.settled:
            return
        self._followed.end()
        self._promoting = group
        if self._readers is not None:
            self._readers.promoting()
        self._promotion.prepare(self._follower, lambda: self._promoted(group), self._end)

    def _promoted(self, group: StoreGroup) -> None:
        if self.ended:
            return
        self._log_repairs.rest()
        try:
            promoted = self._follower.promote(group.leader_epoch)
        except (OSError, StoreError) as error:
            self._end(f"this replica was elected and cannot lead: {error}")
            return
        self.promoted = self._unserved = promoted
        self._leader_log = led = promoted.replica
        self.meter.other_log()
        self._epoch = group.leader_epoch
        self._promoting = None
        leading = self.leading = Leading(led, group, self._own, self, self._clock, self._end, self._busy)
        log.warning("store group %s: this replica leads in epoch %s, from %s on", group.name, led.epoch, led.begin)
        leading.start()
        self._succession.watch(leading, led)
        self._log_repairs.begin(led.parts)
        led.when_ready(self._served)

    def _served(self) -> None:
        """Pass the store to `elected`, which owns it from then on: all members of the SyncStateSet have the log up to the
        promotion."""
        store, self._unserved = self._unserved, None
        if store is not None and self.ended:
            store.store.close()
        elif store is not None:
            self._elected(store)

    def alter(self, change: AlterSet, done: Callable[[GroupAnswer | None], None]) -> None:
        """See SetKeeper."""
        log.info("store group %s: the SyncStateSet is to be %s", change.group, [each.id for each in change.members])
        self._controllers.change(change, lambda answer: None if self.ended else done(answer))

    def poll(self) -> None:
        """See SetKeeper. At most one query is in flight."""
        if self._looking:
            return
        self._looking = True

        def found(group: StoreGroup | None, _known: bool) -> None:
            self._looking = False
            if group is not None:
                self._heard(group)

        self._controllers.ask(found)

    # Commands of other replicas

    @property
    def epoch(self) -> int:
        """See AskedReplica."""
        return self._epoch

    @property
    def parts(self) -> MendableLog | None:
        """See AskedReplica."""
        return None if self._closed else (self._leader_log or self._follower).parts

    def verbs(self) -> Mapping[type[Command], Verb]:
        """Verbs of FollowerCommands."""
        return self._commands.verbs()
