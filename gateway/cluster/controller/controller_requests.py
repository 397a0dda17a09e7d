"""The requests of brokers, tools and other controllers to this controller."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, final

from controller.groups.gateways import KnownGateways
from controller.groups.heartbeats import Heartbeats
from controller.groups.replica_reports import informed, of_stranger, refused
from controller.member.elections import POLL_MS, Elections
from controller.member.founding import Founding
from controller.member.grey_moves import GreyMoves
from controller.member.identity import MemberIdentity
from controller.member.member import ControllerMember
from controller.slow_replicas.detector import GreyDetector
from controller.slow_replicas.record import FiguresRecord
from domain.address import endpoint_text
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import (
    ApplyId,
    ElectLeader,
    FoundGroup,
    GroupChange,
    PromoteLearner,
    RecoverGroup,
    RegisterReplica,
    SetAcks,
)
from domain.controller.controller_list import ChangeControllers, ControllersChanged
from domain.controller.gateway_search import HearGateway
from domain.controller.group import StoreGroup, differ
from domain.controller.peer import (
    ACKS_LEVEL,
    IDENTITY_LEVEL,
    RUNS_LEVEL,
    ControllerGreeted,
    GreetController,
    LeaderChanged,
    TellController,
)
from domain.controller.request import (
    GROUPS_LISTED_MAX,
    ChangeControllerSettings,
    ChangeGroup,
    ControllerFound,
    ControllerSettingsFound,
    ControllersFound,
    GroupChanged,
    GroupsFound,
    HearReplica,
    ListStoreGroups,
    QueryController,
    QueryControllers,
    QueryControllerSettings,
    QueryGroups,
    ReplicaHeard,
    StoreGroupsListed,
)
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Entropy
from gateway.cluster.strangers import Strangers
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs

log = logging.getLogger("headgate.controller")

IDENTITY_BYTES: Final = 16
"""Random bytes in the identity of a store group."""
STRANGE: Final = (GroupRefusal.OTHER_GROUP, GroupRefusal.RUNS_ELSEWHERE, GroupRefusal.COPIED)
"""Refusals of a replica that is of another store group, or a second process of one."""
STRANGERS_MS: Final = 60_000
"""Time for which a refusal of a stranger is reported: a process that is refused tries again every few seconds at least."""
GROUP_NAME: Final = "headgate"
"""Name of the controllers' raft group, as mqadmin shows it."""
Greeted = Callable[[MemberIdentity, tuple[str, ...]], None]
"""(another controller, addresses of all controllers as it knows them)"""
_UNSURE: Final = Failure(
    ErrorCode.STORE_UNAVAILABLE,
    "it is not known whether the change is made: no majority of the controllers has answered; ask again",
)


