"""Wait for metadata: commands of a connection are held until the topics and groups that they name are known here."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, final

from domain.admin.client import QueryProducers
from domain.client.membership import Heartbeat
from domain.client.mqtt_session import SendOnce, Subscribe
from domain.command import Command, Disconnected, Send, Watch
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.transaction import EndTransaction
from domain.walk import Walk, Walks
from gateway.apache.topics.metadata import RocketmqMetadata
from gateway.brokers.cluster_map import Known
from gateway.brokers.live_tail import Tail, topic_of_pattern
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler

OF_PRODUCERS: Final = (EndTransaction, QueryProducers)
"""Commands whose group is one of producers, which brokers do not configure."""
HELD_MAX: Final = 10_000
"""Commands of one connection that are held."""


@final
class AwaitMetadata:
    """Handler in front of the use cases, which look up topics and groups without a wait.

    Commands of one connection keep their order. A command with an unknown topic or group is passed on: the use case creates it,
    or refuses the command.

    _held   connection -> its held commands; the queries are those of the first one
    """

    def __init__(self, handler: Handler, metadata: RocketmqMetadata, tail: Tail, walks: Walks) -> None:
        self._handle = handler.handle
        self._walks = walks
        self._metadata = metadata
        self._tail = tail
        self._held: dict[ClientConnection, deque[Command]] = {}

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Handler.handle."""
        held = self._held.get(connection)
        if held is not None:
            if len(held) >= HELD_MAX and type(command) is not Disconnected:
                text = f"{HELD_MAX} requests of this connection wait for the cluster's name servers: repeat it later"
                _refuse(connection, command, Failure(ErrorCode.OVERLOADED, text))
            else:
                held.append(command)
            return
        if self._is_known(command):
            self._handle(connection, command)
        else:
            self._held[connection] = deque([command])
            self._ask(connection, command)

    def _is_known(self, command: Command) -> bool:
        if isinstance(command, (Subscribe, Watch)):
            return False
        topic = self._metadata.topic
        for name in _topics(command):
            if topic(name) is None:
                return False
        known = self._metadata.group
        return all(known(group) is not None for group in _groups(command))

    def _ask(self, connection: ClientConnection, command: Command) -> None:
        """Query the topics and groups that a command names; then pass it on, and the commands that have waited after it."""
        left = 1
        failures: list[Failure] = []

        def answered(failure: Failure | None) -> None:
            nonlocal left
            left -= 1
            if failure is not None and failure.code is not ErrorCode.TOPIC_NOT_FOUND:
                failures.append(failure)
            if not left:
                self._walks.begin(self._go_on(connection, command, failures))

        for name in set(_topics(command)):
            left += 1
            self._metadata.ensure_topic(name, answered)
        for name in _groups(command):
            left += 1
            self._metadata.known_groups.ensure(name, answered)
        for pattern in _patterns(command):
            left += 1
            self._tailed(pattern, answered)
        answered(None)

    def _tailed(self, pattern: str, answered: Known) -> None:
        """Start the tails of the topics of a filter before its subscription is answered."""
        name = topic_of_pattern(pattern)
        if name:
            self._metadata.ensure_topic(name, lambda _: self._tail.ready(pattern, answered))
        else:
            self._tail.ready(pattern, answered)

    def _go_on(self, connection: ClientConnection, command: Command, failures: list[Failure]) -> Walk:
        """Pass on the first held command and those behind it, up to one that names something unknown, which is queried.

        An answer that comes at once begins another walk, so that any number of commands takes the same depth of the stack.
        """
        held = self._held[connection]
        if failures:
            _refuse(connection, command, failures[0])
        else:
            self._handle(connection, command)
        held.popleft()
        yield
        while held and self._is_known(held[0]):
            self._handle(connection, held.popleft())
            yield
        if held:
            self._ask(connection, held[0])
        else:
            del self._held[connection]


def _topics(command: Command) -> Iterator[str]:
    if isinstance(command, (Send, SendOnce)):
        for message in command.messages:
            yield message.topic
        return
    topic = getattr(command, "topic", "")
    if isinstance(topic, str) and topic:
        yield topic


def _groups(command: Command) -> set[str]:
    if isinstance(command, Subscribe):
        return {each.group for each in command.subscriptions if each.group}
    if isinstance(command, Heartbeat):
        # A group that is not known would be made with the defaults, over what the brokers have of it.
        return {each.group for each in command.consumers}
    group = "" if isinstance(command, OF_PRODUCERS) else getattr(command, "group", "")
    return {group} if isinstance(group, str) and group else set()


def _patterns(command: Command) -> list[str]:
    if isinstance(command, Watch):
        return [command.pattern] if command.pattern else []
    if isinstance(command, Subscribe):
        return [each.pattern for each in command.subscriptions if each.pattern]
    return []


def _refuse(connection: ClientConnection, command: Command, failure: Failure) -> None:
    if not (isinstance(command, Send) and not command.wait):
        connection.answer(Refused(getattr(command, "ticket", None), failure))
