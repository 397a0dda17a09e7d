"""Request modes: a group consumes a topic by PULL or by POP, as tools set it (RocketMQ: MessageRequestModeManager)."""

from __future__ import annotations

import json

from domain import address
from domain.admin.group import ListRequestModes, QueryRequestMode, RequestMode, RequestModeList, SetRequestMode
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.nameserver.directory import BrokerRoutes
from domain.store.store_ports import Metadata, State
from domain.topic.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs, answered
from gateway.usecase.topics_and_groups.followed_space import FollowedSpace
from gateway.usecase.topics_and_groups.groups import Groups


class Modes:
    """The verbs SetRequestMode, QueryRequestMode and ListRequestModes. The mode is PULL where none was set.

    Modes are stored durably, for topics of this node and of brokers that are registered with it.
    """

    def __init__(self, groups: Groups, metadata: Metadata, routes: BrokerRoutes, state: State) -> None:
        self._groups = groups
        self._metadata = metadata
        self._routes = routes
        self._modes = FollowedSpace(state, "mode", _decode)
        self.verbs: Verbs = {SetRequestMode: self._set, QueryRequestMode: self._query, ListRequestModes: self._list}

    def _set(self, connection: ClientConnection, command: SetRequestMode) -> None:
        failure = self._unsettable(command)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return
        value = json.dumps([command.mode, command.pop_share_queues]).encode()

        def ready(group: Group | Failure) -> None:
            if isinstance(group, Failure):
                connection.answer(Refused(command.ticket, group))
            else:
                self._modes.put({_key(command.group, command.topic): value}, answered(connection, Done(command.ticket)))

        self._groups.ensure(command.group, ready)

    def _unsettable(self, command: SetRequestMode) -> Failure | None:
        """The refusal of a mode, else None. Topic and group must exist, so that the number of stored modes is bounded."""
        if command.mode not in ("PULL", "POP"):
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"the mode is PULL or POP, not {command.mode[:40]!r}")
        if command.topic.startswith(address.RETRY_PREFIX):
            return Failure(ErrorCode.NOT_ALLOWED, "retry topic is not allowed to set mode")
        if self._metadata.topic(command.topic) is None and not self._routes.route(command.topic)[0]:
            return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
        return None

    def _query(self, connection: ClientConnection, command: QueryRequestMode) -> None:
        mode, share = self._modes.values.get(_key(command.group, command.topic), ("PULL", 0))
        connection.answer(RequestMode(command.ticket, mode, share))

    def _list(self, connection: ClientConnection, command: ListRequestModes) -> None:
        found: list[tuple[str, str, str, int]] = []
        for key, (mode, share) in sorted(self._modes.values.items()):
            topic, _, group = key.decode().rpartition("@")
            found.append((topic, group, mode, share))
        connection.answer(RequestModeList(command.ticket, found))


def _key(group: str, topic: str) -> bytes:
    return f"{topic}@{group}".encode()


def _decode(value: bytes) -> tuple[str, int]:
    """(PULL or POP, queues that members by POP share) of a stored mode."""
    mode, share = json.loads(value)
    return str(mode), int(share)
