"""Topics as configuration: created on first use or by a tool, changed, listed, deleted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from domain import address, limits
from domain.admin.topic import DeleteTopic, ListTopics, PutTopic, QueryTopic, TopicFound, TopicList
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.message.receipt import RETRY_V1, RETRY_V2
from domain.ports import Clock
from domain.store.store_ports import Metadata
from domain.topic import attribute, lite
from domain.topic.topic import PERM_READ, PERM_READ_WRITE, Topic
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs, answered_with
from gateway.usecase.topics_and_groups import every
from gateway.usecase.topics_and_groups.deleted_topics import DeletedTopics
from gateway.usecase.topics_and_groups.policy import NodePolicy
from gateway.usecase.waiting.long_questions import STEP_ITEMS, LongQuestions, Steps

Then = Callable[[Topic | Failure], None]
RetryTopic = tuple[str, int, bool]
"""A POP retry topic of a group for a topic: (name, version as in receipts, True: nobody else can have messages in it)."""


MADE_PER_TURN: Final = 32
"""Topics that are created on first use in one turn of the loop; with their queues, some 200 calls each. Others wait."""


class Topics:
    """The verbs QueryTopic, ListTopics, PutTopic and DeleteTopic, and `ensure` for use cases that need a topic."""

    def __init__(
        self,
        metadata: Metadata,
        clock: Clock,
        policy: NodePolicy,
        questions: LongQuestions,
        deleted: DeletedTopics | None = None,
    ) -> None:
        """`deleted`: None: this node makes and deletes none."""
        self._metadata = metadata
        self._deleted = deleted
        self._questions = questions
        self._clock = clock
        self._policy = policy
        self._making: dict[str, list[Then]] = {}
        self._newest_ms = 0
        self._made = 0
        self._to_make: deque[Topic] = deque()
        self.verbs: Verbs = {QueryTopic: self._query, ListTopics: self._list, PutTopic: self._put, DeleteTopic: self._delete}

    def find(self, name: str) -> Topic | None:
        """A topic by name, None when it does not exist."""
        return self._metadata.topic(name)

    def unreadable(self, name: str, queue_id: int = -1) -> Failure | None:
        """The failure of a receive from the topic or the queue, else None: TOPIC_NOT_FOUND, NOT_ALLOWED, QUEUE_ILLEGAL."""
        topic = self._metadata.topic(name)
        if topic is None:
            return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {name} does not exist")
        if not topic.perm & PERM_READ:
            return Failure(ErrorCode.NOT_ALLOWED, f"topic {name} cannot be read")
        if queue_id >= topic.read_queues:
            return Failure(ErrorCode.QUEUE_ILLEGAL, f"topic {name} has no queue {queue_id}")
        return None

    def to_read(self, name: str) -> Topic | None:
        """The topic for a reader by offset. A lite topic's queue is read as a topic with one queue (LmqTopicConfigManager)."""
        if not name.startswith(lite.PREFIX):
            return self._metadata.topic(name)
        parent, lite_topic = lite.split(name)
        if not lite_topic:
            return self._metadata.topic(name)
        topic = self._metadata.topic(parent)
        if topic is None or topic.type != "LITE" or not lite.is_name(lite_topic):
            return None
        return replace(topic, name=name, read_queues=1, write_queues=1)

    def ensure(self, name: str, then: Then, queues: int = 0) -> None:
        """Call `then` with the topic, created when the policy allows. Failure: TOPIC_ILLEGAL, TOPIC_NOT_FOUND, or the store's.

        `queues`: how many the client wants for a new topic, at most those of the policy; 0: those of the policy; -1: as 0, but
        a topic that was deleted is not created again: TOPIC_DELETED.
        """
        topic = self._metadata.topic(name)
        if topic is not None:
            then(topic)
            return
        legal = address.is_topic(name) or address.is_pop_retry_topic(name)
        if not legal or (address.is_system_topic(name) and not address.is_derived_topic(name)):
            then(Failure(ErrorCode.TOPIC_ILLEGAL, f"topic {name!r} is not a name that a topic can be given"))
            return
        if queues < 0 and self._deleted is not None and name in self._deleted:
            then(Failure(ErrorCode.TOPIC_DELETED, f"topic {name} was deleted"))
            return
        derived = address.is_derived_topic(name)
        if not self._policy.create_topics and not derived:
            then(Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {name} does not exist, and topics are not made on first use here"))
            return
        waiting = self._making.get(name)
        if waiting is not None:
            waiting.append(then)
            return
        self._making[name] = [then]
        most = self._policy.queues
        count = queues_of_derived(self._metadata, name) if derived else min(queues, most) if queues > 0 else most
        self._later(
            Topic(
                name,
                read_queues=count,
                write_queues=count,
                # A topic that is created on first use takes messages of every type.
                type="NORMAL" if derived else "MIXED",
                durability=self._metadata.default_durability(),
                created_ms=self.created_ms(),
            )
        )

    def created_ms(self) -> int:
        """The creation time of a new topic: the wall clock, but a time of its own, because it is also the topic's epoch."""
        self._newest_ms = max(self._clock.wall_ms(), self._newest_ms + 1)
        return self._newest_ms

    def _later(self, topic: Topic) -> None:
        """Create a topic in this turn, or in one of the next when many are created."""
        if self._made == 0:
            self._clock.call_at(self._clock.monotonic_ns(), self._next_turn)
        if self._made < MADE_PER_TURN:
            self._made += 1
            self._make(topic)
        else:
            self._to_make.append(topic)

    def _next_turn(self) -> None:
        self._made = 0
        while self._to_make and self._made < MADE_PER_TURN:
            self._later(self._to_make.popleft())

    def _make(self, topic: Topic) -> None:
        def made(result: None | Failure) -> None:
            if result is None:
                self._is_there(topic.name)
            for then in self._making.pop(topic.name, []):
                then(topic if result is None else result)

        self._metadata.put_topic(topic, made)

    def _is_there(self, name: str) -> None:
        if self._deleted is not None:
            self._deleted.forget(name)

    def _query(self, connection: ClientConnection, command: QueryTopic) -> None:
        answer = answered_with(connection, command.ticket, TopicFound)
        topic = self._metadata.topic(command.topic)
        if topic is not None:
            answer(topic)
        elif command.create:
            self.ensure(command.topic, answer)
        elif not address.is_topic(command.topic):
            answer(Failure(ErrorCode.TOPIC_ILLEGAL, f"topic {command.topic!r} is not a name that a topic can have"))
        else:
            answer(Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist"))

    def _list(self, connection: ClientConnection, command: ListTopics) -> None:
        if 0 < command.limit <= STEP_ITEMS:
            connection.answer(TopicList(command.ticket, self._metadata.topics_after(command.after, command.limit)))
        else:
            self._questions.ask(connection, self._all(connection, command))

    def _all(self, connection: ClientConnection, command: ListTopics) -> Steps:
        found: list[Topic] = []
        for topic in every.topics(self._metadata, command.after):
            found.append(topic)
            if len(found) == command.limit:
                break
            if len(found) % STEP_ITEMS == 0:
                yield
        connection.answer(TopicList(command.ticket, found))

    def _put(self, connection: ClientConnection, command: PutTopic) -> None:
        topic = command.topic
        failure = _illegal(topic)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return
        known = self._metadata.topic(topic.name)
        created_ms = known.created_ms if known is not None else self.created_ms()

        def put(result: None | Failure) -> None:
            if result is None:
                self._is_there(topic.name)
            connection.answer(Done(command.ticket) if result is None else Refused(command.ticket, result))

        self._metadata.put_topic(replace(topic, created_ms=created_ms), put)

    def _delete(self, connection: ClientConnection, command: DeleteTopic) -> None:
        if self._metadata.topic(command.topic) is None:
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
            connection.answer(Refused(command.ticket, failure))
            return
        if address.is_system_topic(command.topic):
            connection.answer(Refused(command.ticket, Failure(ErrorCode.NOT_ALLOWED, f"{command.topic} belongs to the system")))
            return
        self._questions.ask(connection, self._drop(connection, command))

    def _drop(self, connection: ClientConnection, command: DeleteTopic) -> Steps:
        def deleted(result: None | Failure) -> None:
            if result is not None:
                connection.answer(Refused(command.ticket, result))
            elif self._deleted is None or address.is_derived_topic(command.topic):
                connection.answer(Done(command.ticket))
            else:
                # The topic is gone either way. A delivery that comes after the answer must not make it again.
                self._deleted.remember(command.topic, lambda _: connection.answer(Done(command.ticket)))

        # Its POP retry topics are deleted too: a new topic of the same name must not deliver their messages.
        found: list[str] = []
        for number, group in enumerate(every.groups(self._metadata), 1):
            found += [name for name, _, alone in retry_topics(self, group.name, command.topic) if alone]
            if number % STEP_ITEMS == 0:
                yield
        for retry_topic in found:  # together: all or nothing is deleted for a client that goes
            self._metadata.delete_topic(retry_topic, _dropped)
        self._metadata.delete_topic(command.topic, deleted)

    def is_of_others(self, retry_topic: str, topic: str) -> bool:
        """True when another group and topic have the same POP retry topic, of version 1: its name does not show where the
        group's name ends."""
        known = self._metadata
        if known.group(retry_topic.removeprefix(address.RETRY_PREFIX)) is not None:
            return True
        pairs = address.retried_by_pop(retry_topic)
        return any(name != topic and known.group(group) and known.topic(name) for group, name in pairs)


def retry_topics(topics: Topics, group: str, topic: str) -> list[RetryTopic]:
    """The POP retry topics that a group has for a topic, the one with the older messages last."""
    found: list[RetryTopic] = []
    name = address.pop_retry_topic(group, topic)
    if topics.find(name) is not None:
        found.append((name, RETRY_V2, True))
    name = address.pop_retry_topic_v1(group, topic)
    if topics.find(name) is not None:
        found.append((name, RETRY_V1, not topics.is_of_others(name, topic)))
    return found


def queues_of_derived(metadata: Metadata, name: str) -> int:
    """Queues of a derived topic: those of the group (RocketMQ: retryQueueNums) for its retry topic, else 1."""
    group = metadata.group(name[len(address.RETRY_PREFIX) :]) if name.startswith(address.RETRY_PREFIX) else None
    return min(max(group.retry_queues, 1), limits.QUEUES_PER_TOPIC_MAX) if group is not None else 1


def _dropped(_: None | Failure) -> None:
    """Ignore the result: when the log refuses this deletion, it also refuses that of the topic itself, which follows."""


def _illegal(topic: Topic) -> Failure | None:
    """The reason for which `topic` cannot be created, else None."""
    if not address.is_topic(topic.name):
        return Failure(ErrorCode.TOPIC_ILLEGAL, f"topic {topic.name!r}: 1 to 127 of the characters % | a-z A-Z 0-9 _ -")
    if address.is_system_topic(topic.name):
        return Failure(ErrorCode.TOPIC_ILLEGAL, f"topic {topic.name}: the name belongs to the system")
    most = limits.QUEUES_PER_TOPIC_MAX
    if not (0 <= topic.read_queues <= most and 0 <= topic.write_queues <= most):
        return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"topic {topic.name}: queues must be 0 to {most}")
    fault = attribute.faulty(topic.attributes)
    if fault is not None:
        return fault
    if topic.perm & ~PERM_READ_WRITE & ~8:
        return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"topic {topic.name}: perm {topic.perm} is none of 2, 4, 6")
    return None
