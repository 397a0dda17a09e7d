"""Requests in flight to one sink; each answer decides how the messages of its request are settled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, final

from domain.admin.subscription import Attempt
from domain.event import Leased
from domain.limits import MILLISECOND_NS
from domain.subscription.courier import SinkAnswer, SinkRequest, Trouble
from domain.subscription.subscription import WebhookSubscription
from gateway.webhooks.delivery.batches import Chain, Item, leased_of
from gateway.webhooks.delivery.breaker import Breaker
from gateway.webhooks.delivery.delivery_process import DeliveryProcess
from gateway.webhooks.delivery.lost_attempts import LostAttempts
from gateway.webhooks.delivery.rate_limit import SinkRateLimit
from gateway.webhooks.delivery.request_format import Form, form_of_test, message_id, request_of
from gateway.webhooks.delivery.retry_policy import Verdict, delay_ms, retry_after_ms, verdict
from gateway.webhooks.delivery.settlement import Settlement
from gateway.webhooks.delivery.signature import identity_fields
from gateway.webhooks.delivery.sink_consent import SinkConsent

ENDED: Final = "the process that sent it has ended its delivery before the answer came"
ANSWER_SHOWN_BYTES: Final = 1_024
"""Bytes of an answer's content that are recorded in its attempt."""


@dataclass(slots=True, eq=False)
class Try:
    """One request in flight.

    leased   its messages; empty for a test
    number   of the try, from 1
    began    start of the request, monotonic ns
    at_ms    start of the request, epoch ms
    end      aborts the request
    test     serial number of a test delivery; 0: none
    key      partition key of its chain; None: its messages have no order
    rest     further batches of its chain
    until    monotonic ns at which the leases of the whole chain end
    """

    topic: str
    leased: list[Leased]
    identity: str
    number: int
    began: int
    at_ms: int
    end: Callable[[], None]
    test: int = 0
    key: bytes | None = None
    rest: list[list[Item]] = field(default_factory=list)
    until: int = 0


def attempt_of(found: Try, now: int, answer: SinkAnswer, outcome: str, next_ms: int = 0) -> Attempt:
    """The attempt of a request that ended at monotonic ns `now`; `next_ms`: epoch ms of the next try, 0: there is none."""
    return Attempt(
        found.at_ms, found.identity, max(1, len(found.leased)), found.number, answer.status,
        (now - found.began) // MILLISECOND_NS, outcome, answer.text, answer.body[:ANSWER_SHOWN_BYTES], next_ms,
    )  # fmt: skip


