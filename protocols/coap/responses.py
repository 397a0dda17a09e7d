"""Conversion of events to responses and notifications. `responder` and `observe` encode the datagrams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain.admin.data_topic import LeaveDataTopic
from domain.admin.oscore import OscoreRunReserved
from domain.command import Command, Extend, Send, Unwatch
from domain.errors import Failure
from domain.event import Done, Event, LatestValue, Received, Refused, Sent, Settled, WatchedMessages, WatchStarted
from domain.filter.path_matching import path_of
from domain.message.message import RETAIN_NONE, RETAIN_SET
from domain.message.receipt import Receipt
from domain.message.record import Record
from domain.turn import LATER_COMMANDS
from protocols.coap import status
from protocols.coap.blockwise import blockwise
from protocols.coap.blockwise.blockwise import Pinned
from protocols.coap.exchange.exchange import Exchange, Remote
from protocols.coap.message import message, option
from protocols.coap.message.message import Pairs
from protocols.coap.message.option import Fault
from protocols.coap.observe.group_observer import Member
from protocols.coap.observe.observations import Feed, Observation, Observations
from protocols.coap.oscore.association import Claim
from protocols.coap.resources import translate
from protocols.coap.resources.translate import Publication, Reception, Representation
from protocols.coap.responder import Check, Condition, Lease, Publishing, Responder
from protocols.coap.settings import CoapSettings

SILENT: Final = 2 | 8 | 16
"""No-Response bits of a request that waives the responses of all classes (RFC 7967 section 2.1)."""


@final
class Responses:
    """Turns the events of one endpoint into responses and notifications.

    later   commands that events have caused, such as the store command of a conditional request; `expire` returns them
    """

    def __init__(
        self, config: CoapSettings, responder: Responder, observations: Observations, pinned: Pinned, wall_ms: Callable[[], int]
    ) -> None:
        self.config = config
        self.responder = responder
        self.observations = observations
        self.pinned = pinned
        self.wall_ms = wall_ms
        self.later: list[Command] = []

    def answered(self, event: Event, now: int) -> bool:
        """Send the response or the notification for an event. Ignores tickets that are not of this endpoint.

        False: the event is about topics of the publish-subscribe draft, see `TopicOutcomes`.
        """
        if isinstance(event, Sent):
            self._sent(event, now)
        elif isinstance(event, WatchStarted):
            feed = event.ticket
            if isinstance(feed, Feed) and feed.joining is not None:
                exchange, feed.joining = feed.joining, None
                if isinstance(exchange.intent, Observation):
                    self.select(exchange, exchange.intent, now)
        elif isinstance(event, WatchedMessages):
            self._delivered(event, now)
        elif isinstance(event, LatestValue):
            self._value(event, now)
        elif isinstance(event, Received):
            self._received(event, now)
        elif isinstance(event, Refused):
            self._refused(event, now)
        elif isinstance(event, Done | Settled):
            if isinstance(event.ticket, Exchange):
                failure = event.outcomes[0] if isinstance(event, Settled) else None
                if failure is None:
                    self.responder.reply(event.ticket, message.DELETED, [], b"", now)
                else:
                    self._failure(event.ticket, failure, now)
        elif isinstance(event, OscoreRunReserved):
            if isinstance(event.ticket, Claim):
                event.ticket.settled(event.run, now)
        else:
            return False
        return True

    def take_later(self) -> list[Command]:
        """Take the first LATER_COMMANDS commands of `later`; the others follow in later turns."""
        some = self.later[:LATER_COMMANDS]
        del self.later[:LATER_COMMANDS]
        return some

    def undelivered(self, exchange: Exchange, now: int) -> None:
        """Undo a response that has not arrived, or is an error.

        The lease of its message ends at once, so that the message is redelivered; the observation that it has begun ends.
        """
        intent = exchange.intent
        if isinstance(intent, Lease):
            exchange.intent = None
            self.later.append(Extend(exchange, intent.group, intent.topic, [intent.receipt], 0))
        elif isinstance(intent, Observation):
            self.later.extend(self.cancel(intent, now))

    def store(self, exchange: Exchange, plan: Publication, body: bytes) -> Send:
        """Command that stores `body`. A NON request that waives every response (No-Response) ends here."""
        retain = RETAIN_SET if exchange.code == message.PUT else RETAIN_NONE
        stored = plan.message(body, exchange.remote.born_host, retain, self.wall_ms() if plan.delay_ms or plan.ttl_ms else 0)
        if not exchange.confirmable and exchange.options.no_response & SILENT == SILENT:
            self.responder.release(exchange)
            return Send(exchange, [stored], False, plan.typed)
        return Send(exchange, [stored], True, plan.typed)

    def cancel(self, observation: Observation, now: int) -> Sequence[Command]:
        """Remove an observation and its waiting notifications. Returns commands that end its Watch, lease or subscription."""
        commands: list[Command] = []
        if observation.topic_id and not observation.cancelled:
            commands.append(LeaveDataTopic(observation))
        feed = self.observations.remove(observation)
        self.responder.abandon(observation, now)
        if feed is not None:
            commands.extend((Unwatch(feed),) if feed.member is None else feed.member.release())
        return commands

    def cancel_all(self, remote: Remote, now: int) -> list[Command]:
        """Remove all observations of a peer, as `cancel`."""
        return [command for gone in self.observations.all_of(remote) for command in self.cancel(gone, now)]

    def _sent(self, event: Sent, now: int) -> None:
        exchange = event.ticket
        if not isinstance(exchange, Exchange):
            return
        plan = exchange.options.plan
        if exchange.code == message.PUT:
            created = isinstance(exchange.intent, Publishing) and exchange.intent.first
            self.responder.reply(exchange, message.CREATED if created else message.CHANGED, [], b"", now)
        elif not isinstance(plan, Publication) or plan.no_id:
            self.responder.reply(exchange, message.CHANGED, [], b"", now)
        else:
            name = event.placed[0].message_id.encode()
            if exchange.block1 == option.ABSENT and len(name) == translate.ID_BYTES:
                self.responder.emit(exchange, message.CREATED, plan.location + name, b"", now)
            else:
                pairs: Pairs = [(option.LOCATION_PATH, level.encode()) for level in exchange.options.path]
                pairs.append((option.LOCATION_PATH, name))
                self.responder.reply(exchange, message.CREATED, pairs, b"", now)

    def _value(self, event: LatestValue, now: int) -> None:
        ticket = event.ticket
        if isinstance(ticket, Publishing):
            ticket.first = event.record is None
            return
        value = None if event.record is None else translate.representation(event.record, self.wall_ms())
        if isinstance(ticket, Check):
            if not ticket.observation.cancelled:
                self.observations.ask(ticket.observation, value if value is not None else translate.NOTHING)
            return
        if not isinstance(ticket, Exchange):
            return
        intent = ticket.intent
        if isinstance(intent, Condition):
            self._conditional(ticket, intent, value, now)
        elif isinstance(intent, Observation) and not intent.cancelled:
            if value is None and intent.topic_id and not intent.started:  # a half created topic cannot be observed
                self.later.extend(self.cancel(intent, now))
                self.fault(ticket, Fault(message.NOT_FOUND, "no value"), now)
            else:
                self._registered(ticket, intent, value, now)
        elif value is None:
            self.fault(ticket, Fault(message.NOT_FOUND, "no value"), now)
        else:
            self.content(ticket, value, option.ABSENT, now)

    def _conditional(self, exchange: Exchange, condition: Condition, value: Representation | None, now: int) -> None:
        options = exchange.options
        matched = value is not None and (b"" in options.if_match or value.etag in options.if_match)
        if (options.if_match and not matched) or (options.if_none_match and value is not None):
            self.fault(exchange, Fault(message.PRECONDITION_FAILED, "the value is another"), now)
            return
        exchange.intent = None
        self.later.append(condition.then())

    def _registered(self, exchange: Exchange, observation: Observation, value: Representation | None, now: int) -> None:
        self.content(exchange, value if value is not None else translate.NOTHING, self.observations.next_sequence(), now)
        if not observation.cancelled and not observation.started:
            self.observations.started(observation, value)

    def _delivered(self, event: WatchedMessages, now: int) -> None:
        feed = event.ticket
        if isinstance(feed, Feed):
            wall_ms = self.wall_ms()
            for record in event.records:
                if feed.of_data and translate.removes(record):
                    for observation in list(feed.observers):
                        self._revoked(observation, message.NOT_FOUND, now)
                    continue
                value = _selected(feed, record, wall_ms) if feed.selects else translate.representation(record, wall_ms)
                if value is not None:
                    self._queue(feed, value)

    def _received(self, event: Received, now: int) -> None:
        exchange = event.ticket
        if isinstance(exchange, Feed) and exchange.member is not None:
            self._leased(exchange, exchange.member, event, now)
            return
        if not isinstance(exchange, Exchange) or not isinstance(exchange.intent, Reception):
            return
        asked = exchange.intent
        value = translate.representation(event.messages[0].record, self.wall_ms()) if event.messages else None
        if value is None:
            self.fault(exchange, Fault(message.NOT_FOUND, "no message"), now)
            return
        receipt = event.messages[0].receipt
        exchange.intent = Lease(asked.group, asked.topic, receipt)
        self.content(exchange, _leased(value, asked, receipt), option.ABSENT, now)

    def select(self, exchange: Exchange, observation: Observation, now: int) -> None:
        """Answer the registration of a FETCH: an empty 2.05 with Observe."""
        if not observation.cancelled:
            self._registered(exchange, observation, None, now)

    def _leased(self, feed: Feed, member: Member, event: Received, now: int) -> None:
        """Send a member of a group its next message, or receive again. The first event answers its registration."""
        receipt = event.messages[0].receipt if event.messages else None
        if not feed.observers:
            if receipt is not None:
                self.later.extend(member.release(receipt))
            return
        observation = next(iter(feed.observers))
        exchange, member.exchange = member.exchange, None
        if exchange is not None:
            self._registered(exchange, observation, None, now)
        value = None if receipt is None else translate.representation(event.messages[0].record, self.wall_ms())
        if value is None or receipt is None:
            # An expired or unreadable message is not held: its lease ends by itself, and the next message follows.
            self.later.append(member.receive(feed))
            return
        member.held = receipt
        self._queue(feed, _leased(value, member.asked, receipt))

    def _queue(self, feed: Feed, value: Representation) -> None:
        """Append a value to a feed. A member whose message is dropped for it releases the lease, and is ended with 5.03."""
        observations = self.observations
        observations.queue(feed, value)
        for displaced in observations.displaced:
            if displaced.member is not None:
                self.later.extend(displaced.member.release())
            for observation in displaced.observers:
                observations.refuse(observation, message.UNAVAILABLE)
        observations.displaced.clear()

    def _refused(self, event: Refused, now: int) -> None:
        if isinstance(event.ticket, Exchange):
            self._failure(event.ticket, event.failure, now)
            self.undelivered(event.ticket, now)
        elif isinstance(event.ticket, Claim):
            event.ticket.settled(event.failure, now)
        elif isinstance(event.ticket, Feed):
            joining, event.ticket.joining = event.ticket.joining, None
            if joining is not None:
                self._failure(joining, event.failure, now)
            member = event.ticket.member
            if member is not None and member.exchange is not None:
                self._failure(member.exchange, event.failure, now)
                member.exchange = None
            for observation in list(event.ticket.observers):
                self._revoked(observation, status.CODES[event.failure.code], now)
        elif isinstance(event.ticket, Observation):
            self._revoked(event.ticket, status.CODES[event.failure.code], now)

    def _revoked(self, observation: Observation, code: int, now: int) -> None:
        """End an observation that the gateway has ended or refused, with an error response if it has started."""
        if observation.started:
            self.observations.refuse(observation, code)
        else:
            self.later.extend(self.cancel(observation, now))

    def fault(self, exchange: Exchange, fault: Fault, now: int) -> None:
        """Refuse a request in this adapter, and count it by its response code (4.04 is not counted)."""
        if fault.code != message.NOT_FOUND:
            self.responder.count(message.name(fault.code))
        self._refuse(exchange, fault, now)

    def _failure(self, exchange: Exchange, failure: Failure, now: int) -> None:
        self._refuse(exchange, Fault(status.CODES[failure.code], failure.text), now)

    def _refuse(self, exchange: Exchange, fault: Fault, now: int) -> None:
        """Send an error response with the options that its code requires and a diagnostic payload."""
        pairs: Pairs = []
        if status.has_retry(fault.code):
            pairs.append((option.MAX_AGE, message.uint(status.RETRY_AFTER_S)))
        if fault.code == message.TOO_LARGE:
            pairs.append((option.SIZE1, message.uint(self.config.block1_bytes_max)))
        self.responder.reply(exchange, fault.code, pairs, fault.text.encode(), now)

    def content(self, exchange: Exchange, value: Representation, observe: int, now: int) -> None:
        """Send 2.05 with the value or the largest block allowed, 2.03 for a matching ETag, or an error."""
        options = exchange.options
        wall_ms = self.wall_ms()
        if value.etag and value.etag in options.etags:
            pairs = translate.validity(value, wall_ms)
            if observe != option.ABSENT:
                pairs.append((option.OBSERVE, message.uint(observe)))
            self.responder.reply(exchange, message.VALID, pairs, b"", now)
            return
        if not translate.accepts(options, value):
            self.undelivered(exchange, now)
            self.fault(exchange, Fault(message.NOT_ACCEPTABLE, "the value is of another format"), now)
            return
        number, exponent = _block(exchange, blockwise.exponent_of(self.config.block_bytes))
        if number and blockwise.start_of(number, exponent) >= len(value.body):
            self.fault(exchange, Fault(message.BAD_REQUEST, "the value has no such block"), now)
            return
        # The response that begins an observation of an unverified address is a confirmable message, and nothing more is sent
        # before its ACK (RFC 7641 section 7).
        separate = isinstance(exchange.intent, Observation) and not self.responder.proved(exchange.remote, now)
        room = self.responder.room(exchange, len(value.body), now) - len(exchange.token) - 1
        room -= message.HEADER_BYTES * 2 if separate else message.HEADER_BYTES
        fitting = _fit(exchange, value, observe, number, exponent, room, wall_ms)
        if fitting is None:
            self.undelivered(exchange, now)
            self.responder.challenge(exchange, now)
            return
        pairs, payload = fitting
        if len(payload) < len(value.body):
            self.pinned.put((exchange.owner, exchange.path), value, len(value.body), now)
        if separate:
            self.responder.separate(exchange)
        self.responder.reply(exchange, message.CONTENT, pairs, payload, now)


def answers_pinned(outcomes: Responses, exchange: Exchange, now: int) -> bool:
    """Answer a later block of a value that is pinned for the peer. False: none is pinned."""
    value = outcomes.pinned.get((exchange.owner, exchange.path), now)
    if not isinstance(value, Representation):
        return False
    outcomes.content(exchange, value, option.ABSENT, now)
    return True


def _leased(value: Representation, asked: Reception, receipt: Receipt) -> Representation:
    """The value of a leased message, with the location of its lease."""
    etag = translate.etag_of(receipt.text().encode())
    return Representation(etag, value.format, value.expire_ms, value.body, asked.location(receipt))


def _selected(feed: Feed, data: bytes, wall_ms: int) -> Representation | None:
    """Value of a record for the observers of a FETCH, with its path; None when the filter rejects it."""
    record = Record(data)
    if feed.filter is not None and not feed.filter.matches(record.properties):
        return None
    value = translate.representation(data, wall_ms)
    if value is not None:
        levels = [translate.ROOT, *path_of(record.topic, record.properties).split("/")]
        value.location = [(option.LOCATION_PATH, level.encode()) for level in levels]
    return value


def _block(exchange: Exchange, exponent: int) -> tuple[int, int]:
    """Number and size exponent of the block to send. `exponent`: the preferred one."""
    block2 = exchange.options.block2
    if block2 == option.ABSENT:
        return 0, blockwise.BERT_EXPONENT if exchange.remote.bert else exponent
    asked = block2 & 7
    return block2 >> 4, asked if block2 >> 4 or asked == blockwise.BERT_EXPONENT else min(exponent, asked)


def _fit(
    exchange: Exchange, value: Representation, observe: int, number: int, exponent: int, room: int, wall_ms: int
) -> tuple[Pairs, bytes] | None:
    """Options and payload of the requested block, in the largest block size that fits; None: 16 bytes do not fit.

    A response may have a smaller block that begins at the same byte as the requested one (RFC 7959 section 2.4).
    """
    bert = exponent == blockwise.BERT_EXPONENT
    whole = exchange.remote.whole_bytes if bert or exchange.options.block2 == option.ABSENT else 0
    left = len(value.body) - blockwise.start_of(number, exponent)
    while exponent and not whole and min(left, 16 << exponent) > room:
        exponent -= 1
        number *= 2
    pairs, payload = translate.content(value, observe, number, exponent, wall_ms, whole)
    while len(message.join(pairs)) + len(payload) > room:
        if pairs and pairs[-1][0] == option.SIZE2:
            pairs.pop()
        elif exponent:
            exponent -= 1
            number *= 2
            pairs, payload = translate.content(value, observe, number, exponent, wall_ms)
        else:
            return None
    return pairs, payload
