"""A replica of a store group, in one life of its store: it registers, follows who leads, and leads when it is elected.

enrolled --> follows the leader --> elected: all of it durable --> promoted --> leads --> deposed: this life ends
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, final

from domain.address import endpoint_of
from domain.admin.replica import FollowerFound, ReplicaState
from domain.command import Command
from domain.controller.answer import GroupAnswer
from domain.controller.change import AlterSet, ElectLeader
from domain.controller.group import ReplicaReport, StoreGroup
from domain.controller.health import UNMEASURED, ReplicaFigures
from domain.errors import ErrorCode, Failure, StoreError
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Entropy, Timer
from domain.replication.ports import DamagedPart, FollowerLog, LeaderLog, LeaderStore, MendableLog
from domain.replication.reads import FollowerReads
from gateway.replicas.controllers import GroupControllers
from gateway.replicas.enrolment import Enrolment, LogFacts, ReplicaPlace, incarnation_text
from gateway.replicas.follower_commands import FollowerCommands
from gateway.replicas.leader_link import LeaderLink
from gateway.replicas.meter import ReplicaMeter
from gateway.replicas.part_sources import PartSources
from gateway.replicas.settings import SKEW_MS
from gateway.replicas.strength import GroupStrength
from gateway.rocketmq.broker_request import Sign
from gateway.rocketmq.dialer import Dialer
from gateway.usecase.handler import Verb
from store.replication.following import Following
from store.replication.leading import Leading, member_of
from store.replication.pace import UNKNOWN
from store.replication.repairing import RepairCounts, Repairing

log: Final = logging.getLogger("headgate.replica")
WATCH_NS: Final = 200 * MILLISECOND_NS
"""Time between two looks at the log of a follower: whether its disk has failed."""
APPLY_AT_ONCE_BYTES: Final = 256 * 1024
"""Bytes of the log that a promotion applies in one turn of the loop; what is more is applied in short turns before it."""
APPLYING_NS: Final = 4 * MILLISECOND_NS
STANDS_MAX: Final = 50
"""Looks in which applying has not gone on, after which the promotion says why."""


@final
class ReplicaLife:
    """One life of a replica.

    leading         its leadership; None while it follows
    why             why it is in no store group yet, or what ended this life; "": neither
    ended           True: this life is over, or closed
    needs_a_person  True: it is over, and another one would end in the same way
    standby         called with what this replica does instead of serving, for people, whenever that changes
    promoted        its store from the promotion on, before it may serve too; None while it follows
    meter           what it measures of itself
    renewed         called when the log has begun anew: `reads` are others
    promoting       called when this replica is about to lead: what it reads from now on is refused
    _unserved       the store of a leader that has not been handed over yet
    """

    def __init__(
        self, follower: FollowerLog, place: ReplicaPlace, controllers: GroupControllers, dialer: Dialer, sign: Sign | None,
        clock: Clock, entropy: Entropy, elected: Callable[[LeaderStore], None], over: Callable[[str], None],
        repairs: RepairCounts | None = None, skew_ms: int = SKEW_MS, busy_ns: Callable[[], int] = lambda: UNKNOWN,
    ) -> None:  # fmt: skip
        """`elected(store)` is called when the store of a leader may serve; `over(reason)` once, when this life has ended.
        `repairs`: counts what is repaired; `skew_ms`: how far apart the clocks of replicas may be; `busy_ns`: as in
        store.replication.pace."""
        self.leading: Leading | None = None
        self.promoted: LeaderStore | None = None
        self.meter = ReplicaMeter(clock, skew_ms)
        self.renewed: Callable[[], None] = _nobody
        self.promoting: Callable[[], None] = _nobody
        self.why = "no controller answers"
        self.ended = False
        self.needs_a_person = False
        self.standby: Callable[[str], None] = _unheard
        self._said = ""
        self._unserved: LeaderStore | None = None
        self._watching: Timer | None = None
        self._follower = follower
        self._leader_log: LeaderLog | None = None
        self._place = place
        self._controllers = controllers
        self._dialer = dialer
        self._sign = sign
        self._clock = clock
        self._busy_ns = busy_ns
        self._entropy = entropy
        self._elected = elected
        self._over = over
        self._own = 0
        self._turn = 0
        self._epoch = 0
        self._leader = 0
        self._leader_at = ""
        self._link: LeaderLink | None = None
        self._following: Following | None = None
        self._promoting: StoreGroup | None = None
        self._asking = False
        self._looking = False
        self._closed = False
        self._group: StoreGroup | None = None
        self._strength = GroupStrength()
        self._repairs = repairs or RepairCounts()
        self._commands = FollowerCommands(self, place.group, self._repairs, self.meter.broke)
        self._sources = PartSources(dialer, clock, entropy, sign)
        self._repairing = self._repair(follower.parts)
        self._enrolment = Enrolment(place, self._facts, controllers, clock, self._enrolled)

    def start(self) -> None:
        """Register, and do what the controllers decide."""
        self._controllers.heard = self._heard
        self._controllers.slow = self._told_slow
        self._controllers.measure = self._measure
        self.meter.start()
        self._enrolment.start()
        self._repairing.start()
        self._watch()

    def hand_over(self, done: Callable[[], None]) -> None:
        """Ask for the election of the follower in sync that has most of the log, if there is one. `done`: it is answered, or
        there is nothing to hand over."""
        leading = self.leading
        found = () if leading is None or self._closed else leading.followers.items()
        heirs = [
            (each.written, number) for number, each in found
            if leading is not None and each.connection is not None
            and member_of(each.id, each.incarnation) in leading.group.members
        ]  # fmt: skip
        if not heirs:
            done()
            return
        heir = max(heirs)[1]
        log.warning("store group %s: this node stops: replica %s should lead", self._place.group, heir)
        change = ElectLeader(self._place.group, designated=heir, leader_epoch=self._epoch)
        self._controllers.change(change, lambda _answer: done())

    def close(self) -> None:
        """Follow and lead no more. The log of a follower is closed, and the store of a leader that nobody was given."""
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
        """Take part no more. Controllers notice the end of the connection, and elect somebody else without waiting."""
        self.ended = True
        self.meter.stop()
        self._enrolment.end()
        self._controllers.close()
        self._repairing.close()
        self._sources.close()
        self._unfollow()
        if self.leading is not None:
            self.leading.close()
        if self._watching is not None:
            self._watching.cancel()

    def _end(self, reason: str, needs_a_person: bool = False) -> None:
        """This life of the replica is over."""
        if not self.ended:
            self.why = reason
            self.needs_a_person = needs_a_person
            log.warning("store group %s: %s", self._place.group, reason)
            self._leave()
            if self._leader_log is not None:
                self._leader_log.depose(Failure(ErrorCode.STORE_UNAVAILABLE, f"this node does not lead any more: {reason}"))
            self._over(reason)

    def _watch(self) -> None:
        """Until this replica serves: say what it does, and end the life of a follower whose disk has failed.

        The next life keeps what can be proven, or fails in plain sight.
        """
        served = self._leader_log is not None and self._unserved is None
        if self.ended or served:
            return
        if self._leader_log is None and self._follower.broken is not None:
            self._end(self._follower.broken.text)
            return
        if (text := self._doing()) != self._said:
            self._said = text
            self.standby(text)
        self._watching = self._clock.call_at(self._clock.monotonic_ns() + WATCH_NS, self._watch)

    def _doing(self) -> str:
        """What this replica does instead of serving."""
        group = f"store group {self._place.group}"
        if self._leader_log is not None:
            return f"this replica leads {group} in epoch {self._epoch}, and waits until the SyncStateSet has all of its log"
        if self._enrolment.why:
            return f"this replica of {group} is not registered at the controllers: {self._enrolment.why}"
        if self._promoting is not None:
            return f"this replica was elected to lead {group}, and makes its log durable"
        if self._following is None:
            return f"{group} has no leader: this replica waits for an election"
        what = "follows" if self._following.follows else "tries to follow"
        return f"this replica {what} replica {self._leader} at {self._leader_at}, which leads {group} in epoch {self._epoch}"

    @property
    def own(self) -> int:
        """Id of this replica; 0: it has none yet."""
        return self._own

    @property
    def reads(self) -> FollowerReads:
        """What can be read of this replica until `renewed` is called, and while it follows."""
        return self._follower.reads

    def readers(self) -> Mapping[int, str]:
        """ReplicaView.readers."""
        followers = {} if self.leading is None else self.leading.followers
        return {each.id: each.serves for each in followers.values() if each.serves and each.connection is not None}

    def reader_for(self, position: int, behind_bytes: int) -> int:
        """ReplicaView.reader_for."""
        leading = self.leading
        if leading is None:
            return 0
        held = [
            each.id for each in leading.followers.values()
            if each.serves and each.connection is not None and min(each.written, leading.written) - position > behind_bytes
        ]  # fmt: skip
        self._turn += 1
        return held[self._turn % len(held)] if held else 0

    def state(self) -> ReplicaState:
        """ReplicaView.state."""
        leading, led = self.leading, self._leader_log
        if leading is None or led is None:
            follower = self._follower
            return ReplicaState(
                self._own, False, self._leader_at, follower.written, follower.applied, follower.eras()
            )  # fmt: skip
        group = leading.group
        found = [
            FollowerFound(
                each.id,
                each.serves or group.address(each.id),
                each.written,
                member_of(each.id, each.incarnation) in group.members,
            )
            for _, each in sorted(leading.followers.items())
            if each.connection is not None
        ]
        return ReplicaState(self._own, True, "", led.written, leading.written, led.eras(), found)

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
        return self.meter.take(work, UNMEASURED if leading is None else leading.ack_us())

    def _told_slow(self, slow: frozenset[int]) -> None:
        """The controllers have said who is slow."""
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
        """A controller has told how the group is."""
        self._group = group
        if self.ended or not self._own or self._enrolment.why or self._promoting is not None:
            return
        if self.leading is not None:
            self.leading.group_heard(group)
            self._strength.heard(group)
            return
        own = group.replica(self._own)
        if own is None or own.incarnation != incarnation_text(self._follower.incarnation):
            self._enrolment.why = "the controllers do not know this log"
            self._unfollow()
            self._enrolment.start()
        elif group.leader == self._own:
            if group.leader_epoch > self._epoch and own.member in group.members:
                self._promote(group)
        elif group.leader and group.leader_epoch >= self._epoch:
            self._follow(group)
        elif not group.members and not self._place.learner:
            self._ask_election(group)

    def _ask_election(self, group: StoreGroup) -> None:
        """The first election of a group is asked for by a replica: by that with the longest log, as far as is known."""
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
        address = endpoint_of(group.address(group.leader))
        if address is None or (self._link is not None and group.leader_epoch == self._epoch):
            return
        if self._following is not None and not self._following.settled:
            return  # a cut ends first; the controllers say it again
        self._unfollow()
        self._epoch = group.leader_epoch
        self._leader, self._leader_at = group.leader, group.address(group.leader)
        following = self._following = Following(
            self._follower, self._own, self._place.group, self._epoch, self._clock, self._anew, self._place.serves
        )
        self._link = LeaderLink(
            address[0], address[1], self._dialer, self._clock, self._entropy, self._sign, following, self.meter.broke
        )  # fmt: skip
        log.info("store group %s: replica %s leads in epoch %s", group.name, group.leader, group.leader_epoch)
        self._link.start()

    def _unfollow(self) -> None:
        if self._following is not None:
            self._following.close()
        if self._link is not None:
            self._link.end()
        self._following = self._link = None

    def _anew(self, first: int) -> None:
        """The leader has nothing that this log could be continued with."""
        follower = self._follower
        self._unfollow()
        self._repairing.close()
        if follower.foreign and follower.written > follower.first:
            self._end(
                f"the data directory has {follower.written - follower.first:,} bytes of a log that was never replicated, and "
                "the store group has another log. Move the directory away if this replica may take the group's log",
                needs_a_person=True,
            )
            return
        log.warning(
            "store group %s: this log, which ends at %s, cannot be continued by its leader: it begins anew at %s",
            self._place.group, follower.written, first,
        )  # fmt: skip
        try:
            self.meter.other_log()
            follower.begin_anew(first, int.from_bytes(self._entropy.token(8), "big") >> 1 | 1)
        except (OSError, StoreError) as error:
            self._end(f"a new log cannot be begun: {error}")
            return
        self._repairing = self._repair(follower.parts)
        self._repairing.start()
        self.renewed()
        self._enrolment.why = "a new log is registered"
        self._enrolment.start()

    # Leading

    def _promote(self, group: StoreGroup) -> None:
        if self._following is not None and not self._following.settled:
            return
        self._unfollow()
        self._promoting = group
        self.promoting()
        self._catch_up(group, -1, 0)

    def _catch_up(self, group: StoreGroup, before: int, stands: int) -> None:
        """Apply the log, which nobody can cut any more, until little is left; then make it durable. The loop has other work."""
        follower = self._follower
        if self.ended:
            return
        left = follower.behind - follower.applied
        stands = stands + 1 if left == before else 0
        if left > APPLY_AT_ONCE_BYTES and stands < STANDS_MAX:
            follower.confirm(follower.written)
            self._clock.call_at(
                self._clock.monotonic_ns() + APPLYING_NS, lambda: self._catch_up(group, left, stands)
            )  # fmt: skip
            return
        follower.sync(lambda: self._promoted(group))
        if follower.broken is not None:
            self._end(follower.broken.text)

    def _promoted(self, group: StoreGroup) -> None:
        if self.ended:
            return
        self._repairing.close()
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
        leading = self.leading = Leading(led, group, self._own, self, self._clock, self._end, self._busy_ns)
        log.warning("store group %s: this replica leads in epoch %s, from %s on", group.name, led.epoch, led.begin)
        leading.start()
        self._repairing = self._repair(led.parts)
        self._repairing.start()
        led.when_ready(self._served)

    def _served(self) -> None:
        """All members of the SyncStateSet have what the log held: its store may serve, and belongs to who serves it."""
        store, self._unserved = self._unserved, None
        if store is not None and self.ended:
            store.store.close()
        elif store is not None:
            self._elected(store)

    def alter(self, change: AlterSet, done: Callable[[GroupAnswer | None], None]) -> None:
        """SetKeeper.alter."""
        log.info("store group %s: the SyncStateSet is to be %s", change.group, [each.id for each in change.members])
        self._controllers.change(change, lambda answer: None if self.ended else done(answer))

    def look(self) -> None:
        """SetKeeper.look. Whoever makes the leader ask, and however often: one question is under way."""
        if self._looking:
            return
        self._looking = True

        def found(group: StoreGroup | None, _known: bool) -> None:
            self._looking = False
            if group is not None:
                self._heard(group)

        self._controllers.ask(found)

    # What other replicas ask

    @property
    def epoch(self) -> int:
        """AskedReplica.epoch."""
        return self._epoch

    @property
    def parts(self) -> MendableLog | None:
        """AskedReplica.parts."""
        return None if self._closed else (self._leader_log or self._follower).parts

    def verbs(self) -> Mapping[type[Command], Verb]:
        """UseCase.verbs."""
        return self._commands.verbs()

    # Damage

    def _repair(self, log: MendableLog) -> Repairing:
        return Repairing(log, lambda: self._sources.of(self._group, self._own), self._clock, self._repairs, self._repaired)

    def _repaired(self, part: DamagedPart, where: str) -> None:
        size = part.end - part.begin
        if where:
            log.warning("store group %s: %s bytes of the log at %s were damaged and are whole again, from %s",
                        self._place.group, size, part.begin, where)  # fmt: skip
        else:
            log.error("store group %s: %s bytes of the log at %s are damaged, and nobody has given them: %s",
                      self._place.group, size, part.begin, self._repairing.why)  # fmt: skip


def _nobody() -> None:
    """Default of `ReplicaLife.renewed` and `promoting`."""


def _unheard(_text: str) -> None:
    """Default of `ReplicaLife.standby`."""
