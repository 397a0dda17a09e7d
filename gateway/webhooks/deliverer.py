"""Delivery for one subscription: leases messages, sends them to the sink, settles them by its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, final

from domain.admin.subscription import Attempt, ChangeStatus, RecordAttempts
from domain.event import Event, Leased, Refused
from domain.limits import MILLISECOND_NS, RECEIVE_MESSAGES_MAX, SECOND_NS
from domain.ports import Clock, Entropy, Timer
from domain.subscription.courier import Courier, SinkAnswer, SinkRequest, Trouble
from domain.subscription.filters import predicate
from domain.subscription.subscription import Payload, Status, WebhookSubscription
from gateway.webhooks.asker import Asker
from gateway.webhooks.breaker import Breaker
from gateway.webhooks.chains import Chain, Item, chains_of, leased_of
from gateway.webhooks.consenting import Consenting
from gateway.webhooks.earlier import EarlierAttempts
from gateway.webhooks.form import Form, form_of_test, message_id, request_of
from gateway.webhooks.leasing import Leasing
from gateway.webhooks.outbox import DeliveryOutbox
from gateway.webhooks.pace import SinkPace
from gateway.webhooks.settlement import Settlement
from gateway.webhooks.signature import identity_fields
from gateway.webhooks.tries import Try, attempt_of
from gateway.webhooks.verdict import Verdict, delay_ms, retry_after_ms, verdict

AGAIN_NS: Final = SECOND_NS
"""Pause behind a refused change of the status."""
DELIVERING: Final = (Status.ACTIVE, Status.PENDING)
ENDED: Final = "the process that sent it has ended its delivery before the answer came"


@final
class Deliverer:
    """Delivers for one subscription until it is stopped. Leases no more than it can send at once, and nothing while it may not.

    epoch      of the claim
    counters   what has happened, by words; shared with other deliverers
    left_out   topics that the source does not read, since there are too many
    """

    def __init__(
        self,
        subscription: WebhookSubscription,
        epoch: int,
        asker: Asker,
        outbox: DeliveryOutbox,
        courier: Courier,
        clock: Clock,
        entropy: Entropy,
        origin: str,
        counters: dict[str, int],
        topics: tuple[Sequence[str], int],
        callback: str = "",
    ) -> None:
        """`topics`: those that the source reads now, and how many it leaves out; `callback`: as of Consenting."""
        self.subscription = subscription
        self.epoch = epoch
        self.counters = counters
        self._asker = asker
        self._courier = courier
        self._clock = clock
        self._entropy = entropy
        self._origin = origin
        filtered = subscription.filters or subscription.types
        self._wanted = predicate(subscription.filters, subscription.types) if filtered else None
        self._leasings: dict[str, Leasing] = {}
        self._turn = 0
        self._breaker = Breaker()
        self._pace = SinkPace(subscription.rate_per_minute)
        self._tries: dict[int, Try] = {}
        self._waiting: dict[bytes, list[tuple[str, Chain, int]]] = {}
        self._serial = 0
        self._started = self._stopped = False
        self._settlement = Settlement(subscription, epoch, asker, outbox, self._breaker_state, self._count)
        self._earlier = EarlierAttempts(subscription, asker, clock, self._settlement.note, self._count)
        self._consenting = Consenting(
            subscription, courier, clock, entropy, origin, self._agreed, self._suspend, self._wait, callback
        )
        self._timer: Timer | None = None
        self._timer_ns = 0
        self.left_out = 0
        self.follow(*topics)

    # Its life

    def follow(self, topics: Sequence[str], left_out: int) -> None:
        """The source reads these topics from now on, and leaves so many out."""
        self.left_out = left_out
        for topic in self._leasings.keys() - set(topics):
            self._leasings.pop(topic).end()
        for topic in topics:
            if topic not in self._leasings:
                self._leasings[topic] = Leasing(self.subscription, topic, self._asker, self._clock, self)
        self._pump()

    def start(self) -> None:
        """Begin: ask the sink whether it consents, where that is wanted, then deliver."""
        if self.subscription.status not in DELIVERING:
            return  # it is here for a test delivery
        self._started = True
        if self._consenting.given:
            self._agreed()
        else:
            self._consenting.ask()

    def renew(self, subscription: WebhookSubscription) -> bool:
        """The subscription has changed. False: another deliverer is needed: more has changed than the status, or it begins to
        deliver, or ends."""
        mine = replace(self.subscription, status=subscription.status, reason=subscription.reason, version=subscription.version)
        if not subscription.consented_ms:  # a consent has ended, which this deliverer has noticed itself
            mine = replace(mine, consented_ms=0)
        goes_on = self._started and not self._stopped and subscription.status in DELIVERING
        if mine != subscription or not goes_on or not self._consents:
            return False
        self.subscription = subscription
        return True

    @property
    def _consents(self) -> bool:
        """True while the sink consents, or may still do so."""
        return self._consenting.given or self._consenting.asking or self._consenting.waiting

    def stop(self, release: bool) -> None:
        """End all requests, with an attempt each. `release`: their messages are free at once, without counting a try; False:
        the claim is lost."""
        if self._stopped:
            return
        self._stopped = True
        self._consenting.end()
        if self._timer is not None:
            self._timer.cancel()
        now = self._clock.monotonic_ns()
        for found in self._tries.values():
            found.end()
            if found.test:
                continue
            self._count("unknown")
            self._settlement.note(found.topic, attempt_of(found, now, SinkAnswer(0, text=ENDED), "unknown"))
            if release:
                self._settlement.give_back(found.topic, [*found.leased, *leased_of(found.rest)])
        for waiting in self._waiting.values() if release else ():
            for topic, chain, _ in waiting:
                self._settlement.give_back(topic, leased_of(chain.batches))
        self._tries.clear()
        self._waiting.clear()

    @property
    def under_way(self) -> int:
        """Requests that have no answer yet."""
        return len(self._tries)

    # Leasing

    def _pump(self) -> None:
        """Lease as many messages as may be sent now."""
        if self._stopped or not self._started or not self._consenting.given:
            return
        leasings = list(self._leasings.values())
        for each in leasings:
            each.watch()
        ready = [each for each in leasings if each.ready]
        if not ready or any(each.receiving for each in leasings):
            return
        now = self._clock.monotonic_ns()
        subscription = self.subscription
        room = self._breaker.room(now, len(self._tries), subscription.concurrency)
        if room == 0:
            if not self._tries:
                self._later(self._breaker.until_ns)
            return
        due = self._pace.due(now)
        if due > now:
            self._later(due)
            return
        batched = subscription.payload is Payload.BATCHED
        most = min(RECEIVE_MESSAGES_MAX, subscription.batch_max if batched else room)
        self._turn += 1
        ready[self._turn % len(ready)].ask(self._pace.room(now, most))

    def there(self) -> None:
        """As Taker says."""
        self._pump()

    def refused(self, again: int) -> None:
        """As Taker says."""
        if not self._stopped:
            self._count("refused")
            self._later(again)

    def take(self, topic: str, messages: Sequence[Leased], until: int) -> None:
        """As Taker says: begin a request for each chain of them; settle what no filter wants."""
        room = self._breaker.room(self._clock.monotonic_ns(), len(self._tries), self.subscription.concurrency)
        if self._stopped or (messages and (room == 0 or not self._consenting.given)):  # the breaker has opened while it waited
            self._settlement.give_back(topic, messages)
            self._pump()
            return
        chains, unwanted = chains_of(messages, self._wanted, self.subscription)
        for chain in chains:
            if chain.key is None:
                self._send(topic, chain, until)
            elif chain.key in self._waiting:  # a dead letter that was given again, beside messages of its key
                self._waiting[chain.key].append((topic, chain, until))
            else:
                self._waiting[chain.key] = []
                self._send(topic, chain, until)
        if unwanted:
            self._count("filtered", len(unwanted))
            self._settlement.acknowledge(topic, unwanted)
        self._pump()

    # Sending

    def _send(self, topic: str, chain: Chain, until: int) -> None:
        """Send the first batch of a chain; the next one follows when it is settled."""
        batch, rest = chain.batches[0], chain.batches[1:]
        subscription = self.subscription
        records, events = [each.record for each in batch], [each.event for each in batch]
        form = request_of(subscription.payload, subscription.format, records, events)
        leased = [each.leased for each in batch]
        number = max(each.attempt for each in leased)
        identity = message_id(batch[0].record)
        if leased[0].attempt > 1:
            self._earlier.look(topic, identity, leased[0].attempt - 1, len(leased))
        self._begin(form, topic, leased, identity, number, key=chain.key, rest=rest, until=until)

    def _go_on(self, found: Try) -> None:
        """A batch of a chain is settled: send the next one, while its lease outlasts a try."""
        if found.rest and self._outlasts(found.until):
            self._send(found.topic, Chain(found.key, found.rest), found.until)
        else:
            self._end_chain(found)

    def _end_chain(self, found: Try) -> None:
        """Nothing more of a chain is sent now: give back the rest, and begin what waits for its key."""
        self._settlement.give_back(found.topic, leased_of(found.rest))
        if found.key is None:
            return
        waiting = self._waiting.get(found.key, [])
        while waiting:
            topic, chain, until = waiting.pop(0)
            if self._consenting.given and self._outlasts(until):
                self._send(topic, chain, until)
                return
            self._settlement.give_back(topic, leased_of(chain.batches))
        self._waiting.pop(found.key, None)

    def _outlasts(self, until: int) -> bool:
        return self._clock.monotonic_ns() + self.subscription.retry.timeout_ms * MILLISECOND_NS < until

    def test(self, serial: int) -> None:
        """Send one test event, outside the log; its attempt goes to whoever asked."""
        if any(found.test == serial for found in self._tries.values()):
            return
        identity = f"test-{self._entropy.token(8).hex()}"
        self._begin(form_of_test(self.subscription, identity), "", [], identity, 1, serial)

    def _begin(
        self,
        form: Form,
        topic: str,
        leased: list[Leased],
        identity: str,
        number: int,
        test: int = 0,
        key: bytes | None = None,
        rest: list[list[Item]] | None = None,
        until: int = 0,
    ) -> None:
        subscription = self.subscription
        now, now_ms = self._clock.monotonic_ns(), self._clock.wall_ms()
        fields = [*form.fields, *subscription.headers, ("webhook-request-origin", self._origin), ("mq-attempt", str(number))]
        credential = subscription.credential
        fields += identity_fields(credential, identity, now_ms // 1_000, form.body)
        delivery = SinkRequest("POST", subscription.sink, fields, form.body, subscription.retry.timeout_ms, credential)
        self._pace.began(now)
        self._serial += 1
        serial = self._serial
        made = self._tries[serial] = Try(
            topic, leased, identity, number, now, now_ms, _nothing, test, key, rest or [], until
        )  # fmt: skip
        self._count("attempts")
        made.end = self._courier.send(delivery, lambda answer: self._answered(serial, answer))

    def _answered(self, serial: int, answer: SinkAnswer) -> None:
        found = self._tries.pop(serial, None)
        if found is None or self._stopped:
            return
        now = self._clock.monotonic_ns()
        if answer.trouble is Trouble.TIMEOUT:
            self._count("timeouts")
        elif answer.cut:
            self._count("answers-cut")
        if found.test:
            outcome = "delivered" if verdict(answer) is Verdict.DELIVERED else "failed"
            self._tell_test(found.test, attempt_of(found, now, answer, outcome))
        else:
            self._settle(found, answer, now)
        self._pump()

    def _tell_test(self, serial: int, attempt: Attempt) -> None:
        """Whoever asked for the test is told by a time-out when this is refused."""
        identity, epoch, breaker = self.subscription.id, self.epoch, self._breaker_state()
        self._asker.ask(lambda ticket: RecordAttempts(ticket, identity, epoch, [attempt], breaker, serial), _ignore)

    # What an answer means

    def _settle(self, found: Try, answer: SinkAnswer, now: int) -> None:
        outcome = verdict(answer)
        settlement, topic = self._settlement, found.topic
        if outcome is Verdict.DELIVERED:
            self._breaker.succeeded()
            settlement.reply(answer, self._clock.wall_ms())
            settlement.delivered(topic, attempt_of(found, now, answer, "delivered"), found.leased)
            self._go_on(found)
            return
        if outcome is Verdict.SUSPEND:
            reason = answer.text if answer.trouble is not None else "the sink says that it is gone for good (410)"
            settlement.note(topic, attempt_of(found, now, replace(answer, text=reason), "suspended"))
            settlement.give_back(topic, found.leased)
            self._suspend(reason)
            self._end_chain(found)
            return
        if outcome is Verdict.RETRY and self._retried(found, answer, now):
            return
        if answer.status == 401 and self.subscription.verify:
            self._consenting.withdraw(ask=True)
        settlement.note(topic, attempt_of(found, now, answer, "dead-letter"))
        settlement.bury(topic, found.leased, answer)
        self._go_on(found)

    def _retried(self, found: Try, answer: SinkAnswer, now: int) -> bool:
        """The delivery has failed in a way that may pass. False: it was the last try."""
        retry, wall_ms = self.subscription.retry, self._clock.wall_ms()
        asked_ms = retry_after_ms(answer.fields, wall_ms)
        if asked_ms > retry.retry_after_max_ms:
            asked_ms = retry.retry_after_max_ms
            self._count("waits-capped")
        if self._breaker.failed(now, asked_ms * MILLISECOND_NS):
            self._count("breaker-opened")
        if found.number > retry.retries:
            return False
        wait_ms = max(asked_ms, delay_ms(retry, found.number, self._entropy))
        self._settlement.note(found.topic, attempt_of(found, now, answer, "retried", wall_ms + wait_ms))
        self._earlier.made(found.leased)
        self._settlement.retry(found.topic, found.leased, wait_ms)
        self._end_chain(found)
        return True

    # Consent and suspension

    def _agreed(self) -> None:
        self._pace.bound(self._consenting.rate, self.subscription.rate_per_minute)
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

    def _breaker_state(self) -> str:
        return self._breaker.state(self._clock.monotonic_ns())

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


def _nothing() -> None:
    """The request has not been given to the courier yet."""


def _ignore(_event: Event) -> None:
    """Nothing depends on this answer."""