@final
class SinkRequests:
    """Sends the batches of each chain one after the other, and settles them; chains of one partition key run one at a time."""

    def __init__(
        self,
        subscription: WebhookSubscription,
        process: DeliveryProcess,
        settlement: Settlement,
        breaker: Breaker,
        pace: SinkRateLimit,
        consent: SinkConsent,
        suspend: Callable[[str], None],
        answered: Callable[[], None],
    ) -> None:
        """`suspend` is called with the reason when the sink refuses all further deliveries, `answered` when a request has
        ended: there may be room for another one."""
        self._subscription = subscription
        self._settlement = settlement
        self._earlier = LostAttempts(subscription, process, settlement.note)
        self._breaker = breaker
        self._pace = pace
        self._consent = consent
        self._term = process.term
        self._courier = process.courier
        self._clock = process.clock
        self._entropy = process.entropy
        self._counters = process.counters
        self._suspend = suspend
        self._notify_answered = answered
        self._same = [*subscription.headers, ("webhook-request-origin", process.origin)]
        self._tries: dict[Try, None] = {}
        self._waiting: dict[bytes, list[tuple[str, Chain, int]]] = {}
        self._ended = False

    def __len__(self) -> int:
        return len(self._tries)

    @property
    def permitted(self) -> bool:
        """True while the sink consents and the claims hold."""
        return self._consent.given and self._term.holds(self._clock.monotonic_ns())

    def end(self, release: bool) -> None:
        """End all requests, and record an attempt for each. `release`: True returns their messages at once without counting an
        attempt; False: the claim is lost."""
        self._ended = True
        now = self._clock.monotonic_ns()
        settlement = self._settlement
        for found in self._tries:
            found.end()
            if found.test:
                continue
            self._counters["unknown"] += 1
            settlement.note(found.topic, attempt_of(found, now, SinkAnswer(0, text=ENDED), "unknown"))
            if release:
                settlement.give_back(found.topic, [*found.leased, *leased_of(found.rest)])
        for waiting in self._waiting.values() if release else ():
            for topic, chain, _ in waiting:
                settlement.give_back(topic, leased_of(chain.batches))
        self._tries.clear()
        self._waiting.clear()

    # Sending

    def begin(self, topic: str, chains: Sequence[Chain], until: int) -> None:
        """Send chains of messages of `topic`, which are leased until monotonic ns `until`."""
        for chain in chains:
            if chain.key is None:
                self._send(topic, chain, until)
            elif chain.key in self._waiting:  # a redriven dead letter beside messages of its key
                self._waiting[chain.key].append((topic, chain, until))
            else:
                self._waiting[chain.key] = []
                self._send(topic, chain, until)

    def test(self, serial: int) -> None:
        """Send one test event, which is not in the log, unless the test `serial` is in flight."""
        if not any(found.test == serial for found in self._tries):
            identity = f"test-{self._entropy.token(8).hex()}"
            self._request(form_of_test(self._subscription, identity), "", [], identity, 1, test=serial)

    def _send(self, topic: str, chain: Chain, until: int) -> None:
        """Send the first batch of a chain; the next one follows when this one is settled."""
        batch, rest = chain.batches[0], chain.batches[1:]
        subscription = self._subscription
        records, events = [each.record for each in batch], [each.event for each in batch]
        form = request_of(subscription.payload, subscription.format, records, events)
        leased = [each.leased for each in batch]
        number = max(each.attempt for each in leased)
        identity = message_id(batch[0].record)
        if leased[0].attempt > 1:
            self._earlier.poll(topic, identity, leased[0].attempt - 1, len(leased))
        self._request(form, topic, leased, identity, number, key=chain.key, rest=rest, until=until)

    def _request(
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
        subscription = self._subscription
        now, now_ms = self._clock.monotonic_ns(), self._clock.wall_ms()
        credential = subscription.credential
        fields = [*form.fields, *self._same, ("mq-attempt", str(number))]
        fields += identity_fields(credential, identity, now_ms // 1_000, form.body)
        delivery = SinkRequest("POST", subscription.sink, fields, form.body, subscription.retry.timeout_ms, credential)
        self._pace.began(now)
        made = Try(topic, leased, identity, number, now, now_ms, _nothing, test, key, rest or [], until)
        self._tries[made] = None
        self._counters["attempts"] += 1
        made.end = self._courier.send(delivery, partial(self._answered, made))

    def _go_on(self, found: Try) -> None:
        """A batch of a chain is settled: send the next one if its lease outlasts a request."""
        if found.rest and self._may_send(found.until):
            self._send(found.topic, Chain(found.key, found.rest), found.until)
        else:
            self._end_chain(found)

    def _end_chain(self, found: Try) -> None:
        """End a chain: return its remaining messages, and start the next chain that waits for its key."""
        self._settlement.give_back(found.topic, leased_of(found.rest))
        if found.key is None:
            return
        waiting = self._waiting.get(found.key, [])
        while waiting:
            topic, chain, until = waiting.pop(0)
            if self._may_send(until):
                self._send(topic, chain, until)
                return
            self._settlement.give_back(topic, leased_of(chain.batches))
        self._waiting.pop(found.key, None)

    def _may_send(self, until: int) -> bool:
        """True when a request may start: its timeout ends before monotonic ns `until`, the end of the leases."""
        timeout_ns = self._subscription.retry.timeout_ms * MILLISECOND_NS
        return self._clock.monotonic_ns() + timeout_ns < until and self.permitted

    # Answers

    def _answered(self, found: Try, answer: SinkAnswer) -> None:
        self._tries.pop(found, None)
        if self._ended:
            return
        now = self._clock.monotonic_ns()
        if answer.trouble is Trouble.TIMEOUT:
            self._counters["timeouts"] += 1
        elif answer.cut:
            self._counters["answers-cut"] += 1
        if found.test:
            outcome = "delivered" if verdict(answer) is Verdict.DELIVERED else "failed"
            self._settlement.tested(found.test, attempt_of(found, now, answer, outcome))
        else:
            self._settle(found, answer, now)
        self._notify_answered()

    def _settle(self, found: Try, answer: SinkAnswer, now: int) -> None:
        outcome = verdict(answer)
        settlement, topic = self._settlement, found.topic
        if outcome is Verdict.DELIVERED:
            self._breaker.succeeded()
            settlement.reply(answer, found.leased, self._clock.wall_ms())
            settlement.delivered(topic, attempt_of(found, now, answer, "delivered"), found.leased)
            self._go_on(found)
            return
        if outcome is Verdict.SUSPEND:
            reason = answer.text if answer.trouble is not None else "the sink says that it is gone for good (410)"
            answer.text = reason
            settlement.note(topic, attempt_of(found, now, answer, "suspended"))
            settlement.give_back(topic, found.leased)
            self._suspend(reason)
            self._end_chain(found)
            return
        if outcome is Verdict.RETRY and self._retried(found, answer, now):
            return
        if answer.status == 401 and self._subscription.verify:
            self._consent.withdraw(ask=True)
        settlement.note(topic, attempt_of(found, now, answer, "dead-letter"))
        settlement.bury(topic, found.leased, answer)
        self._go_on(found)

    def _retried(self, found: Try, answer: SinkAnswer, now: int) -> bool:
        """Schedule a redelivery after a transient failure. False: this was the last attempt."""
        retry, wall_ms = self._subscription.retry, self._clock.wall_ms()
        asked_ms = retry_after_ms(answer.fields, wall_ms)
        if asked_ms > retry.retry_after_max_ms:
            asked_ms = retry.retry_after_max_ms
            self._counters["waits-capped"] += 1
        if self._breaker.failed(now, asked_ms * MILLISECOND_NS):
            self._counters["breaker-opened"] += 1
        if found.number > retry.retries:
            return False
        wait_ms = max(asked_ms, delay_ms(retry, found.number, self._entropy))
        self._settlement.note(found.topic, attempt_of(found, now, answer, "retried", wall_ms + wait_ms))
        self._earlier.made(found.leased)
        self._settlement.retry(found.topic, found.leased, wait_ms)
        self._end_chain(found)
        return True


def _nothing() -> None:
    """`Try.end` before the courier has the request."""
