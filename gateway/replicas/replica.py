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
from domain.ports import Clock, Entropy
from domain.replication.message import (
    Follow,
    FollowAccepted,
    FollowRefusal,
    FollowRefused,
    LogBytes,
    LogHeld,
    LogPart,
    LogPartRefused,
    PartRefusal,
    ReadLog,
)
from domain.replication.ports import (
    DamagedPart,
    FollowerLog,
    LeaderLog,
    LeaderStore,
    MendableLog,
    PartRefusedError,
)
from domain.replication.reads import FollowerReads
from gateway.connection.client_connection import ClientConnection
from gateway.replicas.controllers import GroupControllers
from gateway.replicas.enrolment import Enrolment, LogFacts, ReplicaPlace, incarnation_text
from gateway.replicas.leader_link import LeaderLink
from gateway.replicas.meter import ReplicaMeter
from gateway.replicas.part_sources import PartSources
from gateway.replicas.settings import SKEW_MS
from gateway.rocketmq.broker_request import Sign
from gateway.rocketmq.dialer import Dialer
from gateway.usecase.handler import Verb
from store.replication.following import Following
from store.replication.leading import Leading, member_of
from store.replication.repairing import RepairCounts, Repairing

log: Final = logging.getLogger("headgate.replica")


@final
class _Follower:
    """`store.replication.ports.FollowerConnection` over a client's connection."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def send(self, event: FollowAccepted | FollowRefused | LogBytes) -> None:
        """FollowerConnection.send."""
        self._connection.answer(event)

    def close(self, reason: str) -> None:
        """FollowerConnection.close."""
        self._connection.driver.close()
        log.info("the connection of a follower is ended: %s", reason)


@final
class ReplicaLife:
    """One life of a replica.

    leading   its leadership; None while it follows
    promoted  its store from the promotion on, before it may serve too; None while it follows
    meter     what it measures of itself
    renewed   called when the log has begun anew: `reads` are others
    promoting called when this replica is about to lead: what it reads from now on is refused
    why       why it is in no store group yet, or what ended this life; "": neither
    """

    def __init__(
        self, follower: FollowerLog, place: ReplicaPlace, controllers: GroupControllers, dialer: Dialer, sign: Sign | None,
        clock: Clock, entropy: Entropy, elected: Callable[[LeaderStore], None], over: Callable[[str], None],
        repairs: RepairCounts | None = None, skew_ms: int = SKEW_MS,
    ) -> None:  # fmt: skip
        """`elected(store)` is called when the store of a leader may serve; `over(reason)` once, when this life has ended.
        `repairs`: counts what is repaired; `skew_ms`: how far apart the clocks of replicas may be."""
        self.leading: Leading | None = None
        self.promoted: LeaderStore | None = None
        self.meter = ReplicaMeter(clock, skew_ms)
        self.renewed: Callable[[], None] = _nobody
        self.promoting: Callable[[], None] = _nobody
        self.why = "no controller answers"
        self._follower = follower
        self._leader_log: LeaderLog | None = None
        self._place = place
        self._controllers = controllers
        self._dialer = dialer
        self._sign = sign
        self._clock = clock
        self._entropy = entropy
        self._elected = elected
        self._over = over
        self._own = 0
        self._leader_at = ""
        self._turn = 0
        self._epoch = 0
        self._link: LeaderLink | None = None
        self._following: Following | None = None
        self._promoting: StoreGroup | None = None
        self._asking = False
        self._closed = False
        self._connections: dict[ClientConnection, _Follower] = {}
        self._group: StoreGroup | None = None
        self._lacking: tuple[int, ...] = ()
        self._repairs = repairs or RepairCounts()
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
        """Follow and lead no more; the log of a follower is closed."""
        self._closed = True
        self.meter.stop()
        self._enrolment.end()
        self._controllers.close()
        self._repairing.close()
        self._sources.close()
        self._unfollow()
        if self.leading is not None:
            self.leading.close()
        elif self._leader_log is None:
            self._follower.close()

    def _end(self, reason: str) -> None:
        """This life of the replica is over."""
        if not self._closed:
            self.why = reason
            log.warning("store group %s: %s", self._place.group, reason)
            if self._leader_log is not None:
                self._leader_log.depose(Failure(ErrorCode.STORE_UNAVAILABLE, f"this node does not lead any more: {reason}"))
            self._over(reason)

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
        if self._closed or not self._own or self._enrolment.why or self._promoting is not None:
            return
        if self.leading is not None:
            self.leading.group_heard(group)
            self._tell_strength(group)
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

    def _tell_strength(self, group: StoreGroup) -> None:
        """One line in the log whenever the replicas that lack something are others."""
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
        self._leader_at = group.address(group.leader)
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
                "the store group has another log. Move the directory away if this replica may take the group's log"
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
        self._follower.sync(lambda: self._promoted(group))
        if self._follower.broken is not None:
            self._end(self._follower.broken.text)

    def _promoted(self, group: StoreGroup) -> None:
        if self._closed:
            return
        self._repairing.close()
        try:
            promoted = self._follower.promote(group.leader_epoch)
        except (OSError, StoreError) as error:
            self._end(f"this replica was elected and cannot lead: {error}")
            return
        self.promoted = promoted
        self._leader_log = led = promoted.replica
        self.meter.other_log()
        self._epoch = group.leader_epoch
        self._promoting = None
        leading = self.leading = Leading(led, group, self._own, self, self._clock, self._end)
        log.warning("store group %s: this replica leads in epoch %s, from %s on", group.name, led.epoch, led.begin)
        leading.start()
        self._repairing = self._repair(led.parts)
        self._repairing.start()
        led.when_ready(lambda: None if self._closed else self._elected(promoted))

    def alter(self, change: AlterSet, done: Callable[[GroupAnswer | None], None]) -> None:
        """SetKeeper.alter."""
        log.info("store group %s: the SyncStateSet is to be %s", change.group, [each.id for each in change.members])
        self._controllers.change(change, lambda answer: None if self._closed else done(answer))

    def look(self) -> None:
        """SetKeeper.look."""
        self._controllers.ask(lambda group, _known: None if group is None else self._heard(group))

    # UseCase: what followers ask

    def verbs(self) -> Mapping[type[Command], Verb]:
        """The commands of followers."""
        return {Follow: self._followed, LogHeld: self._held, ReadLog: self._read}

    def _followed(self, connection: ClientConnection, command: Follow) -> None:
        leading = self.leading
        if leading is None:
            connection.answer(FollowRefused(command.ticket, FollowRefusal.NOT_LEADING, self._epoch))
            return
        follower = self._connections.get(connection)
        if follower is None:
            follower = self._connections[connection] = _Follower(connection)
            connection.on_close.append(lambda: self._lost(connection))
        leading.follow(follower, command)

    def _held(self, connection: ClientConnection, command: LogHeld) -> None:
        follower = self._connections.get(connection)
        if self.leading is not None and follower is not None:
            self.leading.held(follower, command)

    def _lost(self, connection: ClientConnection) -> None:
        follower = self._connections.pop(connection, None)
        self.meter.broke()
        if self.leading is not None and follower is not None:
            self.leading.lost(follower)

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

    def _read(self, connection: ClientConnection, command: ReadLog) -> None:
        parts = (self._leader_log or self._follower).parts
        if command.group != self._place.group or self._closed:
            reason = PartRefusal.NOT_OPEN if self._closed else PartRefusal.OTHER_GROUP
            connection.answer(LogPartRefused(command.ticket, reason))
            return
        try:
            data = parts.read_confirmed(command.position, command.end)
        except PartRefusedError as error:
            connection.answer(LogPartRefused(command.ticket, error.reason))
            return
        self._repairs.given += 1
        connection.answer(LogPart(command.ticket, data))


def _nobody() -> None:
    """Default of `ReplicaLife.renewed` and `promoting`."""
