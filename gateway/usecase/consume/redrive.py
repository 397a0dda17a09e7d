"""Redrive: the dead letters of a group are given to that group again, and to no other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, final

from domain import address, limits
from domain.admin.group import RedriveGroup
from domain.admin.subscription import Redriven
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.message import property as properties
from domain.message.message import Message, Placed
from domain.message.record import Record
from domain.store.store_ports import GroupPositions, MessageLog, Metadata, ReadResult
from domain.store.store_request import ReadRequest
from domain.topic.topic import Topic
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.dead_letters import copy_of
from gateway.usecase.handler import Verbs, answered_with
from gateway.usecase.publish.send import Sending
from gateway.usecase.topics_and_groups.topics import Topics
from gateway.usecase.waiting.fan_in import FanIn

REDRIVE_MAX: Final = 10_000
"""Dead letters of one call."""
READ_MAX: Final = 100_000
"""Messages of the dead-letter topic that one call reads: in one that several groups have, most may be of others."""
PART: Final = 256
"""Dead letters that are read and appended together."""
MARKS: Final = (
    properties.DLQ_ORIGIN_TOPIC, properties.DLQ_ORIGIN_MESSAGE_ID, properties.HG_DLQ_GROUP, "knativeerrordest",
    "knativeerrorcode", "knativeerrordata", "CE_knativeerrordest", "CE_knativeerrorcode", "CE_knativeerrordata",
)  # fmt: skip
"""Properties of a dead letter that its second life does not have."""
_LITE: Final = "LITE"

Target = Callable[[Record], str | Failure]
"""Dead letter -> the retry topic that it goes to; "": it is another group's, and stays."""


@final
class Redriving:
    """The verb RedriveGroup, and `redrive` for groups whose dead letters are elsewhere.

    Dead letters are read from where the last redrive ended, which is the position of the group on its dead-letter topic, and
    appended to a retry topic of the group. A crash between append and commit gives some of them twice, and loses none. One
    redrive of a group runs at a time.
    """

    def __init__(
        self, log: MessageLog, positions: GroupPositions, metadata: Metadata, topics: Topics, sending: Sending
    ) -> None:
        self._log = log
        self._positions = positions
        self._metadata = metadata
        self._topics = topics
        self._sending = sending
        self._under_way: set[str] = set()
        self.verbs: Verbs = {RedriveGroup: self._redrive}

    def _redrive(self, connection: ClientConnection, command: RedriveGroup) -> None:
        group = command.group
        if self._metadata.group(group) is None:
            failure = Failure(ErrorCode.GROUP_NOT_FOUND, f"group {group} does not exist")
            connection.answer(Refused(command.ticket, failure))
            return

        done = answered_with(connection, command.ticket, Redriven)
        target = partial(self._target, group)
        self.redrive(group, address.dead_letter_topic(group), command.limit, target, done, connection.wrote)

    def _target(self, group: str, record: Record) -> str | Failure:
        """The retry topic of the consumer that gave up: that of its group for a consumer that gives messages back, that of its
        group and the topic for one that leases them."""
        origin = properties.text(record.properties, properties.DLQ_ORIGIN_TOPIC)
        topic = self._topics.find(origin)
        if topic is not None and topic.type == _LITE:
            return Failure(ErrorCode.NOT_SUPPORTED, f"dead letters of {origin} are of lite topics, which have no retry topic")
        sent_back = properties.text(record.properties, properties.ORIGIN_MESSAGE_ID)
        if sent_back or not address.is_topic(origin):
            return address.retry_topic(group)
        return address.pop_retry_topic(group, origin)

    def redrive(
        self,
        group: str,
        dead: str,
        limit: int,
        target: Target,
        done: Callable[[int | Failure], None],
        wrote: Callable[[int], None],
    ) -> None:
        """Give up to `limit` dead letters of the topic `dead` to the group again. `done`: their number, or CHANGED and errors
        of the store and of `target`; dead letters given before an error stay given. `wrote`: called with the bytes of bodies
        that are stored again."""
        if group in self._under_way:
            done(Failure(ErrorCode.CHANGED, f"another redrive of group {group} is under way"))
            return
        if self._topics.find(dead) is None:
            done(0)
            return
        self._under_way.add(group)

        def ended(result: int | Failure) -> None:
            self._under_way.discard(group)
            done(result)

        _Walk(self, group, dead, max(1, min(limit, REDRIVE_MAX)), target, ended, wrote).start()

    def read(self, topic: str, offset: int, limit: int, done: Callable[[ReadResult | Failure], None]) -> None:
        """Dead letters from an offset of queue 0 on."""
        self._log.read(ReadRequest(topic, 0, offset, limit, limits.PULL_BYTES_MAX), done)

    def position(self, group: str, topic: str, done: Callable[[int], None]) -> None:
        """The offset at which the next redrive begins."""
        self._positions.offset(group, topic, 0, lambda result: done(0 if isinstance(result, Failure) else result))

    def give(self, messages: list[Message], done: Callable[[list[Placed] | Failure], None]) -> None:
        """Append messages to their retry topics, which are made when they do not exist."""

        def ready(_: dict[tuple[str], Topic], failure: Failure | None) -> None:
            if failure is not None:
                done(failure)
            else:
                self._sending.submit(messages, done)

        made: FanIn[Topic, str] = FanIn(self._topics.ensure, ready)
        made.start((each.topic,) for each in messages)

    def commit(self, group: str, topic: str, offset: int, done: Callable[[None | Failure], None]) -> None:
        """Dead letters below `offset` have been given again."""
        self._positions.commit(group, [(topic, 0, offset)], done)


