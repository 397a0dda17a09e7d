"""Conversion of requests on /ps, /ps/{id} and /ps/data/{id} to commands (draft-ietf-core-coap-pubsub-20, sections 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.address import network_of_host, topic_of_path
from domain.admin.data_topic import (
    ChangeDataTopic,
    DeleteDataTopic,
    ListDataTopics,
    MakeDataTopic,
    QueryDataTopic,
)
from domain.command import Command
from domain.message import property as properties
from domain.message.message import RETAIN_SET, Message
from domain.topic.data_topic import INITIALIZE_BYTES_MAX, RESOURCE_TYPE, TopicProperties
from protocols.coap.blockwise import blockwise
from protocols.coap.exchange.exchange import Exchange
from protocols.coap.message import media, message, option
from protocols.coap.message.media import CBOR
from protocols.coap.message.option import ABSENT, Fault
from protocols.coap.pubsub import representation
from protocols.coap.pubsub.outcome import Changing, DataStep, Listing, Making, Reading
from protocols.coap.pubsub.representation import DATA, FORMAT, INITIALIZE, NAME, ROOT, Given
from protocols.coap.resources import translate
from protocols.coap.responses import Responses, answers_pinned

CONF: Final = "core.ps.conf"
_EMPTY: Final = TopicProperties()
_RETAINED: Final = properties.entry(properties.MQTT_RETAIN, "true")


@final
class TopicResources:
    """The resources of topics at one endpoint. `outcomes` answers requests that need no command."""

    __slots__ = ("outcomes",)

    def __init__(self, outcomes: Responses) -> None:
        self.outcomes = outcomes

    def handle(self, exchange: Exchange, body: bytes, now: int) -> Sequence[Command]:
        """Return the command of a request whose first Uri-Path option is `ps`; () when the request is answered."""
        path = exchange.options.path[1:]
        code = exchange.code
        reserved = exchange.options.block2 != ABSENT and exchange.options.block2 & 7 == blockwise.BERT_EXPONENT
        if reserved and not exchange.remote.bert:
            found: Command | Fault | None = Fault(message.BAD_REQUEST, "Block2 with size exponent 7")
        elif not path or path == [""]:
            found = self._collection(exchange, code, body, now)
        elif len(path) == 1 and path[0] != DATA:
            found = self._topic(exchange, code, path[0], body, now)
        elif len(path) == 2 and path[0] == DATA:
            found = self._data(exchange, code, path[1], body)
        else:
            found = Fault(message.NOT_FOUND, "resources are /ps, /ps/{id} and /ps/data/{id}")
        if isinstance(found, Fault):
            self.outcomes.fault(exchange, found, now)
            return ()
        return () if found is None else (found,)

    # The collection

    def _collection(self, exchange: Exchange, code: int, body: bytes, now: int) -> Command | Fault | None:
        if code == message.GET:
            exchange.path = "ps?" + "&".join(exchange.options.query)
            return None if self._pinned(exchange, now) else self._listed(exchange)
        if code == message.FETCH:
            exchange.path = f"ps?{translate.etag_of(body).hex()}"
            return None if self._pinned(exchange, now) else self._filtered(exchange, body)
        if code == message.POST:
            return self._make(exchange, body)
        return Fault(message.METHOD_NOT_ALLOWED, "GET, FETCH and POST")

    def _listed(self, exchange: Exchange) -> Command | Fault:
        """GET: links selected by the queries (RFC 6690, section 4.1)."""
        if exchange.options.accept not in (ABSENT, media.LINK_FORMAT):
            return Fault(message.NOT_ACCEPTABLE, "topics are listed in link format (40)")
        data, name, identity, kind = False, "", "", None
        for text in exchange.options.query:
            key, _, value = text.partition("=")
            if key == "rt" and value in (RESOURCE_TYPE, CONF):
                data = value == RESOURCE_TYPE
            elif key == "topic-name" and value:
                name = value
            elif key == "topic-type" and value:
                kind = value
            elif key == "href" and value.startswith((f"/{ROOT}/", f"/{ROOT}/{DATA}/")):
                identity = value.rsplit("/", 1)[1]
                data = data or value.startswith(f"/{ROOT}/{DATA}/")
            else:  # no link has this attribute or value
                return self._none(exchange)
        exchange.intent = Listing(data)
        return ListDataTopics(exchange, name, identity, TopicProperties(type=kind), True)

    def _filtered(self, exchange: Exchange, body: bytes) -> Command | Fault:
        """FETCH: links to the topics with all properties of the body."""
        given = representation.read(exchange.options, body)
        if isinstance(given, Fault):
            return given
        if given.foreign or given.kind not in ("", RESOURCE_TYPE):
            return self._none(exchange)
        exchange.intent = Listing(False)
        return ListDataTopics(exchange, given.name, given.identity, given.properties)

    @staticmethod
    def _none(exchange: Exchange) -> Command:
        """Command for an empty list: no topic has the id `-`."""
        exchange.intent = Listing(False)
        return ListDataTopics(exchange, id="-")

    def _make(self, exchange: Exchange, body: bytes) -> Command | Fault:
        given = representation.read(exchange.options, body)
        if isinstance(given, Fault):
            return given
        if not given.name or given.kind != RESOURCE_TYPE:
            return Fault(message.BAD_REQUEST, f"topic-name, and resource-type {RESOURCE_TYPE}, are required")
        if given.foreign or given.identity:
            return Fault(message.BAD_REQUEST, "topic-data is chosen by the server")
        exchange.intent = Making()
        host = network_of_host(exchange.remote.address[0])
        return MakeDataTopic(exchange, given.name, given.properties, host, self._first(exchange, given))

    def _first(self, exchange: Exchange, given: Given) -> Message | None:
        """Message with the first data of a topic (`initialize`), or None."""
        body, number = given.properties.initialize, given.properties.content_format
        if body is None or number is None or len(body) > INITIALIZE_BYTES_MAX:
            return None
        topic = topic_of_path(given.name)
        pairs = [(properties.HG_PROTOCOL, "coap"), (properties.HG_CONTENT_TYPE, media.content_type(number))]
        if topic != given.name:
            pairs.append((properties.ORIGIN_MQTT_TOPIC, given.name))
        stored = properties.encode(pairs) + _RETAINED
        return Message(topic, body, stored, born_host=exchange.remote.born_host, retain=RETAIN_SET)

    # A topic

    def _topic(self, exchange: Exchange, code: int, identity: str, body: bytes, now: int) -> Command | Fault | None:
        accept = exchange.options.accept
        if accept not in (ABSENT, FORMAT, CBOR) and code != message.DELETE:
            return Fault(message.NOT_ACCEPTABLE, "a topic is application/core-pubsub+cbor (606)")
        exchange.path = f"ps/{identity}"
        if code == message.GET:
            exchange.intent = Reading(tuple(range(NAME, INITIALIZE + 1)))
            return QueryDataTopic(exchange, identity)
        if code == message.FETCH:
            keys = representation.wanted(exchange.options, body)
            if isinstance(keys, Fault):
                return keys
            exchange.intent = Reading(tuple(keys))
            return QueryDataTopic(exchange, identity)
        if code in (message.POST, message.IPATCH):
            return self._change(exchange, identity, body)
        if code == message.DELETE:
            return DeleteDataTopic(exchange, identity)
        return Fault(message.METHOD_NOT_ALLOWED, "GET, FETCH, POST, iPATCH and DELETE")

    def _change(self, exchange: Exchange, identity: str, body: bytes) -> Command | Fault:
        given = representation.read(exchange.options, body)
        if isinstance(given, Fault):
            return given
        other = given.foreign or given.identity not in ("", identity) or given.kind not in ("", RESOURCE_TYPE)
        if other:
            return Fault(message.BAD_REQUEST, "topic-data and resource-type cannot be changed")
        if exchange.options.if_match or exchange.options.if_none_match:
            return Fault(message.PRECONDITION_FAILED, "a topic is changed without conditions")
        exchange.intent = Changing()
        return ChangeDataTopic(exchange, identity, given.properties, given.name, exchange.code == message.POST)

    # Data

    def _data(self, exchange: Exchange, code: int, identity: str, body: bytes) -> Command | Fault:
        if code not in (message.GET, message.PUT, message.DELETE):
            return Fault(message.METHOD_NOT_ALLOWED, "GET, PUT and DELETE")
        options = exchange.options
        if code == message.DELETE and not options.if_match and not options.if_none_match:
            return DeleteDataTopic(exchange, identity, True)
        exchange.intent = DataStep(body)
        return QueryDataTopic(exchange, identity, code == message.PUT)

    def _pinned(self, exchange: Exchange, now: int) -> bool:
        """Answer a later block of a pinned list. False: no list is pinned, or this is the first block."""
        options = exchange.options
        return options.block2 != option.ABSENT and options.block2 >> 4 > 0 and answers_pinned(self.outcomes, exchange, now)
