"""Following: reading a whole topic from a position in each queue, for streams. Commands at the end of all queues wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, final

from domain import address, limits
from domain.command import FollowTopic
from domain.errors import ErrorCode, Failure
from domain.event import Refused, TopicFollowed
from domain.filter.path_matching import is_filter
from domain.ports import Clock
from domain.store.store_ports import MessageLog
from domain.topic.topic import PERM_READ, Group, Topic
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.follow_call import FollowCall, FollowContext
from gateway.usecase.handler import Verbs
from gateway.usecase.topics_and_groups.topics import Topics
from gateway.usecase.waiting.long_polls import LiveTails, RightsCheck
from gateway.usecase.waiting.read_turns import ReadTurns

SERVED_PER_TURN: Final = 128
"""Commands that are served in one turn of the loop; one message may be for thousands."""
MESSAGES_PER_TURN: Final = 256
"""Messages that these are given, after which the others wait for the next turn."""


@final
class TopicFollowing:
    """The verb FollowTopic. As a StoreListener it serves the commands that wait.

    _woken   commands that want to be served, in the order in which they were woken -> messages that have arrived for them
    """

    def __init__(
        self, log: MessageLog, topics: Topics, clock: Clock, reads: ReadTurns, find_group: Callable[[str], Group | None],
        tails: LiveTails | None,
    ) -> None:  # fmt: skip
        self._context = FollowContext(log, clock, reads, find_group, tails)
        self._topics = topics
        self._clock = clock
        self._woken: dict[FollowCall, int] = {}
        self.verbs: Verbs = {FollowTopic: self._follow}

    @property
    def expired(self) -> int:
        """Messages that readers were not given, since their expiry was over."""
        return self._context.expired

    def waiting(self) -> int:
        """Commands that wait for messages."""
        return len(self._context.polls)

    def review(self, check: RightsCheck) -> None:
        """Refuse the waiting commands that `check` forbids: rights have changed."""
        self._context.polls.review(check)

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """Wake the commands that wait for the topic."""
        parked = self._context.polls.on_topic(topic)
        if parked is None:
            return
        begins = not self._woken
        for calls in parked:
            for call in calls:
                assert isinstance(call, FollowCall)
                if call.arrived(queue_id, records):
                    self._woken[call] = self._woken.get(call, 0) + len(records)
        if begins and self._woken:
            self._clock.call_soon(self._serve)

    def freed(self, group: str, topic: str) -> None:
        """Do nothing: readers by offset lease nothing."""

    def _serve(self) -> None:
        given = 0
        for call in list(islice(self._woken, SERVED_PER_TURN)):
            given += self._woken.pop(call)
            if not self._context.polls.refused(call):
                call.serve()
            if given >= MESSAGES_PER_TURN:
                break
        if self._woken:
            self._clock.call_at(self._clock.monotonic_ns(), self._serve)

    def _follow(self, connection: ClientConnection, command: FollowTopic) -> None:
        topic = self._topics.to_read(command.topic)
        if topic is not None or command.start not in ("first", "last") or not _may_be_made(command.topic):
            self._begin(connection, command, topic)
            return

        def made(result: Topic | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                self._begin(connection, command, result)

        # As a message or a subscription does: a reader may come before the first message.
        self._topics.ensure(command.topic, made)

    def _begin(self, connection: ClientConnection, command: FollowTopic, topic: Topic | None) -> None:
        failure = _illegal(topic, command)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return
        assert topic is not None
        if command.epoch not in (-1, topic.created_ms):
            connection.answer(TopicFollowed(command.ticket, "OTHER_EPOCH", [], dict(command.offsets), topic.created_ms))
            return
        command.limit = max(1, min(command.limit, limits.BATCH_MESSAGES_MAX))
        command.max_bytes = max(1, min(command.max_bytes, limits.PULL_BYTES_MAX))
        queues = range(max(topic.read_queues, 1)) if command.queue_id < 0 else [command.queue_id]
        FollowCall(self._context, connection, command, topic.created_ms).begin(queues)


def _may_be_made(name: str) -> bool:
    """True for a name that clients give to topics."""
    return address.is_topic(name) and not name.startswith("%") and not address.is_system_topic(name)


def _illegal(topic: Topic | None, command: FollowTopic) -> Failure | None:
    name = command.topic
    if topic is None:
        return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {name} does not exist")
    if not topic.perm & PERM_READ:
        return Failure(ErrorCode.NOT_ALLOWED, f"topic {name} cannot be read")
    if command.queue_id >= max(topic.read_queues, 1):
        return Failure(ErrorCode.QUEUE_ILLEGAL, f"topic {name} has no queue {command.queue_id}")
    if command.queue_id < 0 and topic.read_queues > limits.FOLLOWED_QUEUES_MAX:
        text = (
            f"topic {name} has {topic.read_queues} queues: one stream follows {limits.FOLLOWED_QUEUES_MAX}, so name one queue"
        )
        return Failure(ErrorCode.ARGUMENT_ILLEGAL, text)
    if command.pattern and not is_filter(command.pattern):
        return Failure(ErrorCode.FILTER_ILLEGAL, f"{command.pattern!r} is no filter over paths")
    return None
