"""Controllers in memory behind real connections: the store groups and the frames are real, raft is not."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import cast

from controller.groups.groups import StoreGroups
from controller.groups.heartbeats import Heartbeats
from controller.groups.replica_reports import informed
from domain.command import Command
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import FoundGroup, GroupChange
from domain.controller.gateway_search import GatewaySearch
from domain.controller.group import ReplicaReport
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import (
    ChangeGroup,
    ControllerFound,
    ControllersFound,
    GatewayMissed,
    GroupChanged,
    ListStoreGroups,
    QueryController,
    QueryControllers,
    StoreGroupsListed,
    StrangerSeen,
)
from domain.event import Event
from tests.controller.groups.sample import NAME
from tests.gateway.importing.scripted_server import Answer, ScriptedServer
from tests.protocols.remoting.controller.wire import command_of, decoded, java, reply_to

NOW_MS = 100_000


class ScriptedControllers:
    """As many controllers as `count`; the one with number `leading` leads.

    fresh    identity for a group that has none; "": they are of a version before identities
    unsure   how many further changes are made, and answered as if nobody knew that
    strangers, gateways, searching   as in ControllerFound, of each controller
    """

    def __init__(self, groups: StoreGroups, count: int = 3) -> None:
        self.groups = groups
        self.heartbeats = Heartbeats(0)
        self.leading = 1
        self.unsure = 0
        self.fresh = ""
        self.strangers: list[StrangerSeen] = []
        self.gateways: list[GatewayMissed] = []
        self.searching: list[GatewaySearch] = []
        self.changes: list[GroupChange] = []
        self._stack = ExitStack()
        self.servers = [ScriptedServer(partial(self._answer, at)) for at in range(count)]
        self.addresses = [each.address for each in self.servers]

    def __enter__(self) -> ScriptedControllers:
        for each in self.servers:
            self._stack.enter_context(each)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def hear(self, *reports: ReplicaReport, age_ms: int = 120) -> None:
        """These replicas have been heard."""
        for each in reports:
            self.heartbeats.heard(NAME, ReplicaWord(each), 3_000, each.id, NOW_MS - age_ms)

    def _answer(self, at: int, code: int, fields: Mapping[str, str], body: bytes) -> Answer:
        command = command_of(java(code, fields, body))
        unsure, event = self._event(at, command)
        frame = decoded(reply_to(command, event))
        if unsure:
            return 14, {}, b""
        return frame.code, frame.fields() or {}, frame.body

    def _event(self, at: int, command: Command) -> tuple[bool, Event]:
        leads = at == self.leading
        if isinstance(command, QueryController):
            places = dict(enumerate(self.addresses, 1))
            found = ControllerFound(None, at + 1, 7, leads, self.leading + 1, [1, 2, 3], [], places, "")
            return False, replace(found, strangers=self.strangers, gateways=self.gateways, searching=self.searching)
        if isinstance(command, QueryControllers):
            peers = {f"n{number}": address for number, address in enumerate(self.addresses)}
            return False, ControllersFound(None, "headgate", f"n{self.leading}", leads, peers)
        if isinstance(command, ListStoreGroups):
            if not leads:
                return False, StoreGroupsListed(None, GroupRefusal.NOT_LEADING, ())
            wanted = [each for each in self.groups if not command.names or each.name in command.names]
            return False, StoreGroupsListed(None, None, [(each, self.heartbeats.words(each, NOW_MS)) for each in wanted])
        change = cast(ChangeGroup, command).change
        if not leads:
            return False, GroupChanged(None, GroupAnswer(GroupRefusal.NOT_LEADING, None))
        self.changes.append(change)
        asked = informed(change, self.groups.group(change.group), self.heartbeats, NOW_MS)
        answer = self.groups.apply(replace(asked, fresh=self.fresh) if isinstance(asked, FoundGroup) else asked)
        self.unsure -= 1
        return self.unsure >= 0, GroupChanged(None, answer)
