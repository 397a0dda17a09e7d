"""Replica of a store group during one term: from the opening of its store until it is deposed or fails.

registering --> following --> promoting: elected, its log is made durable --> leading --> deposed: the term ends
     ^              | the controllers do not know its log, or its leader cannot continue it: restarting
     '--------------'
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, final

from domain.admin.replica import ReplicaState
from domain.controller.answer import GroupRefusal
from domain.controller.group import StoreGroup
from domain.controller.left_out import LeftOut
from domain.controller.remote import RemoteWord
from domain.controller.replica_word import ReplicaWord
from domain.controller.serving import SERVES_NOBODY, ServingWord
from domain.errors import ErrorCode, Failure, StoreError
from domain.limits import MILLISECOND_NS
from domain.ports import Timer
from domain.replication.ports import FollowerLog, LeaderStore, MendableLog
from domain.replication.reads import FollowerReads
from gateway.cluster.replica.controllers import GroupControllers, GroupListener
from gateway.cluster.replica.follower_commands import FollowerCommands
from gateway.cluster.replica.following_state import FollowingState
from gateway.cluster.replica.health import ReplicaHealth
from gateway.cluster.replica.leading_state import LeadingState
from gateway.cluster.replica.log_repairs import LogRepairs, RepairSources
from gateway.cluster.replica.peer_network import PeerNetwork
from gateway.cluster.replica.promoting_state import PromotingState
from gateway.cluster.replica.registering_state import RegisteringState, ReplicaPlace, facts_of
from gateway.cluster.replica.restarting_state import RestartingState
from gateway.usecase.handler import Verbs
from store.replication.leading import Leading
from store.replication.pace import ProcessorTime
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


@dataclass(frozen=True, slots=True)
class TermEvents:
    """Calls of a term to the node.

    elected   called with the store of a leader when it may serve
    over      called once with the reason, when the term has ended
    standby   called with a text for people when the state of a replica that does not serve changes
    readers   None: it serves no readers while it follows
    """

    elected: Callable[[LeaderStore], None]
    over: Callable[[str], None]
    standby: Callable[[str], None]
    readers: ReaderEvents | None = None


State = RegisteringState | FollowingState | RestartingState | PromotingState | LeadingState


@final
class ReplicaTerm:
    """One term of a replica: the owner of its state.

    own, epoch, group   as in TermOwner
    why             reason why it is not registered yet, or why the term ended; "": neither
    ended           True: the term has ended, or is closed
    needs_a_person  True: it has ended, and a further term would end in the same way
    _owner          state that has the log: FollowingState, and LeadingState from the promotion on
    _served         how the node serves clients; None: it does not
    """

    def __init__(
        self, follower: FollowerLog, place: ReplicaPlace, controllers: GroupControllers, network: PeerNetwork,
        events: TermEvents, meter: ReplicaHealth, repairs: RepairCounts, busy: Callable[[], ProcessorTime],
    ) -> None:  # fmt: skip
        """`repairs`: counters of repaired parts; `busy`: as in store.replication.pace."""
        self.own = self.epoch = 0
        self.group: StoreGroup | None = None
        self.meter = meter
        self.why = "no controller answers"
        self.ended = False
        self.needs_a_person = False
        self._events = events
        self._said = ""
        self._served: ServingWord | None = None
        self._watching: Timer | None = None
        self._follower = follower
        self._place = place
        self._controllers = controllers
        self._clock = network.clock
        self._busy = busy
        self._runs = (place.identity.run, *place.identity.runs_before)
        self._closed = False
        self._commands = FollowerCommands(self, place, repairs, meter.broke)
        sources = RepairSources(network)
        self._log_repairs = LogRepairs(place.group, lambda: (self.group, self.own), sources, self._clock, repairs)
        self._registering = RegisteringState(place, lambda: facts_of(follower), controllers, self._clock, self._registered)
        self._following = FollowingState(self, follower, place, controllers, network, meter)
        self._restarting = RestartingState(follower, network.entropy)
        self._owner: FollowingState | LeadingState = self._following
        self._led: LeadingState | None = None
        self._state: State = self._registering
        self.verbs: Verbs = self._commands.verbs

    def start(self) -> None:
        """Register, then follow or lead as the controllers decide."""
        self._controllers.attach(GroupListener(self.heard, self._told_slow, self._word))
        if facts_of(self._follower).epoch > 0:  # a log without records of an election is of no group
            self._controllers.identity = self._place.identity.group
        self.meter.start()
        self._registering.start(self.why)
        self._log_repairs.begin(self._follower.parts)
        self._watch()

    def hand_over(self, done: Callable[[], None]) -> None:
        """Request the election of the follower in sync that has most of the log. `done`: the request is answered, or there is
        nothing to hand over."""
        if self._closed or self._led is None:
            done()
        else:
            self._led.hand_over(done)

    def close(self) -> None:
        """End the term without a call of `over`. The log of a follower is closed, and a store not yet passed to `elected`."""
        if self._closed:
            return
        self._closed = True
        self._leave()
        self._owner.release()

    def _leave(self) -> None:
        """Stop all work. The controllers detect the end of the connection, and elect another leader without a wait."""
        self.ended = True
        self.meter.stop()
        self._registering.leave()  # before its request fails
        self._controllers.close()
        self._log_repairs.close()
        self._state.leave()
        if self._watching is not None:
            self._watching.cancel()

    def end(self, reason: str, needs_a_person: bool = False) -> None:
        """End the term for `reason`, text for people."""
        if self.ended:
            return
        self.why = reason
        self.needs_a_person = needs_a_person
        log.warning("store group %s: %s", self._place.group, reason)
        self._leave()
        if self._led is not None:
            self._led.log.depose(Failure(ErrorCode.STORE_UNAVAILABLE, f"this node does not lead any more: {reason}"))
        self._events.over(reason)

    def _watch(self) -> None:
        """Report the activity of this replica until it serves, and end the term of a follower whose disk has failed.

        The next term opens the log again: it keeps verified data, or fails with a report.
        """
        led = self._led
        if self.ended or (led is not None and led.serves):
            return
        if led is None and self._follower.broken is not None:
            self.end(self._follower.broken.text)
            return
        if (text := self.doing()) != self._said:
            self._said = text
            self._events.standby(text)
        self._watching = self._clock.call_at(self._clock.monotonic_ns() + WATCH_NS, self._watch)

    def doing(self) -> str:
        """The activity of a replica that does not serve, text for people."""
        return self._state.doing(f"store group {self._place.group}")

    # Transitions, see TermOwner

    def _registered(self, own: int, group: StoreGroup) -> None:
        log.info("store group %s: this is replica %s, with %s bytes of log", group.name, own, self._follower.written)
        try:
            self._follower.registered()
        except OSError as error:
            self.end(f"the data directory cannot be written: {error}")
            return
        self._keep_identity(group)
        first = self.own == 0
        self.own = own
        self.epoch = group.leader_epoch
        self.why = ""
        self._state = self._following
        if first:
            self._controllers.begin(self._place.address)
        self.heard(group)

    def _word(self) -> ReplicaWord:
        """What this replica says in its next heartbeat."""
        led, place, report = self._led, self._place, self._owner.facts().report(self.own)
        serving = SERVES_NOBODY if self._served is None or led is None else self._served._replace(epoch=self.epoch)
        return ReplicaWord(
            replace(report, seen=place.identity.seen), self._owner.measure(), aside=place.aside(),
            remote=self._following.remote() if led is None else RemoteWord(place.remote), left_out=self._left_out(),
            serving=serving,
        )  # fmt: skip

    def _keep_identity(self, group: StoreGroup) -> None:
        """Note of which store group the log is, and its newest state. A later report of the group tries again when the disk
        does not take the identity."""
        try:
            self._place.identity.keep_group(group.identity)
        except OSError as error:
            log.warning("store group %s: the identity of the group cannot be written: %s", group.name, error)
        self._place.identity.note_seen(group)
        self._controllers.identity = self._place.identity.group

    def register_again(self, why: str) -> None:
        """TermOwner.register_again."""
        self._state.leave()
        self._state = self._registering
        self._registering.start(why)

    def follows(self, epoch: int) -> None:
        """TermOwner.follows."""
        self.epoch = epoch
        if self._events.readers is not None:
            self._events.readers.followed(epoch)

    def restart_log(self, first: int, behind: bool) -> None:
        """TermOwner.restart_log."""
        self._state.leave()
        self._log_repairs.rest()
        if obstacle := self._restarting.obstacle:
            self.end(obstacle, needs_a_person=True)
            return
        self._state = self._restarting
        self.meter.other_log()
        self._restarting.start(self._place.group, first, behind, self._restarted)

    def _restarted(self, error: Exception | None) -> None:
        if self.ended:
            return
        if error is not None:
            self.end(f"a new log cannot be begun: {error}")
            return
        self._log_repairs.begin(self._follower.parts)
        if self._events.readers is not None:
            self._events.readers.renewed()
        self.register_again("a new log is registered")

    def promote(self, group: StoreGroup) -> None:
        """TermOwner.promote."""
        self._state.leave()
        state = self._state = PromotingState(self._follower, self._clock)
        if self._events.readers is not None:
            self._events.readers.promoting()
        state.start(lambda: self._promoted(group), self.end)

    def _promoted(self, group: StoreGroup) -> None:
        if self.ended:
            return
        self._log_repairs.rest()
        try:
            store = self._follower.promote(group.leader_epoch)
        except (OSError, StoreError) as error:
            self.end(f"this replica was elected and cannot lead: {error}")
            return
        self.meter.other_log()
        self.epoch = group.leader_epoch
        led = self._led = LeadingState(self, store, group, self._controllers, self._clock, self._busy, self.meter)
        self._state = self._owner = led
        led.start()
        self._log_repairs.begin(led.log.parts)
        led.serve(self._events.elected)

    # Controllers

    def heard(self, group: StoreGroup) -> None:
        """See TermOwner. The state follows the group, once the replica is registered and between two changes."""
        other = self._place.refused(group, self._controllers.where, self._owner.facts())
        if other:
            self._controllers.refuses = other
            return
        if self._controllers.refuses == GroupRefusal.OTHER_GROUP.value:
            self._controllers.refuses = ""
        self._keep_identity(group)
        self.group = group
        if self.ended or self._state is not self._owner:
            return
        registered = group.replica(self.own)
        if registered is not None and registered.run not in ("", *self._runs):
            self.end(f"{GroupRefusal.COPIED.value} (the other one is at {registered.address})")
            return
        self._owner.heard(group)

    def _told_slow(self, slow: frozenset[int]) -> None:
        if self._led is not None:
            self._led.heard_slow(slow)

    def _left_out(self) -> tuple[LeftOut, ...]:
        led = self.leading
        return () if led is None else led.review.left_out(self._clock.monotonic_ns(), led.written, led.synced)

    # Questions of the node, of tools and of other replicas

    @property
    def leading(self) -> Leading | None:
        """Its leadership; None while it follows."""
        return None if self._led is None else self._led.leading

    @property
    def promoted(self) -> LeaderStore | None:
        """Its store from the promotion on, also before it may serve; None while it follows."""
        return None if self._led is None else self._led.store

    @property
    def reads(self) -> FollowerReads:
        """Reads of this replica while it follows; replaced when `renewed` is called."""
        return self._follower.reads

    def readers(self) -> Mapping[int, str]:
        """See ReplicaView. No reader is served by followers while this replica does not lead."""
        return {} if self._led is None else self._led.readers()

    def gates(self) -> Mapping[int, str]:
        """See ReplicaView."""
        return {} if self._led is None else self._led.gates(self._place.gates)

    def doors(self) -> Mapping[int, str]:
        """See ReplicaView."""
        return {} if self._led is None else self._led.doors(self._place.serves)

    @property
    def leader_gates(self) -> str:
        """`host:port` at which the leader that this replica follows takes gateways; "": as in FollowingState."""
        return self._following.leader_gates

    def serves(self, word: ServingWord | None) -> None:
        """See ReplicaView."""
        self._served = word

    def reader_for(self, position: int, behind_bytes: int) -> int:
        """See ReplicaView."""
        return 0 if self._led is None else self._led.reader_for(position, behind_bytes)

    def state(self) -> ReplicaState:
        """See ReplicaView."""
        return self._owner.state()

    def figures(self) -> dict[str, float]:
        """Metrics of the log, by name."""
        return self._owner.figures()

    @property
    def parts(self) -> MendableLog | None:
        """See TermOwner."""
        return None if self._closed else self._owner.parts
