"""Redrive: dead letters of a subscription are given to its group again, and to no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from domain import address, limits
from domain import property as properties
from domain.admin.subscription import Redrive, Redriven
from domain.command import Command
from domain.errors import Failure
from domain.event import Refused
from domain.message import Message, Placed
from domain.record import Record
from domain.store_ports import GroupPositions, MessageLog, ReadResult
from domain.store_request import ReadRequest
from domain.subscription.subscription import WebhookSubscription
from domain.topic import Topic
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.catalog.topics import Topics
from gateway.usecase.consume.dead_letters import copy_of
from gateway.usecase.handler import Verb
from gateway.usecase.publish.send import Sending
from gateway.webhooks.book import SubscriptionBook

REDRIVE_MAX: Final = 10_000
"""Dead letters of one call."""
PART: Final = 256
MARKS: Final = (
    properties.DLQ_ORIGIN_TOPIC, properties.DLQ_ORIGIN_MESSAGE_ID, "knativeerrordest", "knativeerrorcode", "knativeerrordata",
    "CE_knativeerrordest", "CE_knativeerrorcode", "CE_knativeerrordata",
)  # fmt: skip
"""Properties of a dead letter that its second life does not have."""


@final
class Redriving:
    """The verb Redrive.

    Dead letters are read from where the last redrive ended, which is the position of the group on its dead-letter topic, and
    appended to the group's own retry topic. A crash between append and commit gives some of them twice, and loses none.
    """

    def __init__(
        self, book: SubscriptionBook, log: MessageLog, positions: GroupPositions, topics: Topics, sending: Sending
    ) -> None:
        self._book = book
        self._log = log
        self._positions = positions
        self._topics = topics
        self._sending = sending

    def verbs(self) -> Mapping[type[Command], Verb]:
        """Redrive."""
        return {Redrive: self._redrive}

    def _redrive(self, connection: ClientConnection, command: Redrive) -> None:
        found = self._book.visible(command, command.id)
        if isinstance(found, Failure):
            connection.answer(Refused(command.ticket, found))
            return

        def done(result: int | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                connection.answer(Redriven(command.ticket, result))

        dead = found.dead_letter_topic or address.dead_letter_topic(found.group)
        if self._topics.find(dead) is None:
            done(0)
            return
        back = address.pop_retry_topic(found.group, address.topic_of_path(found.source))

        def ready(topic: Topic | Failure) -> None:
            if isinstance(topic, Failure):
                done(topic)
            else:
                _Walk(self, found, dead, back, min(command.limit, REDRIVE_MAX), done).start()

        self._topics.ensure(back, ready)

    def read(self, topic: str, offset: int, limit: int, done: Callable[[ReadResult | Failure], None]) -> None:
        """Dead letters from an offset of the one queue on."""
        self._log.read(ReadRequest(topic, 0, offset, min(limit, PART), limits.PULL_BYTES_MAX), done)

    def position(self, group: str, topic: str, done: Callable[[int], None]) -> None:
        """Where the next redrive begins."""
        self._positions.offset(group, topic, 0, lambda result: done(0 if isinstance(result, Failure) else result))

    def give(self, messages: list[Message], done: Callable[[list[Placed] | Failure], None]) -> None:
        """Append messages to the retry topic."""
        self._sending.submit(messages, done)

    def commit(self, group: str, topic: str, offset: int, done: Callable[[None | Failure], None]) -> None:
        """Dead letters below `offset` have been given again."""
        self._positions.commit(group, [(topic, 0, offset)], done)


@final
class _Walk:
    """One redrive, PART by PART."""

    def __init__(
        self,
        owner: Redriving,
        subscription: WebhookSubscription,
        dead: str,
        back: str,
        limit: int,
        done: Callable[[int | Failure], None],
    ) -> None:
        self._owner = owner
        self._group = subscription.group
        self._dead = dead
        self._back = back
        self._left = limit
        self._count = 0
        self._done = done

    def start(self) -> None:
        self._owner.position(self._group, self._dead, self._read)

    def _read(self, offset: int) -> None:
        if self._left <= 0:
            self._done(self._count)
            return
        self._owner.read(self._dead, offset, self._left, self._found)

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
        messages = [self._copy(Record(each)) for each in result.records[: self._left]]
        after = Record(result.records[len(messages) - 1]).queue_offset + 1

        def given(placed: list[Placed] | Failure) -> None:
            if isinstance(placed, Failure):
                self._done(placed)
                return
            self._count += len(messages)
            self._left -= len(messages)
            self._owner.commit(
                self._group, self._dead, after, lambda failure: self._done(failure) if failure else self._read(after)
            )

        self._owner.give(messages, given)

    def _copy(self, record: Record) -> Message:
        origin = properties.text(record.properties, properties.DLQ_ORIGIN_TOPIC)
        message = copy_of(record, self._back, reconsume_times=0, changes={properties.RETRY_TOPIC: origin or "-"})
        message.properties = properties.without(message.properties, MARKS)
        return message
