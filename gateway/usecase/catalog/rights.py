"""Whether a group may read at all, and each topic: what administrators have said, apart from access control.

RocketMQ's SubscriptionGroupManager (forbiddenTable) and the checks of its PullMessageProcessor and PopMessageProcessor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain import lite
from domain.admin.group import Readable, SetReadable
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.store_ports import Metadata, State, StateChange
from domain.topic import PERM_READ
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.catalog.policy import NodePolicy
from gateway.usecase.handler import Verb

_FORBIDDEN: Final = "forbidden"


class Rights:
    """SetReadable, and the question that everybody asks who reads for a group.

    What is forbidden is kept durably, by topic and group, and in memory: groups of which nothing was said cost a look-up.
    """

    def __init__(self, metadata: Metadata, state: State, policy: NodePolicy) -> None:
        self._metadata = metadata
        self._state = state
        self._policy = policy
        self._forbidden = dict.fromkeys(key.decode() for key, _ in state.scan(_FORBIDDEN, b""))

    def verbs(self) -> Mapping[type[Command], Verb]:
        """SetReadable."""
        return {SetReadable: self._set}

    def refusal(self, name: str, topic: str, broadcast: bool = False) -> Failure | None:
        """Why group `name` may not read `topic` now: NOT_ALLOWED; None when it may, and when there is no such group.

        `broadcast`: as a member that reads everything.
        """
        if not self._policy.permission & PERM_READ:
            return Failure(ErrorCode.NOT_ALLOWED, "the broker pulling message is forbidden: brokerPermission is without read")
        group = self._metadata.group(name)
        if group is None:
            return None
        if not group.consume_enable:
            return Failure(ErrorCode.NOT_ALLOWED, f"subscription group no permission: group {name} may not consume")
        if broadcast and not group.broadcast_enable:
            return Failure(ErrorCode.NOT_ALLOWED, f"the consumer group[{name}] can not consume by broadcast way")
        topic = lite.topic_of(topic)
        if self._forbidden and _key(name, topic) in self._forbidden:
            return Failure(ErrorCode.NOT_ALLOWED, f"the consumer group[{name}] is forbidden for topic[{topic}]")
        return None

    def forbidden(self) -> Mapping[str, list[str]]:
        """Group -> topics that it may not read."""
        found: dict[str, list[str]] = {}
        for key in sorted(self._forbidden):
            topic, _, name = key.rpartition("@")
            found.setdefault(name, []).append(topic)
        return found

    def forget(self, name: str) -> None:
        """A group is about to be deleted: in the log, its rights go before it."""
        keys = [_key(name, topic) for topic in self.forbidden().get(name, ())]
        if keys:
            self._state.put([StateChange(_FORBIDDEN, key.encode(), None) for key in keys], None)
        for key in keys:
            self._forbidden.pop(key, None)

    def _set(self, connection: ClientConnection, command: SetReadable) -> None:
        key = _key(command.group, command.topic)
        wanted = command.readable
        if wanted is None:
            connection.answer(Readable(command.ticket, key not in self._forbidden))
            return
        failure = None if wanted else self._unknown(command)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return

        def put(result: None | Failure) -> None:
            if result is not None:
                connection.answer(Refused(command.ticket, result))
                return
            if wanted:
                self._forbidden.pop(key, None)
            else:
                self._forbidden[key] = None
            connection.answer(Readable(command.ticket, wanted))

        self._state.put([StateChange(_FORBIDDEN, key.encode(), None if wanted else b"1")], put)

    def _unknown(self, command: SetReadable) -> Failure | None:
        """What is kept stays bounded by the groups and topics that there are."""
        if self._metadata.group(command.group) is None:
            return Failure(ErrorCode.GROUP_NOT_FOUND, f"group {command.group} does not exist")
        if self._metadata.topic(command.topic) is None:
            return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
        return None


def _key(name: str, topic: str) -> str:
    return f"{topic}@{name}"