@final
class _Walk:
    """One redrive, PART by PART."""

    def __init__(
        self,
        owner: Redriving,
        group: str,
        dead: str,
        limit: int,
        target: Target,
        done: Callable[[int | Failure], None],
        wrote: Callable[[int], None],
    ) -> None:
        self._owner = owner
        self._group = group
        self._dead = dead
        self._left = limit
        self._unread = READ_MAX
        self._target = target
        self._count = 0
        self._done = done
        self._wrote = wrote

    def start(self) -> None:
        self._owner.position(self._group, self._dead, self._read)

    def _read(self, offset: int) -> None:
        if self._left <= 0 or self._unread <= 0:
            self._done(self._count)
            return
        self._owner.read(self._dead, offset, PART, self._found)

    def _found(self, result: ReadResult | Failure) -> None:
        if isinstance(result, Failure):
            self._done(result)
            return
        if not result.records:
            if result.status == "TOO_SMALL" and result.next_offset:
                self._read(result.next_offset)
            else:
                self._done(self._count)
            return
        messages: list[Message] = []
        after = 0
        for each in result.records:
            if len(messages) >= self._left:
                break
            record = Record(each)
            topic = self._target(record)
            if isinstance(topic, Failure):
                self._done(topic)
                return
            if topic:
                messages.append(self._copy(record, topic))
            self._unread -= 1
            after = record.queue_offset + 1

        def given(placed: list[Placed] | Failure) -> None:
            if isinstance(placed, Failure):
                self._done(placed)
                return
            self._count += len(messages)
            self._left -= len(messages)
            self._owner.commit(
                self._group, self._dead, after, lambda failure: self._done(failure) if failure else self._read(after)
            )

        if messages:
            self._wrote(sum([len(each.body) for each in messages]))
            self._owner.give(messages, given)
        else:
            given([])

    def _copy(self, record: Record, topic: str) -> Message:
        origin = properties.text(record.properties, properties.DLQ_ORIGIN_TOPIC)
        message = copy_of(record, topic, reconsume_times=0, changes={})
        stored = properties.without(message.properties, MARKS)
        message.properties = properties.with_room(stored, {properties.RETRY_TOPIC: origin or "-"})
        return message
