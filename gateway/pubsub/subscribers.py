"""Subscribers of topics: their number for each topic, and their notification of its changes and its end."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Final, final

from domain.admin.data_topic import DataTopicJoined
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.ports import Clock
from domain.topic.data_topic import DataTopic
from gateway.connection.client_connection import ClientConnection

ENDED: Final = Failure(ErrorCode.TOPIC_NOT_FOUND, "the topic or its data is gone, or it has fewer subscribers now")
PER_CONNECTION_MAX: Final = 1_024
"""Subscriptions of a connection of its own; the peers of a datagram port are bounded by its protocol."""
NOTIFIED_PER_TURN: Final = 256
"""Subscribers that are notified of one change in one turn of the loop."""


@final
class Subscriber:
    """One JoinDataTopic."""

    __slots__ = ("connection", "gone", "ticket", "topic")

    def __init__(self, connection: ClientConnection, ticket: object, topic: str) -> None:
        self.connection = connection
        self.ticket = ticket
        self.topic = topic
        self.gone = False


@final
class Subscribers:
    """Those of all topics.

    refused   those that were too many for their topic, or for their connection
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of_topic: dict[str, dict[Subscriber, None]] = {}
        self._of_connection: dict[ClientConnection, dict[object, Subscriber]] = {}
        self.count = 0
        self.refused = 0

    def join(self, connection: ClientConnection, ticket: object, topic: DataTopic) -> Failure | None:
        """Count one more subscriber of the topic; None: it is one now. One that has this ticket already stays one."""
        mine = self._of_connection.get(connection)
        if mine is None:
            mine = self._of_connection[connection] = {}
            connection.on_close.append(partial(self._closed, connection))
        known = mine.get(ticket)
        if known is not None:
            if known.topic == topic.id:
                return None
            self._remove(known)
        of_topic = self._of_topic.get(topic.id, {})
        most = topic.given.max_subscribers
        if (most is not None and len(of_topic) >= most) or (not connection.shared and len(mine) >= PER_CONNECTION_MAX):
            self.refused += 1
            return Failure(ErrorCode.QUOTA, "the topic, or the connection, has no room for another subscriber")
        subscriber = mine[ticket] = Subscriber(connection, ticket, topic.id)
        self._of_topic.setdefault(topic.id, of_topic)[subscriber] = None
        self.count += 1
        return None

    def leave(self, connection: ClientConnection, ticket: object) -> None:
        """End one subscription; harmless when there is none."""
        found = self._of_connection.get(connection, {}).get(ticket)
        if found is not None:
            self._remove(found)

    def end(self, topic: str) -> None:
        """End all subscriptions of a topic."""
        self._end(list(self._of_topic.get(topic, ())))

    def changed(self, topic: DataTopic) -> None:
        """Notify the subscribers of a topic of its new state. Subscriptions over its limit are ended, the newest first."""
        there = list(self._of_topic.get(topic.id, ()))
        most = topic.given.max_subscribers
        if most is not None and len(there) > most:
            self._end(there[most:])
            del there[most:]
        self._notify(iter(there), topic)

    def _end(self, some: list[Subscriber]) -> None:
        for subscriber in some:
            self._remove(subscriber)
        self._refuse(iter(some))

    def _refuse(self, left: Iterator[Subscriber]) -> None:
        some = list(islice(left, NOTIFIED_PER_TURN))
        for subscriber in some:
            subscriber.connection.answer(Refused(subscriber.ticket, ENDED))
        if len(some) == NOTIFIED_PER_TURN:
            self._clock.call_at(self._clock.monotonic_ns(), partial(self._refuse, left))

    def _notify(self, left: Iterator[Subscriber], topic: DataTopic) -> None:
        some = list(islice(left, NOTIFIED_PER_TURN))
        for subscriber in some:
            if not subscriber.gone:
                subscriber.connection.answer(DataTopicJoined(subscriber.ticket, topic))
        if len(some) == NOTIFIED_PER_TURN:
            self._clock.call_at(self._clock.monotonic_ns(), partial(self._notify, left, topic))

    def _remove(self, subscriber: Subscriber) -> None:
        subscriber.gone = True
        self.count -= 1
        of_topic = self._of_topic[subscriber.topic]
        del of_topic[subscriber]
        if not of_topic:
            del self._of_topic[subscriber.topic]
        self._of_connection.get(subscriber.connection, {}).pop(subscriber.ticket, None)

    def _closed(self, connection: ClientConnection) -> None:
        for subscriber in list(self._of_connection.pop(connection, {}).values()):
            self._remove(subscriber)
