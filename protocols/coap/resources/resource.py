"""Conversion of requests on `/mq/{topic}[/{sub…}]` and `/.well-known/core` to commands; those on `/ps` go to `pubsub`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain.access.principal import GATEWAY
from domain.command import Acknowledge, Command, DeleteLatest, QueryLatest, Receive, Watch
from domain.event import Event
from domain.filter.filter import Filter
from protocols.coap.blockwise import blockwise
from protocols.coap.exchange.exchange import Exchange
from protocols.coap.message import media, message, option
from protocols.coap.message.option import Fault
from protocols.coap.observe.group_observer import Member
from protocols.coap.pubsub.outcome import TopicOutcomes
from protocols.coap.pubsub.representation import ROOT
from protocols.coap.pubsub.resource import TopicResources
from protocols.coap.resources import fetch_filter as selections
from protocols.coap.resources import translate, wellknown
from protocols.coap.resources.fetch_filter import FetchFilter
from protocols.coap.resources.translate import NOTHING, Publication, Reception, Representation
from protocols.coap.responder import Condition, Publishing, Responder
from protocols.coap.responses import Responses, answers_pinned

NOT_PINNED: Final = Fault(message.REQUEST_INCOMPLETE, "this message is not being read any more")
_TOPICS: Final = [ROOT]


@final
class Resources:
    """The resources of one endpoint. A request becomes commands, or `outcomes` answers it at once.

    identity   identity of the principal of a request; observers of one path with the same identity share a Watch
    """

    def __init__(self, responder: Responder, outcomes: Responses, identity: Callable[[Exchange], str]) -> None:
        self.identity = identity
        self.responder = responder
        self.outcomes = outcomes
        self.observations = outcomes.observations
        self.topics = TopicResources(outcomes)
        self._topic_outcomes = TopicOutcomes(outcomes, identity)

    def answered(self, event: Event, now: int) -> None:
        """Send the response or the notification for an event, as `Responses.answered`."""
        if not self.outcomes.answered(event, now):
            self._topic_outcomes.answered(event, now)

    def handle(self, exchange: Exchange, body: bytes, now: int) -> Sequence[Command]:
        """Return the commands of a request with valid options and a complete body; () when the request is answered."""
        code = exchange.code
        if exchange.options.path[:1] == _TOPICS:
            return self.topics.handle(exchange, body, now)
        if code in (message.POST, message.PUT):
            return self._publish(exchange, body, now)
        if code == message.GET:
            return self._get(exchange, now)
        if code == message.DELETE:
            return self._delete(exchange, now)
        if code == message.FETCH:
            return self._fetch(exchange, body, now)
        self.outcomes.fault(exchange, Fault(message.METHOD_NOT_ALLOWED, "GET, FETCH, POST, PUT and DELETE"), now)
        return ()

    def _publish(self, exchange: Exchange, body: bytes, now: int) -> Sequence[Command]:
        options = exchange.options
        plan = options.plan if options.plan is not None else translate.publication(options)
        if not isinstance(plan, Publication):
            assert isinstance(plan, Fault)
            self.outcomes.fault(exchange, plan, now)
            return ()
        if options.if_match or options.if_none_match:
            stored = plan
            exchange.intent = Condition(lambda: self._store(exchange, stored, body))
            return (QueryLatest(exchange, plan.path),)
        store = self.outcomes.store(exchange, plan, body)
        if exchange.code != message.PUT or plan.delay_ms or exchange.waives(message.CREATED):
            return (store,)
        # 2.01 or 2.04 (RFC 7252, 5.8.3): the gateway queries the latest value, since the publisher may lack the right to read.
        exchange.intent = Publishing(False)
        query: Command = QueryLatest(exchange.intent, plan.path)
        query.principal = GATEWAY
        return (query, store)

    def _store(self, exchange: Exchange, plan: Publication, body: bytes) -> Command:
        """Command of a POST or PUT whose condition holds."""
        exchange.intent = Publishing(exchange.options.if_none_match)
        return self.outcomes.store(exchange, plan, body)

    def _delete(self, exchange: Exchange, now: int) -> Sequence[Command]:
        options = exchange.options
        asked = translate.reception(options)
        if isinstance(asked, Fault):
            self.outcomes.fault(exchange, asked, now)
            return ()
        if asked is not None:
            return self._acknowledge(exchange, asked, now)
        path = translate.path_of(options)
        if isinstance(path, Fault):
            self.outcomes.fault(exchange, path, now)
            return ()
        if path == "$SYS" or path.startswith("$SYS/"):
            self.outcomes.fault(exchange, Fault(message.FORBIDDEN, "$SYS is the server's own"), now)
            return ()
        if options.if_match or options.if_none_match:
            exchange.intent = Condition(lambda: DeleteLatest(exchange, str(path)))
            return (QueryLatest(exchange, path),)
        return (DeleteLatest(exchange, path),)

    def _acknowledge(self, exchange: Exchange, asked: Reception, now: int) -> Sequence[Command]:
        if asked.receipt is None:
            why = Fault(message.BAD_REQUEST, "name the lease: DELETE with the Location-Query of the message")
            self.outcomes.fault(exchange, why, now)
            return ()
        return (Acknowledge(exchange, asked.group, asked.topic, [asked.receipt]),)

    def _get(self, exchange: Exchange, now: int) -> Sequence[Command]:
        options = exchange.options
        reserved = options.block2 != option.ABSENT and options.block2 & 7 == blockwise.BERT_EXPONENT
        if reserved and not exchange.remote.bert:
            self.outcomes.fault(exchange, Fault(message.BAD_REQUEST, "Block2 with size exponent 7"), now)
            return ()
        if options.path == wellknown.PATH:
            body = wellknown.links(options.query)
            links = Representation(translate.etag_of(body), media.LINK_FORMAT, 0, body)
            self.outcomes.content(exchange, links, option.ABSENT, now)
            return ()
        asked = translate.reception(options)
        path = translate.path_of(options)
        if isinstance(asked, Fault) or isinstance(path, Fault):
            fault = asked if isinstance(asked, Fault) else path
            assert isinstance(fault, Fault)
            self.outcomes.fault(exchange, fault, now)
            return ()
        exchange.path = path if asked is None else f"{path}?{asked.group}"
        number = options.block2 >> 4 if options.block2 != option.ABSENT else 0
        if number and answers_pinned(self.outcomes, exchange, now):
            return ()
        if asked is not None:
            if number:
                self.outcomes.fault(exchange, NOT_PINNED, now)
                return ()
            return self._for_group(exchange, asked, None, now) if self.responder.enter(exchange, now) else ()
        if number or options.observe not in (0, 1):
            return (QueryLatest(exchange, path),)
        return self._observe(exchange, path, now)

    def _for_group(self, exchange: Exchange, asked: Reception, wanted: Filter | None, now: int) -> Sequence[Command]:
        """Lease one message for a group, or let the peer join it."""
        if self.responder.room(exchange, 0, now) < translate.LEASE_BYTES + len(asked.group):
            # Checked before the lease: a message leased to a forged address would wait for the end of the lease.
            self.responder.challenge(exchange, now)
            return ()
        if exchange.options.observe in (0, 1) and self.responder.confirms:
            joined = self._join(exchange, asked, wanted, now)
            if joined is not None:
                return joined
        exchange.intent = asked
        receive = Receive(
            exchange, asked.group, asked.topic, 1, asked.invisible_ms, asked.wait_ms, filter=wanted, from_first=asked.from_first
        )
        return (receive,)

    def _fetch(self, exchange: Exchange, body: bytes, now: int) -> Sequence[Command]:
        """Handle FETCH for messages that match the body: one message for a group, or all new ones for an observer."""
        options = exchange.options
        selection = selections.read(options, body)
        asked = translate.reception(options)
        if isinstance(selection, Fault) or isinstance(asked, Fault):
            fault = selection if isinstance(selection, Fault) else asked
            assert isinstance(fault, Fault)
            self.outcomes.fault(exchange, fault, now)
            return ()
        wanted = selection.of_group() if asked is not None else selection.filter
        if isinstance(wanted, Fault):
            self.outcomes.fault(exchange, wanted, now)
            return ()
        exchange.path = f"{selection.pattern}?{selection.text}"
        if asked is not None:
            exchange.path += asked.group
        if options.block2 != option.ABSENT and options.block2 >> 4:
            if not answers_pinned(self.outcomes, exchange, now):
                self.outcomes.fault(exchange, NOT_PINNED, now)
            return ()
        if asked is not None:
            return self._for_group(exchange, asked, wanted, now)
        if options.observe not in (0, 1):
            self.outcomes.fault(exchange, Fault(message.UNPROCESSABLE, "FETCH with Observe, or for a group"), now)
            return ()
        return self._select(exchange, selection, now)

    def _select(self, exchange: Exchange, selection: FetchFilter, now: int) -> Sequence[Command]:
        """Begin or end the observation of matching paths, as `_observe` does for one path."""
        known = self.observations.find(exchange)
        commands = [] if known is None else list(self.outcomes.cancel(known, now))
        if exchange.options.observe == 1:
            self.outcomes.content(exchange, NOTHING, option.ABSENT, now)
            return commands
        key = (exchange.path, self.identity(exchange))
        fresh = key not in self.observations.feeds
        known = self.observations.add(exchange, key, now)
        if known is None:
            self.responder.count("observers")
            self.outcomes.fault(exchange, Fault(message.TOO_MANY_REQUESTS, "too many observations"), now)
            return commands
        exchange.intent = known
        if not fresh:
            self.outcomes.select(exchange, known, now)
            return commands
        known.feed.selects = True
        known.feed.filter = selection.filter
        known.feed.joining = exchange
        return [*commands, Watch(known.feed, selection.pattern)]

    def _join(self, exchange: Exchange, asked: Reception, wanted: Filter | None, now: int) -> Sequence[Command] | None:
        """Begin or end the membership of the peer in the group. None: at a limit; it gets one message, as without Observe."""
        known = self.observations.find(exchange)
        commands = [] if known is None else list(self.outcomes.cancel(known, now))
        if exchange.options.observe == 1:
            self.outcomes.content(exchange, NOTHING, option.ABSENT, now)
            return commands
        key = (exchange.path, f"{exchange.remote.key}:{exchange.observer.hex()}")
        known = self.observations.add(exchange, key, now)
        if known is None:
            self.responder.count("observers")
            return None
        exchange.intent = known
        member = known.feed.member = Member(asked, exchange, wanted)
        return [*commands, member.receive(known.feed, 0)]

    def _observe(self, exchange: Exchange, path: str, now: int) -> Sequence[Command]:
        commands: list[Command] = []
        known = self.observations.find(exchange)
        if known is not None and (exchange.options.observe == 1 or known.feed.key[0] != path):
            commands.extend(self.outcomes.cancel(known, now))
            known = None
        if exchange.options.observe == 0:
            if known is None:
                key = (path, self.identity(exchange))
                fresh = key not in self.observations.feeds
                known = self.observations.add(exchange, key, now)
                if known is None:
                    self.responder.count("observers")
                elif fresh:
                    commands.append(Watch(known.feed, path))
            else:
                known.options = exchange.options
            exchange.intent = known
        commands.append(QueryLatest(exchange, path))
        return commands