@final
class ControllerRequests:
    """The verbs of a controller. `member` is None until its group is known: then it leads nothing."""

    def __init__(
        self, founding: Founding, endpoints: Sequence[tuple[str, int]], clock: Clock, entropy: Entropy, greeted: Greeted
    ) -> None:
        """`entropy`: for identities of store groups. `greeted` is called for each greeting of another controller."""
        self.member: ControllerMember | None = None
        self.elections: Elections | None = None
        self.grey: GreyMoves | None = None
        self.heartbeats = Heartbeats(clock.monotonic_ns() // MILLISECOND_NS)
        self._founding = founding
        self._greeted = greeted
        self._addresses = [endpoint_text(host, port) for host, port in endpoints]
        self.strangers = Strangers(log, clock)
        self.gateways = KnownGateways()
        self._clock = clock
        self._entropy = entropy
        self._connections: set[ClientConnection] = set()
        self._settings = {"notify_role_changed": "true", "scan_ms": str(POLL_MS)}
        self.verbs: Verbs = {
            ChangeGroup: self._change, QueryGroups: self._query, QueryControllers: self._controllers, HearReplica: self._hear,
            HearGateway: self._search,
            ListStoreGroups: self._list, QueryController: self._this,
            QueryControllerSettings: self._query_settings, ChangeControllerSettings: self._change_settings,
            GreetController: self._greet, TellController: self._notify, ChangeControllers: self._change_controllers,
        }  # fmt: skip

    def joined(self, member: ControllerMember, record: FiguresRecord) -> None:
        """Take part in the group, which is known now. `record`: called with the health figures of replicas."""
        self.member = member
        self.grey = GreyMoves(member, self.heartbeats, self._clock, GreyDetector(), record)
        self.elections = Elections(
            member, self.heartbeats, self._clock, int(self._settings["scan_ms"]), self.grey.preferring, self.grey.is_early
        )
        self.elections.start()
        self.grey.start()

    def close(self) -> None:
        """Stop taking part. Pending changes are answered with an unknown outcome."""
        if self.elections is not None:
            self.elections.stop()
        if self.grey is not None:
            self.grey.stop()
        if self.member is not None:
            self.member.stop()

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // MILLISECOND_NS

    def _change(self, connection: ClientConnection, command: ChangeGroup) -> None:
        member = self.member
        if member is None:
            self._changed(connection, command, GroupAnswer(GroupRefusal.NOT_LEADING, None))
            return
        group, now_ms = member.groups.group(command.change.group), self._now_ms()
        refusal = refused(command.change, group, self.heartbeats, now_ms) if member.leads else None
        if isinstance(command.change, SetAcks | PromoteLearner) and not self._founding.all_read(ACKS_LEVEL):
            refusal = GroupRefusal.OLD_VERSION
        if refusal is not None:
            self._changed(connection, command, GroupAnswer(refusal, group))
            return
        change = self._readable(informed(command.change, group, self.heartbeats, now_ms), group)
        if self.elections is not None and isinstance(change, ElectLeader):
            self.elections.request(change, partial(self._changed, connection, command))
        else:
            member.change(change, partial(self._changed, connection, command))

    def _readable(self, change: GroupChange, group: StoreGroup | None) -> GroupChange:
        """Change with what all controllers can read: one of a version before stops at a command of a later one.

        A fresh identity is added where the group may need it. FoundGroup always has one: without it the change follows the rule
        of the versions before.
        """
        if isinstance(change, RegisterReplica) and not self._founding.all_read(RUNS_LEVEL):
            change = replace(change, run="", runs_before=())
        if isinstance(change, ApplyId) and not self._founding.all_read(ACKS_LEVEL):
            change = replace(change, dead=())
        if not self._founding.all_read(IDENTITY_LEVEL):
            return replace(change, identity="") if isinstance(change, RegisterReplica) else change
        if group is None or not isinstance(change, RegisterReplica | ElectLeader | FoundGroup):
            return change
        is_wanted = not group.identity and bool(group.members or isinstance(change, ElectLeader))
        if is_wanted or isinstance(change, FoundGroup):
            return replace(change, fresh=self._entropy.token(IDENTITY_BYTES).hex())
        return change

    def _changed(self, connection: ClientConnection, command: ChangeGroup, answer: GroupAnswer | None) -> None:
        if answer is not None and answer.refusal in STRANGE:
            self.strangers.refused(command.change.group, _address_in(command.change) or connection.host, answer.refusal.value)
        if answer is None:
            connection.answer(Refused(command.ticket, _UNSURE))
        else:
            group = answer.group
            alive = frozenset[int]() if group is None else self._alive(group)
            dated = answer if group is None else replace(answer, group=self._dated(group))
            connection.answer(GroupChanged(command.ticket, dated, alive))

    def _change_controllers(self, connection: ClientConnection, command: ChangeControllers) -> None:
        member = self.member

        def done(answer: GroupAnswer | None) -> None:
            if answer is None:
                connection.answer(Refused(command.ticket, _UNSURE))
            else:
                why = "" if answer.refusal is None else answer.refusal.value
                connection.answer(ControllersChanged(command.ticket, answer.refusal, why))

        if member is None or not member.leads:
            done(GroupAnswer(GroupRefusal.NOT_LEADING, None))
            return
        change = member.remove_controller if command.remove else member.add_controller
        try:
            change(command.address, self._addresses, self._founding.here, done)
        except ValueError as error:
            connection.answer(ControllersChanged(command.ticket, GroupRefusal.INVALID, str(error)))

    @property
    def _book(self) -> tuple[str, ...]:
        """The addresses of all controllers: from the committed list, or from the settings while there is none."""
        agreed = () if self.member is None else self.member.groups.book.addresses
        return agreed or tuple(self._addresses)

    def _dated(self, group: StoreGroup) -> StoreGroup:
        """The group with its present `order`. Answers may arrive in another order, and the receiver keeps the newest state."""
        return group if self.member is None else replace(group, order=self.member.applied_index)

    def _alive(self, group: StoreGroup) -> frozenset[int]:
        return frozenset(each.id for each in self.heartbeats.live(group, self._now_ms()))

    def _query(self, connection: ClientConnection, command: QueryGroups) -> None:
        member = self.member

        def confirmed(refusal: GroupRefusal | None) -> None:
            if refusal is not None or member is None:
                connection.answer(GroupsFound(command.ticket, GroupRefusal.NOT_LEADING, ()))
                return
            found = [group for name in command.groups if (group := member.groups.group(name)) is not None]
            connection.answer(GroupsFound(command.ticket, None, [(group, self._alive(group)) for group in found]))

        if member is None:
            confirmed(GroupRefusal.NOT_LEADING)
        else:
            member.read(confirmed)

    def _list(self, connection: ClientConnection, command: ListStoreGroups) -> None:
        member = self.member

        def confirmed(refusal: GroupRefusal | None) -> None:
            if refusal is not None or member is None:
                connection.answer(StoreGroupsListed(command.ticket, GroupRefusal.NOT_LEADING, ()))
                return
            known = {each.name: each for each in member.groups}
            wanted = sorted(name for name in (command.names or known) if name in known and name > command.after)
            now_ms = self._now_ms()
            found = [(self._dated(known[name]), self._words(known[name], now_ms)) for name in wanted[:GROUPS_LISTED_MAX]]
            for group, _ in found if command.identity else ():
                if differ(group.identity, command.identity):
                    why = f"a replica that asks for the group: {GroupRefusal.OTHER_GROUP.value}"
                    self.strangers.refused(group.name, connection.host, why)
            connection.answer(StoreGroupsListed(command.ticket, None, found, len(wanted) > GROUPS_LISTED_MAX))

        if member is None:
            confirmed(GroupRefusal.NOT_LEADING)
        else:
            member.read(confirmed)

    def _words(self, group: StoreGroup, now_ms: int) -> list[ReplicaHeard]:
        """The last reports of the replicas of a group, with their standing."""
        words, grey = self.heartbeats.words(group, now_ms), self.grey
        if grey is None:
            return list(words)
        place = [(each, (group.name, each.report.id)) for each in words]
        return [each.judged(grey.standing(*replica), grey.figures(*replica)) for each, replica in place]

    def _this(self, connection: ClientConnection, command: QueryController) -> None:
        member, own = self.member, self._founding.identity.node
        strangers, gateways = self.strangers.recent(STRANGERS_MS), self.gateways.missed(self._now_ms())
        if member is None:
            connection.answer(ControllerFound(command.ticket, own, 0, False, 0, (), (), self._founding.places, "", self._book))
            return
        connection.answer(
            ControllerFound(
                command.ticket, own, member.term, member.leads, member.leader, member.voters, member.learners,
                self._founding.places, member.failure, self._book, member.changing, strangers, gateways,
                self.gateways.searching(self._now_ms()),
            )
        )  # fmt: skip

    def _controllers(self, connection: ClientConnection, command: QueryControllers) -> None:
        """Every controller answers. Controllers are named n0, n1, … in their order, as Apache's are."""
        member = self.member
        names = {address: f"n{at}" for at, address in enumerate(self._book)}
        leader = "" if member is None or not member.leader else names.get(self._founding.address_of(member.leader), "")
        peers = {name: address for address, name in names.items()}
        leads = member is not None and member.leads
        connection.answer(ControllersFound(command.ticket, GROUP_NAME, leader, leads, peers))

    def _search(self, connection: ClientConnection, command: HearGateway) -> None:
        self.gateways.searches(command.life, command.search, connection.host, self._now_ms())
        connection.answer(Done(command.ticket))

    def _hear(self, connection: ClientConnection, command: HearReplica) -> None:
        if connection not in self._connections:
            self._connections.add(connection)
            connection.on_close.append(partial(self._closed, connection))
        word, group = command.word, None if self.member is None else self.member.groups.group(command.group)
        number = word.report.id
        now_ms = self._now_ms()
        refusal = None if group is None else of_stranger(word, group, self.heartbeats, now_ms)
        if group is not None and refusal is not None and self._is_sure(group, number):
            serves = f", which serves clients in epoch {word.serving.epoch}" if word.serving.epoch > 0 else ""
            why = f"a heartbeat of replica {number}{serves}: {refusal.value}"
            self.strangers.refused(command.group, connection.host, why)
        if group is None or refusal is not None or group.replica(number) is None:
            self.heartbeats.dropped += 1  # kept, they would take the place of those by which leaders are known to be alive
        else:
            is_news = word.parted or not self.heartbeats.is_alive(command.group, number, now_ms)
            is_awaited = not group.leader and word.report.fence > 0
            if self.elections is not None and (is_news or is_awaited):
                self.elections.hurry()
            self.heartbeats.heard(command.group, word, command.timeout_ms, connection, now_ms)
            self.gateways.heard(command.group, word.serving, now_ms)
        if self.grey is not None and word.figures is not None:
            self.grey.heard(command.group, number, word.figures)
        connection.answer(Done(command.ticket))

    def _is_sure(self, group: StoreGroup, number: int) -> bool:
        """False while the registration of a replica may not have reached this controller: before the first election it alone
        says who is a stranger."""
        known, leads = group.replica(number), self.member is not None and self.member.leads
        return bool(group.members) or (leads and known is not None and bool(known.incarnation))

    def _closed(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)
        self.heartbeats.closed(connection, self._now_ms())
        if self.elections is not None:
            self.elections.hurry()

    def applied(self, change: GroupChange, answer: GroupAnswer) -> None:
        """Notify the replicas of a group of its leader, when this controller leads: they query it themselves only every 5 s.

        A group without a leader gets one at once: a leader that has restarted was deposed.
        """
        group = answer.group
        if group is None and answer.refusal is None:
            self.gateways.forget(change.group)
        if group is None or answer.refusal is not None:
            return
        if isinstance(change, RecoverGroup | PromoteLearner):
            log.warning(
                "store group %s: an operator has given up its SyncStateSet; replica %s leads in epoch %s with log %s, and what "
                "it lacks is lost", group.name, change.replica, group.leader_epoch, group.members[0].incarnation,
            )  # fmt: skip
        if isinstance(change, FoundGroup):
            log.warning(
                "store group %s: an operator has said that it begins with the log of replica %s, in epoch %s", group.name,
                change.replica, group.leader_epoch,
            )  # fmt: skip
        if not group.leader and self.elections is not None:
            self.elections.hurry()
        if not isinstance(change, ElectLeader | RecoverGroup | PromoteLearner | FoundGroup):
            return
        if self.member is None or not self.member.leads or self._settings["notify_role_changed"] != "true":
            return
        for connection in self.heartbeats.connections(group.name):
            if isinstance(connection, ClientConnection):
                connection.answer(LeaderChanged(None, self._dated(group)))

    def led(self) -> None:
        """This controller leads: the election that its predecessor owes is due, if that died with the leader of a group."""
        if self.elections is not None:
            self.elections.hurry()

    def _query_settings(self, connection: ClientConnection, command: QueryControllerSettings) -> None:
        connection.answer(ControllerSettingsFound(command.ticket, dict(self._settings)))

    def _change_settings(self, connection: ClientConnection, command: ChangeControllerSettings) -> None:
        values = command.values
        scan = values.get("scan_ms", self._settings["scan_ms"])
        if values.get("notify_role_changed", "true") not in ("true", "false") or not (
            scan.isdigit() and 100 <= int(scan) <= 60_000
        ):
            text = "notifyBrokerRoleChanged is true or false, scanNotActiveBrokerInterval 100 to 60000 ms"
            connection.answer(Refused(command.ticket, Failure(ErrorCode.ARGUMENT_ILLEGAL, text)))
            return
        self._settings.update(values)
        if self.elections is not None:
            self.elections.poll_ms = int(scan)
        connection.answer(Done(command.ticket))

    def _greet(self, connection: ClientConnection, command: GreetController) -> None:
        self._greeted(MemberIdentity(command.node, frozenset(command.founders), command.level), command.book)
        own, member = self._founding.identity, self.member
        book = () if member is None else member.groups.book.addresses
        connection.answer(ControllerGreeted(command.ticket, own.node, tuple(sorted(own.founders)), book, own.level))

    def _notify(self, _connection: ClientConnection, command: TellController) -> None:
        if self.member is not None:
            self.member.receive(command.data)


def _address_in(change: GroupChange) -> str:
    """The address of the replica that a change is about; "": it names none."""
    return change.address if isinstance(change, RegisterReplica) else ""
