"""Delivery for one subscription: leases messages, sends them to the sink, settles them by its answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

from domain import property as properties
from domain.address import topic_of_path
from domain.admin.subscription import Attempt, ChangeStatus
from domain.command import Receive
from domain.event import Event, Leased, Received, Refused
from domain.filter.path_filter import path_filter
from domain.limits import MILLISECOND_NS, RECEIVE_MESSAGES_MAX, SECOND_NS
from domain.ports import Clock, Entropy, Timer
from domain.record import Record
from domain.subscription.courier import Courier, SinkAnswer, SinkRequest
from domain.subscription.filters import predicate
from domain.subscription.subscription import Payload, Status, WebhookSubscription
from gateway.webhooks.asker import Asker
from gateway.webhooks.breaker import Breaker
from gateway.webhooks.consenting import Consenting
from gateway.webhooks.form import BATCH_BYTES_MAX, Form, attributes_of, event_of, message_id, request_of
from gateway.webhooks.notes import AttemptNotes
from gateway.webhooks.settlement import Settlement
from gateway.webhooks.signature import identity_fields
from gateway.webhooks.verdict import Verdict, delay_ms, retry_after_ms, verdict
from protocols.cloudevents.event import CloudEvent

WAIT_MS: Final = 20_000
"""How long a Receive is held."""
MARGIN_MS: Final = 15_000
"""A lease is so much longer than a try may take: its answer has to be settled in time."""
AGAIN_NS: Final = SECOND_NS
"""Pause behind a refused command."""
ANSWER_SHOWN_BYTES: Final = 1_024
BURST_NS: Final = SECOND_NS
"""A rate may be exceeded by what belongs to this time."""
MINUTE_NS: Final = 60 * SECOND_NS


_Item = tuple[Leased, Record, CloudEvent]


@dataclass(slots=True)
class _Try:
    """One request under way.

    leased   its messages; empty for a test
    number   of the try, from 1
    began    monotonic ns
    at_ms    epoch ms
    end      ends the request
    test     serial number of a test delivery; 0: none
    rest     batches of the same partition key that follow it
    until    monotonic ns at which the leases of all of them end
    """

    leased: list[Leased]
    number: int
    began: int
    at_ms: int
    end: Callable[[], None]
    test: int = 0
    rest: Sequence[Sequence[_Item]] = ()
    until: int = 0


@final
class Deliverer:
    """Delivers for one subscription until it is stopped. Leases no more than it can send at once, and nothing while it may not.

    epoch      of the claim
    counters   what has happened, by words; shared with other deliverers
    """

    def __init__(
        self,
        subscription: WebhookSubscription,
        epoch: int,
        asker: Asker,
        courier: Courier,
        clock: Clock,
        entropy: Entropy,
        origin: str,
        counters: dict[str, int],
        callback: str = "",
    ) -> None:
        self.subscription = subscription
        self.epoch = epoch
        self.counters = counters
        self._asker = asker
        self._courier = courier
        self._clock = clock
        self._entropy = entropy
        self._origin = origin
        self._wanted = predicate(subscription.filters, subscription.types)
        self._topic = topic_of_path(subscription.source)
        paths = subscription.source != self._topic
        self._filter = path_filter(self._topic, [subscription.source]) if paths else None
        self._breaker = Breaker()
        self._tries: dict[int, _Try] = {}
        self._serial = 0
        self._receiving = False
        self._stopped = False
        self._rate = subscription.rate_per_minute
        self._next_ns = 0
        identity = subscription.id
        self._notes = AttemptNotes(
            identity, epoch, asker, clock, lambda: self._breaker.state(clock.monotonic_ns()), self._count
        )
        self._settlement = Settlement(subscription, asker, self._count)
        self._consenting = Consenting(
            subscription, courier, clock, entropy, origin, self._agreed, self._suspend, self._wait, callback
        )
        self._timer: Timer | None = None
        self._timer_ns = 0

    # Its life

    def start(self) -> None:
        """Begin: ask the sink whether it consents, where that is wanted, then deliver."""
        if self.subscription.status not in (Status.ACTIVE, Status.PENDING):
            return
        if self._consenting.given:
            self._agreed()
        else:
            self._consenting.ask()

    def renew(self, subscription: WebhookSubscription) -> bool:
        """The subscription has changed. False: in more than its status, so that another deliverer is needed."""
        mine = replace(self.subscription, status=subscription.status, reason=subscription.reason, version=subscription.version)
        if not subscription.consented_ms:  # a consent has ended, which this deliverer has noticed itself
            mine = replace(mine, consented_ms=0)
        if mine != subscription or self._stopped or not self._consents:
            return False
        self.subscription = subscription
        return True

    @property
    def _consents(self) -> bool:
        """True while the sink consents, or may still do so."""
        return self._consenting.given or self._consenting.asking or self._consenting.waiting

    def stop(self, release: bool) -> list[Attempt]:
        """End all requests. `release`: their messages are free at once, without counting a try; False: the claim is lost.

        Returns attempts that may not be recorded.
        """
        if self._stopped:
            return []
        self._stopped = True
        self._consenting.end()
        if self._timer is not None:
            self._timer.cancel()
        for found in self._tries.values():
            found.end()
            if release:
                self._settlement.give_back([*found.leased, *_rest(found)])
        self._tries.clear()
        return self._notes.end(release)

    @property
    def under_way(self) -> int:
        """Requests that have no answer yet."""
        return len(self._tries)

    # Leasing

    def _pump(self) -> None:
        """Lease as many messages as may be sent now."""
        if self._stopped or self._receiving or not self._consenting.given:
            return
        now = self._clock.monotonic_ns()
        subscription = self.subscription
        room = self._breaker.room(now, len(self._tries), subscription.concurrency)
        if room == 0:
            if not self._tries:
                self._later(self._breaker.until_ns)
            return
        batched = subscription.payload is Payload.BATCHED
        limit = min(RECEIVE_MESSAGES_MAX, subscription.batch_max if batched else room)
        if self._rate:
            begin = max(self._next_ns, now - BURST_NS)
            if begin > now:
                self._later(begin)
                return
            limit = max(1, min(limit, (now - begin) * self._rate // MINUTE_NS + 1))
        invisible_ms = subscription.retry.timeout_ms + MARGIN_MS
        self._receiving = True

        def make(ticket: object) -> Receive:
            return Receive(
                ticket, subscription.group, self._topic, limit, invisible_ms, WAIT_MS, filter=self._filter,
                from_first=subscription.from_first, ordered=subscription.ordered, client_id=f"webhook-{subscription.id}",
            )  # fmt: skip

        self._asker.ask(make, self._received)

    def _received(self, event: Event) -> None:
        self._receiving = False
        if isinstance(event, Refused):
            if not self._stopped:
                self._count("refused")
                self._later(self._clock.monotonic_ns() + AGAIN_NS)
            return
        if not isinstance(event, Received):
            return
        if self._stopped:
            self._settlement.give_back(event.messages)
            return
        room = self._breaker.room(self._clock.monotonic_ns(), len(self._tries), self.subscription.concurrency)
        if event.messages and (room == 0 or not self._consenting.given):  # the breaker has opened while it waited
            self._settlement.give_back(event.messages)
            self._pump()
            return
        until = self._clock.monotonic_ns() + (event.invisible_ms - MARGIN_MS // 2) * MILLISECOND_NS
        self._send_all(event.messages, until)
        self._pump()

    def _send_all(self, messages: Sequence[Leased], until: int) -> None:
        """Begin a request for each chain of what was leased until monotonic `until`; settle what no filter wants."""
        unwanted: list[Leased] = []
        by_key: dict[object, list[_Item]] = {}
        ordered = self.subscription.ordered
        batched = self.subscription.payload is Payload.BATCHED
        for number, leased in enumerate(messages):
            record = Record(leased.record)
            found = event_of(record)
            if not self._wanted(attributes_of(found)):
                unwanted.append(leased)
                continue
            key = properties.find(record.properties, properties.SHARDING_KEY_START) if ordered else b""
            chain: object = key or (b"" if batched else number)
            by_key.setdefault(chain, []).append((leased, record, found))
        for items in by_key.values():
            batches = _batches(items) if batched else [[item] for item in items]
            if ordered:
                self._send(batches, until)
            else:
                for batch in batches:
                    self._send([batch], until)
        if unwanted:
            self._count("filtered", len(unwanted))
            self._settlement.acknowledge(unwanted)

    # Sending

    def _send(self, chain: Sequence[Sequence[_Item]], until: int) -> None:
        """Send the first batch of a chain; the next one follows when it is settled."""
        batch = chain[0]
        records, events = [record for _, record, _ in batch], [event for _, _, event in batch]
        form = request_of(self.subscription.payload, self.subscription.format, records, events)
        leased = [each for each, _, _ in batch]
        self._begin(form, message_id(batch[0][1]), leased, max(each.attempt for each in leased), rest=chain[1:], until=until)

    def _go_on(self, found: _Try) -> None:
        """A batch of a chain is settled: send the next one, while its lease outlasts a try."""
        if not found.rest:
            return
        if self._clock.monotonic_ns() + self.subscription.retry.timeout_ms * MILLISECOND_NS < found.until:
            self._send(found.rest, found.until)
        else:
            self._settlement.give_back(_rest(found))

    def test(self, serial: int) -> None:
        """Send one test event, outside the log; its attempt goes to whoever asked."""
        if any(found.test == serial for found in self._tries.values()):
            return
        identity = f"test-{self._entropy.token(8).hex()}"
        event = CloudEvent(
            {
                b"specversion": b"1.0", b"id": identity.encode(), b"source": f"/subscriptions/{self.subscription.id}".encode(),
                b"type": b"io.headgate.test", b"datacontenttype": b"application/json",
            },
            b'{"test":true}', True,
        )  # fmt: skip
        payload = self.subscription.payload
        form = request_of(Payload.BINARY if payload is Payload.RAW else payload, self.subscription.format, [], [event])
        self._begin(form, identity, [], 1, serial)

    def _begin(
        self,
        form: Form,
        identity: str,
        leased: list[Leased],
        number: int,
        test: int = 0,
        rest: Sequence[Sequence[_Item]] = (),
        until: int = 0,
    ) -> None:
        subscription = self.subscription
        now, now_ms = self._clock.monotonic_ns(), self._clock.wall_ms()
        fields = [*form.fields, *subscription.headers, ("webhook-request-origin", self._origin), ("mq-attempt", str(number))]
        credential = subscription.credential
        fields += identity_fields(credential, identity, now_ms // 1_000, form.body)
        delivery = SinkRequest("POST", subscription.sink, fields, form.body, subscription.retry.timeout_ms, credential)
        if self._rate:
            self._next_ns = max(self._next_ns, now - BURST_NS) + MINUTE_NS // self._rate
        self._serial += 1
        serial = self._serial
        self._tries[serial] = _Try(leased, number, now, now_ms, _nothing, test, rest, until)
        self._count("attempts")
        self._tries[serial].end = self._courier.send(delivery, lambda answer: self._answered(serial, identity, answer))

    def _answered(self, serial: int, identity: str, answer: SinkAnswer) -> None:
        found = self._tries.pop(serial, None)
        if found is None or self._stopped:
            return
        now = self._clock.monotonic_ns()
        took_ms = (now - found.began) // MILLISECOND_NS
        attempt = Attempt(
            found.at_ms, identity, max(1, len(found.leased)), found.number, answer.status, took_ms, "", answer.text,
            answer.body[:ANSWER_SHOWN_BYTES],
        )  # fmt: skip
        if found.test:
            outcome = "delivered" if verdict(answer) is Verdict.DELIVERED else "failed"
            self._notes.tested(found.test, replace(attempt, outcome=outcome))
        else:
            self._settle(found, attempt, answer, now)
        self._pump()

    # What an answer means

    def _settle(self, found: _Try, attempt: Attempt, answer: SinkAnswer, now: int) -> None:
        outcome = verdict(answer)
        retry, settlement = self.subscription.retry, self._settlement
        if outcome is Verdict.DELIVERED:
            self._breaker.succeeded()
            settlement.reply(answer, self._clock.wall_ms())
            settlement.acknowledge(found.leased)
            self._count("delivered", len(found.leased))
            self._notes.add(replace(attempt, outcome="delivered"))
            self._go_on(found)
            return
        if outcome is Verdict.SUSPEND:
            settlement.give_back([*found.leased, *_rest(found)])
            reason = answer.text if answer.trouble is not None else "the sink says that it is gone for good (410)"
            self._notes.add(replace(attempt, outcome="suspended", text=reason))
            self._suspend(reason)
            return
        if outcome is Verdict.RETRY:
            asked_ms = retry_after_ms(answer.fields, self._clock.wall_ms(), retry.retry_after_max_ms)
            if self._breaker.failed(now, asked_ms * MILLISECOND_NS):
                self._count("breaker-opened")
            if found.number <= retry.retries:
                wait_ms = max(asked_ms, delay_ms(retry, found.number, self._entropy))
                settlement.retry(found.leased, wait_ms)
                settlement.give_back(_rest(found))
                self._notes.add(replace(attempt, outcome="retried", next_ms=self._clock.wall_ms() + wait_ms))
                return
        if answer.status == 401 and self.subscription.verify:
            self._consenting.withdraw(ask=True)
        settlement.bury(found.leased, answer)
        self._notes.add(replace(attempt, outcome="dead-letter"))
        self._go_on(found)

    # Consent and suspension

    def _agreed(self) -> None:
        own, granted = self.subscription.rate_per_minute, self._consenting.rate
        self._rate = min(own, granted) if own and granted else own or granted
        if self.subscription.status is Status.PENDING:
            self._change(Status.ACTIVE, "")
        self._pump()

    def _wait(self) -> None:
        """The sink may consent later: messages wait."""
        if self.subscription.status is Status.ACTIVE:
            self._change(Status.PENDING, "")

    def _suspend(self, reason: str) -> None:
        self._consenting.withdraw(ask=False)  # leases nothing more
        self._count("suspended")
        self._change(Status.SUSPENDED, reason)

    def _change(self, status: Status, reason: str) -> None:
        def changed(event: Event) -> None:
            if isinstance(event, Refused) and not self._stopped:
                self._clock.call_at(self._clock.monotonic_ns() + AGAIN_NS, lambda: self._change(status, reason))

        if not self._stopped:
            identity, epoch = self.subscription.id, self.epoch
            self._asker.ask(lambda ticket: ChangeStatus(ticket, identity, status.value, reason, epoch), changed)

    # Counters and time

    def _count(self, what: str, number: int = 1) -> None:
        self.counters[what] += number

    def _later(self, when_ns: int) -> None:
        if self._timer is not None:
            if self._timer_ns <= when_ns:
                return
            self._timer.cancel()
        self._timer_ns = when_ns
        self._timer = self._clock.call_at(when_ns, self._due)

    def _due(self) -> None:
        self._timer = None
        self._pump()


def _rest(found: _Try) -> list[Leased]:
    """The messages of a chain that have not been sent."""
    return [leased for batch in found.rest for leased, _, _ in batch]


def _batches(items: Sequence[_Item]) -> list[list[_Item]]:
    """Messages as batches of at most BATCH_BYTES_MAX, with one message at least."""
    out: list[list[_Item]] = []
    size = 0
    for item in items:
        if not out or size + len(item[2].data) > BATCH_BYTES_MAX:
            out.append([])
            size = 0
        out[-1].append(item)
        size += len(item[2].data)
    return out


def _nothing() -> None:
    """The request has not been given to the courier yet."""
