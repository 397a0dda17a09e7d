"""State of a replica that follows: one leader at a time, with reconnects, or none while the group waits for an election."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, final

from domain.address import endpoint_of
from domain.admin.replica import ReplicaState
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import ElectLeader
from domain.controller.group import StoreGroup
from domain.controller.health import UNMEASURED, ReplicaFigures
from domain.controller.remote import LOCAL, RemoteWord
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.replication.message import Follow, FollowAccepted, FollowRefused, LogBytes, LogHeld
from domain.replication.ports import FollowerLog, MendableLog
from gateway.cluster.replica.controllers import GroupControllers
from gateway.cluster.replica.health import ReplicaHealth
from gateway.cluster.replica.peer_network import PeerNetwork
from gateway.cluster.replica.registering_state import LogFacts, ReplicaPlace, facts_of, incarnation_text
from gateway.cluster.replica.term_owner import TermOwner
from gateway.link.backoff import Backoff
from gateway.link.stream import Stream
from gateway.link.wire import UnreadableError
from protocols.remoting.nodes.replication.dialog import FollowDialog
from protocols.remoting.ticket import RequestError
from store.replication.following import FollowerPlace, Following

log: Final = logging.getLogger("headgate.replica")
_OTHER: Final = (
    "this replica does not follow replica {leader}, which leads in epoch {led}: its own log is of epoch {own}, and of another "
    "history. If the controllers have lost their folders: stop replica {leader}, and let the complete log lead by headgate "
    'cluster recover (docs/controllers.md, "When the controllers have lost their log"). If this node is of another cluster: '
    "stop it, and correct replication.controllers"
)
REST_MS: Final = 100
"""Average pause before a reconnect."""


@final
class LeaderLink:
    """`store.replication.ports.LeaderConnection` over remoting: connections to one leader, one after the other."""

    def __init__(
        self, host: str, port: int, network: PeerNetwork, user: Following, accepted: Callable[[str], None],
        broke: Callable[[], None],
    ) -> None:  # fmt: skip
        """`accepted`: called when the leader has accepted this replica, with the address at which it takes gateways; `broke`:
        when a connection has ended or could not be made."""
        self._accepted = accepted
        self._broke = broke
        self._sign = network.sign
        self._user = user
        self._stream = Stream([(host, port)], network.dialer, network.clock, Backoff(REST_MS, REST_MS, network.entropy), self)
        self._dialog = FollowDialog(network.sign)
        self._why = ""

    def start(self) -> None:
        """Open the first connection."""
        self._stream.connect()

    def send(self, command: Follow | LogHeld) -> None:
        """See LeaderConnection."""
        if self._stream.open:
            dialog = self._dialog
            self._stream.write(dialog.follow(command) if isinstance(command, Follow) else dialog.held(command))

    def close(self, reason: str, rest_ms: int = 0) -> None:
        """See LeaderConnection. A new connection follows after a pause of `rest_ms` or more on average."""
        if self._stream.begun:
            self._stream.drop()
            self._lost(reason, rest_ms)

    def end(self) -> None:
        """Close the connection to the leader, and open no other one."""
        self._stream.close()

    def opened(self) -> None:
        """See WireUser."""
        self._dialog = FollowDialog(self._sign)
        self._user.connected(self)

    def received(self, data: bytes) -> None:
        """See WireUser."""
        try:
            events = self._dialog.receive(data)
        except RequestError as error:
            raise UnreadableError(str(error)) from error
        for event in events:
            if not self._stream.open:
                return
            self._take(event)

    def _take(self, event: FollowAccepted | FollowRefused | LogBytes) -> None:
        if isinstance(event, LogBytes):
            self._user.bytes(event)
            if self._stream.open:
                self._why = ""
        elif isinstance(event, FollowAccepted):
            self._user.accepted(event)
            self._accepted(event.gates)
        else:
            self._user.refused(event)

    def ended(self, reason: str) -> None:
        """See WireUser."""
        self._lost(reason)

    def _lost(self, reason: str, rest_ms: int = 0) -> None:
        self._broke()
        self._user.lost()
        if reason != self._why:
            self._why = reason
            log.info("the leader at %s is not followed for now: %s", self._stream.where, reason)
        self._stream.retry(rest_ms)


def refusal_of(group: StoreGroup, own: int, log: FollowerLog, is_learner: bool) -> str:
    """The reason why replica `own` may neither follow the leader nor request an election, text for people; "": it may.

    - the controllers know no election, but a replica has a log of an earlier epoch: a new leader would overwrite that log
    - the leader's epoch is lower than that of `log`, or equal and written by another log: the histories differ
    """
    if group.is_forgotten:
        return "" if is_learner else f"{GroupRefusal.FORGOTTEN.value} {group.name}"
    leader, eras = group.replica(group.leader), log.eras()
    if leader is None or leader.id == own or not eras or not eras[-1].epoch:
        return ""
    epoch, writer = eras[-1].epoch, incarnation_text(log.writer)
    is_same = epoch == group.leader_epoch and (not writer or leader.incarnation in ("", writer))
    if epoch < group.leader_epoch or is_same:
        return ""
    return _OTHER.format(own=epoch, leader=leader.id, led=group.leader_epoch)


@final
class FollowingState:
    """A registered replica. The state is entered again after each registration.

    _leader      id of the current or last leader; 0: none
    _address     `host:port` of that leader; "": none
    _following   follower state machine; None: no leader is followed
    _asking      True: an election is requested, and not answered
    _fence       as in ReplicaReport
    leader_gates `host:port` at which the leader that is followed takes gateways; "": none is followed, or it does not say
    _word        (confirmed position, time) of the last word of the leader that was followed last; 0: there was none
    """

    def __init__(
        self, term: TermOwner, follower: FollowerLog, place: ReplicaPlace, controllers: GroupControllers, network: PeerNetwork,
        meter: ReplicaHealth,
    ) -> None:  # fmt: skip
        self._term = term
        self._follower = follower
        self._place = place
        self._controllers = controllers
        self._network = network
        self._meter = meter
        self.leader_gates = ""
        self._leader = 0
        self._address = ""
        self._link: LeaderLink | None = None
        self._following: Following | None = None
        self._asking = False
        self._fence = 0
        self._word = (0, network.clock.monotonic_ns())

    def leave(self) -> None:
        """Stop following, and close the connection."""
        self._fence = 0
        self._word = self._last_word
        self._controllers.part(0)
        self.leader_gates = ""
        if self._following is not None:
            self._following.close()
        if self._link is not None:
            self._link.end()
        self._following = self._link = None

    def release(self) -> None:
        """Close the log, since the term is closed."""
        self._follower.close()

    @property
    def parts(self) -> MendableLog:
        """Its log, for reads of parts."""
        return self._follower.parts

    def facts(self) -> LogFacts:
        """The properties of its log, for heartbeats."""
        return facts_of(self._follower)._replace(fence=self._fence)

    @property
    def _last_word(self) -> tuple[int, int]:
        following = self._following
        return (following.confirmed, following.word_ns) if following is not None and following.confirmed else self._word

    def remote(self) -> RemoteWord:
        """Where a remote replica is, and what it lacks; LOCAL: it is none."""
        place = self._place.remote
        if not place:
            return LOCAL
        confirmed, heard_ns = self._last_word
        quiet_ms = max(self._network.clock.monotonic_ns() - heard_ns, 0) // MILLISECOND_NS
        return RemoteWord(place, max(confirmed - self._follower.written, 0), quiet_ms)

    def measure(self) -> ReplicaFigures:
        """Its measurements since the last call."""
        return self._meter.take(self._follower.work, UNMEASURED)

    def doing(self, group: str) -> str:
        """The activity of this replica of `group`, text for people."""
        if self._controllers.refuses:
            return f"this replica of {group} waits for an operator: {self._controllers.refuses}"
        following = self._following
        if following is None:
            return f"{group} has no leader: this replica waits for an election"
        what = "follows" if following.follows else "tries to follow"
        leader = f"replica {self._leader} at {self._address}"
        why = f": {following.refuses}" if following.refuses else ""
        return f"this replica {what} {leader}, which leads {group} in epoch {self._term.epoch}{why}"

    def heard(self, group: StoreGroup) -> None:
        """Follow, lead, register or request an election, as the controllers have decided."""
        term, registered = self._term, group.replica(self._term.own)
        why = self._look_at_history(group)
        if registered is None or registered.incarnation != incarnation_text(self._follower.incarnation):
            term.register_again("the controllers do not know this log")
        elif group.leader == term.own:
            if group.leader_epoch > term.epoch and registered.member in group.members and self._is_settled:
                term.promote(group)
        elif why:
            self.leave()
        elif group.leader and group.leader_epoch >= term.epoch:
            self._follow(group)
        elif group.electing > 1 and group.leader_epoch >= term.epoch:
            self._take_no_leader(group.leader_epoch)
        elif not group.members and not self._place.learner:
            self._ask_election(group)

    def _take_no_leader(self, epoch: int) -> None:
        """Take no bytes of the leader that was deposed, and report this with the next heartbeat: the log is as it is reported
        until another one leads. While a truncation is in progress it is not; the next report of the group tries again."""
        if self._fence == epoch or not self._is_settled:
            return
        self.leave()
        self._fence = epoch
        self._term.epoch = epoch
        self._controllers.report_soon()

    def _look_at_history(self, group: StoreGroup) -> str:
        """The reason why this replica asks no leader, text for people; "": it does. Heartbeats say why it waits for an
        operator, also when the leader refuses it."""
        term, why = self._term, ""
        if group.leader_epoch >= term.epoch:
            why = refusal_of(group, term.own, self._follower, self._place.learner)
            if not (why or group.leader) and group.is_older_than(self._place.identity.seen):
                why = f"{GroupRefusal.FORGOTTEN.value} {group.name}"
        if why and why != self._controllers.refuses:
            log.warning("store group %s: %s", group.name, why)
        self._controllers.refuses = why or self._strange
        return why

    @property
    def _strange(self) -> str:
        """Reason why this log and that of the leader are not of one history, text for people; "": none is known."""
        following = self._following
        return f"replica {self._leader} at {self._address}: {following.strange}" if following and following.strange else ""

    def _ask_election(self, group: StoreGroup) -> None:
        """Request the first election of a group, unless another replica is known to have a longer log."""
        term = self._term
        longest = max((each.position for each in group.replicas if not each.learner and each.id != term.own), default=-1)
        if self._asking or longest > self._follower.written:
            return
        self._asking = True

        def answered(answer: GroupAnswer | None) -> None:
            self._asking = False
            if answer is not None and answer.group is not None:
                term.heard(answer.group)

        self._controllers.change(ElectLeader(self._place.group, asker=term.own), answered)

    @property
    def _is_settled(self) -> bool:
        """True while no truncation of the log is in progress: the leader may change, or this replica be promoted."""
        return self._following is None or self._following.settled

    def _follow(self, group: StoreGroup) -> None:
        """Follow the leader of `group` instead of an earlier one.

        Nothing happens while it has no address or a truncation of the log is in progress: the next report of the group by a
        controller tries again.
        """
        term, place, network = self._term, self._place, self._network
        epoch, where = group.leader_epoch, group.address(group.leader)
        address = endpoint_of(where)
        if address is None or (self._link is not None and epoch == term.epoch) or not self._is_settled:
            return
        self.leave()
        self._leader, self._address = group.leader, where
        following = self._following = Following(
            self._follower, term.own, place.group, epoch, network.clock, term.restart_log,
            FollowerPlace(place.serves, place.identity.run, place.gates, place.identity.group),
        )  # fmt: skip
        self._link = LeaderLink(*address, network, following, self._accepted, self._broke)
        log.info("store group %s: replica %s leads in epoch %s", group.name, group.leader, epoch)
        self._link.start()
        term.follows(epoch)

    def _accepted(self, gates: str) -> None:
        self._controllers.part(0)
        self.leader_gates = gates

    def _broke(self) -> None:
        """A connection to the leader has ended. The controllers get to know it when it was the leader that has ended it.

        One that the leader never accepted is no figure of this replica: nobody answers there, or a stale report named it.
        """
        self.leader_gates = ""
        following = self._following
        if following is not None and following.follows:
            self._meter.broke()
            self._controllers.part(self._leader)
        if following is not None and following.strange:
            self._place.strangers.refused(self._place.group, self._address, following.strange)

    def state(self) -> ReplicaState:
        """The state of this replica for administration tools, also while it registers."""
        follower = self._follower
        return ReplicaState(self._term.own, False, self._address, follower.written, follower.applied, follower.eras())

    def figures(self) -> dict[str, float]:
        """Figures by their names in `gateway.observe.counter_texts.COUNTERS`, also while the replica registers."""
        follower, following, group, now = self._follower, self._following, self._term.group, self._network.clock.monotonic_ns()
        replica = None if group is None else group.replica(self._term.own)
        found: dict[str, float] = {
            "replica_follows": int(following is not None and following.follows),
            "replica_written_bytes": follower.written,
            "replica_synced_bytes": follower.synced,
            "replica_applied_bytes": follower.applied,
            "replica_has_room": int(follower.has_room),
        }
        if group is not None and replica is not None:
            found["replica_in_sync"] = int(group.is_in_sync(replica))
            found["replica_learner"] = int(replica.learner)
            found["replica_remote"] = int(bool(self._place.remote))
            found["replica_members"] = len(group.members)
        if following is not None and following.confirmed:
            found["replica_confirmed_bytes"] = following.confirmed
            found["replica_lag_bytes"] = max(following.confirmed - follower.written, 0)
        if following is not None:
            found["replica_heard_age_seconds"] = max(now - following.heard_ns, 0) / SECOND_NS
        return found
