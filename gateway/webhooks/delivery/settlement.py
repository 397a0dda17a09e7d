"""Settlement of leased messages after a request: acknowledged, redelivered later, returned, or dead-lettered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from domain.address import dead_letter_topic
from domain.admin.subscription import Attempt, DeliveryReport, RecordAttempts
from domain.command import Acknowledge, Extend, Send
from domain.event import Event, Leased, Refused, Sent
from domain.message.record import Record
from domain.subscription.courier import SinkAnswer
from domain.subscription.subscription import WebhookSubscription
from gateway.webhooks.delivery.breaker import Breaker
from gateway.webhooks.delivery.dead_letter import dead_letter, reply_of
from gateway.webhooks.delivery.delivery_process import DeliveryProcess


@final
class Settlement:
    """Settles the messages of one subscription. Their attempts are recorded first.

    A refused settlement is counted as `unsettled`: its messages are redelivered when the lease ends.
    """

    def __init__(self, subscription: WebhookSubscription, epoch: int, process: DeliveryProcess, breaker: Breaker) -> None:
        """`epoch`: of the claim."""
        self._subscription = subscription
        self._epoch = epoch
        self._client = process.client
        self._outbox = process.outbox
        self._clock = process.clock
        self._counters = process.counters
        self._breaker = breaker

    def tested(self, serial: int, attempt: Attempt) -> None:
        """Report the attempt of a test delivery. If the report is refused, the request for the test ends by timeout."""
        identity, epoch, breaker = self._subscription.id, self._epoch, self._breaker_state()
        self._client.ask(lambda ticket: RecordAttempts(ticket, identity, epoch, [attempt], breaker, serial), lambda event: None)

    def note(self, topic: str, attempt: Attempt) -> None:
        """Record an attempt without settling messages."""
        self._notify(topic, [attempt], [])

    def delivered(self, topic: str, attempt: Attempt, messages: Sequence[Leased]) -> None:
        """Record the attempt that delivered the messages, and acknowledge them."""
        self._counters["delivered"] += len(messages)
        self._notify(topic, [attempt], messages)

    def acknowledge(self, topic: str, messages: Sequence[Leased]) -> None:
        """Acknowledge messages that match no filter."""
        self._notify(topic, [], messages)

    def _notify(self, topic: str, attempts: list[Attempt], messages: Sequence[Leased]) -> None:
        subscription = self._subscription
        receipts = [each.receipt for each in messages]
        delivery = DeliveryReport(
            subscription.id, self._epoch, self._breaker_state(), attempts, subscription.group, topic, receipts
        )
        self._outbox.add(delivery, at_once=subscription.ordered)

    def retry(self, topic: str, messages: Sequence[Leased], wait_ms: int) -> None:
        """Redeliver the messages after `wait_ms`: their leases are extended to that."""
        self._counters["retried"] += len(messages)
        self._extend(topic, messages, wait_ms, untold=False)

    def give_back(self, topic: str, messages: Sequence[Leased]) -> None:
        """End the leases at once; the delivery is not counted as an attempt."""
        if messages:
            self._extend(topic, messages, 0, untold=True)

    def _extend(self, topic: str, messages: Sequence[Leased], wait_ms: int, untold: bool) -> None:
        receipts = [each.receipt for each in messages]
        group = self._subscription.group

        def extend() -> None:
            self._client.ask(lambda ticket: Extend(ticket, group, topic, receipts, wait_ms, untold=untold), self._settled)

        self._outbox.after(extend)

    def bury(self, topic: str, messages: Sequence[Leased], answer: SinkAnswer) -> None:
        """Copy messages with the reason to the dead-letter topic, then acknowledge them. A crash in between leaves both."""
        subscription = self._subscription
        group = subscription.group
        dead = subscription.dead_letter_topic or dead_letter_topic(group)
        copies = [dead_letter(Record(each.record), dead, group, subscription.sink, answer) for each in messages]
        receipts = [each.receipt for each in messages]
        self._counters["dead"] += len(messages)

        def stored(event: Event) -> None:
            if isinstance(event, Sent):
                self._client.ask(lambda ticket: Acknowledge(ticket, group, topic, receipts), self._settled)
            else:
                self._counters["unsettled"] += len(receipts)

        self._outbox.after(lambda: self._client.ask(lambda ticket: Send(ticket, copies), stored))

    def reply(self, answer: SinkAnswer, messages: Sequence[Leased], now_ms: int) -> None:
        """Publish the event in an answer to the reply topic, if there is one. The reply to a single message has its correlation
        data."""
        topic = self._subscription.reply_topic
        if not topic or not answer.body:
            return
        message = reply_of(answer, topic, Record(messages[0].record) if len(messages) == 1 else None, now_ms)
        if message is None:
            self._counters["replies-illegal"] += 1
            return
        self._client.ask(lambda ticket: Send(ticket, [message]), self._settled)

    def _breaker_state(self) -> str:
        return self._breaker.state(self._clock.monotonic_ns())

    def _settled(self, event: Event) -> None:
        if isinstance(event, Refused):
            self._counters["unsettled"] += 1
