"""Conversion of events about topics to responses and further commands (draft-ietf-core-coap-pubsub-20, sections 2 and 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from domain.admin.data_topic import DataTopicFound, DataTopicIds, DataTopicJoined, DeleteDataTopic, JoinDataTopic
from domain.command import Command, QueryLatest, Watch
from domain.event import Event
from domain.limits import SECOND_NS
from domain.topic.data_topic import DataTopic
from protocols.coap.exchange.exchange import Exchange
from protocols.coap.message import media, message, option
from protocols.coap.message.media import CBOR
from protocols.coap.message.message import Pairs
from protocols.coap.message.option import Fault
from protocols.coap.observe.observations import Observation
from protocols.coap.pubsub import representation
from protocols.coap.pubsub.representation import FORMAT, ROOT
from protocols.coap.resources import translate
from protocols.coap.resources.translate import Publication, Representation
from protocols.coap.responder import Condition, Publishing
from protocols.coap.responses import Responses, answers_pinned

OF_DATA: Final = "\x00ps"
"""Prefix of the second part of the key of a feed of data, whose observers are notified of the removal of the data."""


@final
@dataclass(slots=True, eq=False)
class DataStep:
    """A request on the data of a topic that waits for the topic. `body`: the body to publish."""

    body: bytes


@final
class Making:
    """A pending creation of a topic."""


@final
class Changing:
    """A pending change of a topic."""


@final
@dataclass(slots=True, eq=False)
class Reading:
    """A pending read of a topic. `keys`: the requested properties."""

    keys: tuple[int, ...]


@final
@dataclass(slots=True, eq=False)
class Listing:
    """A pending list of topics. `data`: True: the links lead to their data."""

    data: bool


@final
class TopicOutcomes:
    """Answers requests on topics of one endpoint.

    identity   identity of the principal of a request; observers of one path with the same identity share a Watch
    """

    __slots__ = ("identity", "outcomes")

    def __init__(self, outcomes: Responses, identity: Callable[[Exchange], str]) -> None:
        self.outcomes = outcomes
        self.identity = identity

    def answered(self, event: Event, now: int) -> None:
        """Continue the request of a DataTopicFound, DataTopicIds or DataTopicJoined; ignores other events."""
        if isinstance(event, DataTopicFound):
            exchange = event.ticket
            if isinstance(exchange, Exchange) and not exchange.settled:
                self._found(exchange, event, now)
        elif isinstance(event, DataTopicIds):
            exchange = event.ticket
            if isinstance(exchange, Exchange) and isinstance(exchange.intent, Listing):
                body = representation.links(event.ids, exchange.intent.data)
                # No ETag: a short list then fits into the credit of an unverified address; its blocks are pinned.
                links = Representation(b"", media.LINK_FORMAT, 0, body)
                self.outcomes.content(exchange, links, option.ABSENT, now)
        elif isinstance(event, DataTopicJoined) and isinstance(event.ticket, Observation):
            self.outcomes.observations.check_every(event.ticket, event.topic.check_s * SECOND_NS)

    def _found(self, exchange: Exchange, event: DataTopicFound, now: int) -> None:
        intent, topic = exchange.intent, event.topic
        if isinstance(intent, DataStep):
            if exchange.code == message.GET:
                self._read(exchange, topic, now)
            elif exchange.code == message.PUT:
                self._publish(exchange, intent, event, now)
            else:
                exchange.intent = Condition(lambda: DeleteDataTopic(exchange, topic.id, True))
                self.outcomes.later.append(QueryLatest(exchange, topic.name))
        elif isinstance(intent, Reading):
            body = representation.encoded(topic, intent.keys)
            found = Representation(translate.etag_of(body), self._format(exchange), 0, body)
            self.outcomes.content(exchange, found, option.ABSENT, now)
        elif isinstance(intent, Making):
            where: Pairs = [(option.LOCATION_PATH, ROOT.encode()), (option.LOCATION_PATH, topic.id.encode())]
            self._state(exchange, message.CREATED, where, topic, now)
        elif isinstance(intent, Changing):
            self._state(exchange, message.CHANGED, [], topic, now)

    @staticmethod
    def _format(exchange: Exchange) -> int:
        return CBOR if exchange.options.accept == CBOR else FORMAT

    def _state(self, exchange: Exchange, code: int, pairs: Pairs, topic: DataTopic, now: int) -> None:
        """Answer with the current topic, or without it when it exceeds the credit of an unverified address."""
        body = representation.encoded(topic)
        whole = [*pairs, (option.CONTENT_FORMAT, message.uint(self._format(exchange)))]
        size = message.HEADER_BYTES + len(exchange.token) + len(exchange.encoded(whole)) + 1 + len(body)
        if self.outcomes.responder.room(exchange, len(body), now) < size:
            whole, body = pairs, b""
        self.outcomes.responder.reply(exchange, code, whole, body, now)

    def _publish(self, exchange: Exchange, step: DataStep, event: DataTopicFound, now: int) -> None:
        topic, options = event.topic, exchange.options
        wanted = topic.given.content_format
        if wanted is not None and options.content_format != wanted:
            self.outcomes.fault(exchange, Fault(message.UNSUPPORTED_FORMAT, f"topic-content-format is {wanted}"), now)
            return
        plan = translate.publication_at(topic.name, options)
        if isinstance(plan, Fault):
            self.outcomes.fault(exchange, plan, now)
            return
        publishing = Publishing(not event.has_value)
        if options.if_match or options.if_none_match:
            exchange.intent = Condition(lambda: self._store(exchange, publishing, plan, step.body))
            self.outcomes.later.append(QueryLatest(exchange, topic.name))
        else:
            self.outcomes.later.append(self._store(exchange, publishing, plan, step.body))

    def _store(self, exchange: Exchange, publishing: Publishing, plan: Publication, body: bytes) -> Command:
        exchange.intent = publishing
        return self.outcomes.store(exchange, plan, body)

    def _read(self, exchange: Exchange, topic: DataTopic, now: int) -> None:
        """Read the data of a topic, and begin or end a subscription."""
        outcomes, options = self.outcomes, exchange.options
        exchange.intent = None
        exchange.path = topic.name
        if options.block2 != option.ABSENT and options.block2 >> 4:
            if not answers_pinned(outcomes, exchange, now):
                outcomes.later.append(QueryLatest(exchange, topic.name))
            return
        if options.observe in (0, 1):
            self._subscribe(exchange, topic, now)
        outcomes.later.append(QueryLatest(exchange, topic.name))

    def _subscribe(self, exchange: Exchange, topic: DataTopic, now: int) -> None:
        observations, later = self.outcomes.observations, self.outcomes.later
        known = observations.find(exchange)
        if known is not None and (exchange.options.observe == 1 or known.topic_id != topic.id):
            later.extend(self.outcomes.cancel(known, now))
            known = None
        if exchange.options.observe == 1:
            return
        if known is None:
            key = (topic.name, OF_DATA + self.identity(exchange))
            fresh = key not in observations.feeds
            known = observations.add(exchange, key, now)
            if known is None:
                self.outcomes.responder.count("observers")
                return
            known.topic_id = topic.id
            known.feed.of_data = True
            later.append(JoinDataTopic(known, topic.id))
            if fresh:
                later.append(Watch(known.feed, topic.name))
        else:
            known.options = exchange.options
        exchange.intent = known
