"""The book of topics: made, read, changed and deleted; deleted by themselves when they expire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.access.principal import Principal
from domain.address import topic_of_path
from domain.admin.data_topic import (
    ChangeDataTopic,
    DataTopicFound,
    DataTopicIds,
    DataTopicJoined,
    DeleteDataTopic,
    JoinDataTopic,
    LeaveDataTopic,
    ListDataTopics,
    MakeDataTopic,
    QueryDataTopic,
)
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.message import property as properties
from domain.message.message import Placed
from domain.ports import Clock, Entropy
from domain.store.store_ports import Expected, State, StateChange
from domain.topic.data_topic import (
    DataTopic,
    decode,
    encode,
    fault_of,
    is_name,
    kept,
    matches,
    patched,
)
from domain.topic.topic import Topic
from gateway.access.path_rights import PathRights
from gateway.connection.client_connection import ClientConnection
from gateway.pubsub.expiry import StoredTopic, TopicExpiry
from gateway.pubsub.quota import TopicQuota
from gateway.pubsub.subscribers import Subscribers
from gateway.usecase.handler import Verb, Verbs
from gateway.usecase.publish import latest
from gateway.usecase.publish.send import Sending
from gateway.usecase.topics_and_groups.followed_space import FollowedSpace
from gateway.usecase.topics_and_groups.topics import Topics
from gateway.usecase.waiting.long_questions import STEP_ITEMS, LongQuestions, Steps

SPACE: Final = "pubsub"
"""State space: id -> record of a topic."""
ID_BYTES: Final = 6


@final
class DataTopics:
    """The verbs of domain/admin/data_topic.py.

    _space        key -> topic and record
    _ids          name -> id
    _making       names of topics that are being made
    """

    def __init__(
        self,
        state: State,
        topics: Topics,
        sending: Sending,
        clock: Clock,
        entropy: Entropy,
        questions: LongQuestions,
        rights: PathRights,
    ) -> None:
        self.rights = rights
        self.subscribers = Subscribers(clock)
        self._state = state
        self._topics = topics
        self._sending = sending
        self._clock = clock
        self._entropy = entropy
        self._questions = questions
        self._ids: dict[str, str] = {}
        self._making: set[str] = set()
        self._quota = TopicQuota()
        self._space = FollowedSpace(state, SPACE, _stored_topic)
        self._expiry = TopicExpiry(self._space.values, clock, lambda topic, done: self._remove(topic, False, done))
        self._space.follow(self._changed)
        self.verbs: Verbs = {
            MakeDataTopic: self._in_turn(self._make),
            ChangeDataTopic: self._in_turn(self._change),
            QueryDataTopic: self._query,
            ListDataTopics: self._list,
            DeleteDataTopic: self._delete,
            JoinDataTopic: self._join,
            LeaveDataTopic: self._leave,
        }

    def __len__(self) -> int:
        return len(self._space.values)

    @property
    def refused(self) -> int:
        """How many topics, and changes of topics, were refused for lack of room."""
        return self._quota.refused

    def value_removed(self, path: str) -> None:
        """The latest value of a path was removed by a command that knows nothing of topics: subscriptions of its topic end."""
        identity = self._ids.get(path)
        if identity is not None:
            self.subscribers.end(identity)

    # The view

    def _changed(self, key: bytes, old: StoredTopic | None, new: StoredTopic | None) -> None:
        """A record is durable."""
        if old is not None:
            self._quota.remove(old.topic, len(old.record))
            self._ids.pop(old.topic.name, None)
        if new is None:
            self.subscribers.end(key.decode())
            return
        self._quota.add(new.topic, len(new.record))
        self._ids[new.topic.name] = new.topic.id
        self.subscribers.changed(new.topic)
        self._expiry.follow(key, new.topic)

    def _stored(self, identity: str) -> StoredTopic | None:
        return self._space.values.get(identity.encode("utf-8", "replace"))

    def _found(self, connection: ClientConnection, command: Command, identity: str, publish: bool | None) -> DataTopic | None:
        """The topic with this id, when the client may publish there, or subscribe, or with None either; else it is refused."""
        known = self._stored(identity)
        failure: Failure | None
        if known is None or known.topic.is_over(self._clock.wall_ms()):
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, "there is no such topic")
        elif publish is None:
            failure = self.rights.denial(connection, command, known.topic.name, False)
            if failure is not None:
                failure = self.rights.refusal(connection, command, known.topic.name, True)
        else:
            failure = self.rights.refusal(connection, command, known.topic.name, publish)
        if failure is None:
            return None if known is None else known.topic
        connection.answer(Refused(getattr(command, "ticket", None), failure))
        return None

    # Making and changing

    def _in_turn(self, verb: Verb) -> Verb:
        """A verb that takes some of the time of questions: many topics at once are made in several turns of the loop."""

        def step(connection: ClientConnection, command: Command) -> Steps:
            verb(connection, command)
            yield from ()

        return lambda connection, command: self._questions.ask(connection, step(connection, command))

    def _make(self, connection: ClientConnection, command: MakeDataTopic) -> None:
        failure = self.rights.refusal(connection, command, command.name, True) if is_name(command.name) else None
        made = self._new(connection, command) if failure is None else failure
        if isinstance(made, Failure):
            connection.answer(Refused(command.ticket, made))
            return
        record = encode(made)
        change = StateChange(SPACE, made.id.encode(), record)
        self._making.add(made.name)
        self._quota.add(made, len(record))

        def done(result: list[Placed] | None | Failure) -> None:
            self._making.discard(made.name)
            self._quota.remove(made, len(record))
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                connection.answer(DataTopicFound(command.ticket, made, command.first is not None))

        def ensured(result: Topic | Failure) -> None:
            if isinstance(result, Failure):
                done(result)
            elif command.first is None:
                self._state.put([change], done)
            else:
                self._sending.submit([command.first], done, [change], user=made.user)

        if command.first is not None and made.user and properties.is_storable(properties.HG_PRINCIPAL, made.user):
            command.first.properties += properties.entry(properties.HG_PRINCIPAL, made.user)
        self._topics.ensure(topic_of_path(made.name), ensured)

    def _new(self, connection: ClientConnection, command: MakeDataTopic) -> DataTopic | Failure:
        name, given = command.name, command.given
        if not is_name(name):
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, "topic-name is a path without wildcards, of at most 512 bytes")
        fault = fault_of(given)
        if fault:
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, fault)
        if name in self._ids or name in self._making:
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, "topic-name is in use")
        principal: Principal | None = getattr(command, "principal", None) or connection.principal
        identity = self._entropy.token(ID_BYTES).hex()
        user = "" if principal is None else principal.user
        made = DataTopic(identity, name, user, command.host, self._clock.wall_ms(), kept(given))
        if made.is_over(made.created_ms):
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, "expiration-date is past")
        if self._stored(identity) is not None:
            return Failure(ErrorCode.OVERLOADED, "the id that was chosen is in use: ask again")
        return self._quota.refusal(made, 1, len(encode(made))) or made

    def _change(self, connection: ClientConnection, command: ChangeDataTopic) -> None:
        old = self._found(connection, command, command.id, True)
        stored = None if old is None else self._stored(old.id)
        if old is None or stored is None:
            return
        given = kept(command.given if command.whole else patched(old.given, command.given))
        changed = DataTopic(old.id, old.name, old.user, old.host, old.created_ms, given)
        record, before = encode(changed), stored.record
        fault = fault_of(given)
        failure: Failure | None = None
        if command.name and command.name != old.name:
            failure = Failure(ErrorCode.ARGUMENT_ILLEGAL, "topic-name cannot be changed")
        elif fault:
            failure = Failure(ErrorCode.ARGUMENT_ILLEGAL, fault)
        elif len(record) > len(before):
            failure = self._quota.refusal(changed, 0, len(record) - len(before))
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return

        def done(result: None | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                connection.answer(DataTopicFound(command.ticket, changed))

        key = old.id.encode()
        self._state.put([StateChange(SPACE, key, record)], done, [Expected(SPACE, key, before)])

    # Reading

    def _query(self, connection: ClientConnection, command: QueryDataTopic) -> None:
        topic = self._found(connection, command, command.id, None)
        if topic is None:
            return
        if not command.value:
            connection.answer(DataTopicFound(command.ticket, topic))
            return

        def got(value: bytes | None | Failure) -> None:
            if isinstance(value, Failure):
                connection.answer(Refused(command.ticket, value))
            else:
                connection.answer(DataTopicFound(command.ticket, topic, value is not None))

        latest.read_value(self._state, topic.name, self._clock, got)

    def _list(self, connection: ClientConnection, command: ListDataTopics) -> None:
        self._questions.ask(connection, self._listed(connection, command))

    def _listed(self, connection: ClientConnection, command: ListDataTopics) -> Steps:
        found: list[str] = []
        now = self._clock.wall_ms()
        denial = self.rights.denial
        for at, (topic, _) in enumerate(list(self._space.values.values()), 1):
            wanted = not topic.is_over(now) and matches(topic, command.name, command.id, command.given, command.prefixes)
            if wanted and not (
                denial(connection, command, topic.name, False) and denial(connection, command, topic.name, True)
            ):
                found.append(topic.id)
            if at % STEP_ITEMS == 0:
                yield
        connection.answer(DataTopicIds(command.ticket, found))

    def _join(self, connection: ClientConnection, command: JoinDataTopic) -> None:
        topic = self._found(connection, command, command.id, False)
        if topic is None:
            return
        failure = self.subscribers.join(connection, command.ticket, topic)
        connection.answer(Refused(command.ticket, failure) if failure else DataTopicJoined(command.ticket, topic))

    def _leave(self, connection: ClientConnection, command: LeaveDataTopic) -> None:
        self.subscribers.leave(connection, command.ticket)

    # Deleting

    def _delete(self, connection: ClientConnection, command: DeleteDataTopic) -> None:
        topic = self._found(connection, command, command.id, True)
        if topic is None:
            return

        def done(result: None | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                self.subscribers.end(topic.id)
                connection.answer(Done(command.ticket))

        self._remove(topic, command.data_only, done)

    def _remove(self, topic: DataTopic, data_only: bool, done: Callable[[None | Failure], None]) -> None:
        """The data and the topic go in one commit."""
        changes = [StateChange(latest.SPACE, topic.name.encode(), None)]
        if not data_only:
            changes.append(StateChange(SPACE, topic.id.encode(), None))
        self._state.put(changes, done)


def _stored_topic(record: bytes) -> StoredTopic:
    return StoredTopic(decode(record), record)
