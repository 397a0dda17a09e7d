"""Rights of groups to consume at all, and to consume each topic, as administrators set them apart from access control.

RocketMQ's SubscriptionGroupManager (forbiddenTable) and the checks of its PullMessageProcessor and PopMessageProcessor.
"""

from __future__ import annotations

from domain.admin.group import Readable, SetReadable
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.store.store_ports import Metadata, State
from domain.topic import lite
from domain.topic.topic import PERM_READ
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs, answered
from gateway.usecase.topics_and_groups.followed_space import FollowedSpace
from gateway.usecase.topics_and_groups.policy import NodePolicy


class Rights:
    """The verb SetReadable, and `refusal` for use cases that read for a group.

    Forbidden pairs of topic and group are stored durably and kept in memory, so that a check costs one look-up.

    _topics_of   group -> the topics that it may not read
    """

    def __init__(self, metadata: Metadata, state: State, policy: NodePolicy) -> None:
        self._metadata = metadata
        self._policy = policy
        self._pairs = FollowedSpace(state, "forbidden", bytes)
        self._forbidden = self._pairs.values
        self._topics_of: dict[str, set[str]] = {}
        self._pairs.follow(self._changed)
        self.verbs: Verbs = {SetReadable: self._set}

    def refusal(self, name: str, topic: str, broadcast: bool = False) -> Failure | None:
        """NOT_ALLOWED when group `name` may not read `topic` now; None when it may, or when there is no such group.

        `broadcast`: the member reads all messages (RocketMQ: BROADCASTING).
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
        if self._forbidden:
            topic = lite.topic_of(topic)
            if _key(name, topic) in self._forbidden:
                return Failure(ErrorCode.NOT_ALLOWED, f"the consumer group[{name}] is forbidden for topic[{topic}]")
        return None

    def forbidden(self, name: str) -> list[str]:
        """Topics that a group may not read, sorted."""
        return sorted(self._topics_of.get(name, ()))

    def _changed(self, key: bytes, _old: bytes | None, new: bytes | None) -> None:
        topic, _, name = key.decode().rpartition("@")
        topics = self._topics_of.setdefault(name, set())
        if new is not None:
            topics.add(topic)
        else:
            topics.discard(topic)
        if not topics:
            del self._topics_of[name]

    def forget(self, name: str) -> None:
        """Remove the rights of a group that is about to be deleted; in the log they are removed before the group."""
        topics = self.forbidden(name)
        if topics:
            self._pairs.put({_key(name, topic): None for topic in topics}, None)

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

        self._pairs.put({key: None if wanted else b"1"}, answered(connection, Readable(command.ticket, wanted)))

    def _unknown(self, command: SetReadable) -> Failure | None:
        """The refusal of a pair, else None. Group and topic must exist, so that the number of stored pairs is bounded."""
        if self._metadata.group(command.group) is None:
            return Failure(ErrorCode.GROUP_NOT_FOUND, f"group {command.group} does not exist")
        if self._metadata.topic(command.topic) is None:
            return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
        return None


def _key(name: str, topic: str) -> bytes:
    return f"{topic}@{name}".encode()
