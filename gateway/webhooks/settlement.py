"""What becomes of leased messages after a request: acknowledged, tried again, given back, or dead letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from domain.address import dead_letter_topic, topic_of_path
from domain.command import Acknowledge, Extend, Send
from domain.event import Event, Leased, Refused, Sent
from domain.record import Record
from domain.subscription.courier import SinkAnswer
from domain.subscription.subscription import WebhookSubscription
from gateway.webhooks.asker import Asker
from gateway.webhooks.dead_letter import dead_letter, reply_of


@final
class Settlement:
    """Settles the messages of one subscription. `count`: counts what has happened.

    A settlement that is refused costs a second delivery when the lease ends, and is counted as `unsettled`.
    """

    def __init__(self, subscription: WebhookSubscription, asker: Asker, count: Callable[[str, int], None]) -> None:
        self._subscription = subscription
        self._asker = asker
        self._count = count
        self._topic = topic_of_path(subscription.source)

    def acknowledge(self, messages: Sequence[Leased]) -> None:
        """They are delivered, or no filter wants them."""
        receipts = [each.receipt for each in messages]
        group, topic = self._subscription.group, self._topic
        self._asker.ask(lambda ticket: Acknowledge(ticket, group, topic, receipts), self._settled)

    def retry(self, messages: Sequence[Leased], wait_ms: int) -> None:
        """They come again after `wait_ms`: a longer lease."""
        receipts = [each.receipt for each in messages]
        group, topic = self._subscription.group, self._topic
        self._count("retried", len(messages))
        self._asker.ask(lambda ticket: Extend(ticket, group, topic, receipts, wait_ms), self._settled)

    def give_back(self, messages: Sequence[Leased]) -> None:
        """They are free at once, and no try counts."""
        if messages:
            receipts = [each.receipt for each in messages]
            group, topic = self._subscription.group, self._topic
            self._asker.ask(lambda ticket: Extend(ticket, group, topic, receipts, 0, untold=True), self._settled)

    def bury(self, messages: Sequence[Leased], answer: SinkAnswer) -> None:
        """Copy to the dead-letter topic with the reason, then acknowledge. A crash in between leaves two copies, never none."""
        subscription = self._subscription
        topic = subscription.dead_letter_topic or dead_letter_topic(subscription.group)
        copies = [dead_letter(Record(each.record), topic, subscription.sink, answer) for each in messages]
        self._count("dead", len(messages))

        def stored(event: Event) -> None:
            if isinstance(event, Sent):
                self.acknowledge(messages)
            else:
                self._count("unsettled", 1)

        self._asker.ask(lambda ticket: Send(ticket, copies), stored)

    def reply(self, answer: SinkAnswer, now_ms: int) -> None:
        """Publish the event of an answer, where that is asked for."""
        topic = self._subscription.reply_topic
        if not topic or not answer.body:
            return
        message = reply_of(answer, topic, now_ms)
        if message is None:
            self._count("replies-illegal", 1)
            return
        self._asker.ask(lambda ticket: Send(ticket, [message]), self._settled)

    def _settled(self, event: Event) -> None:
        if isinstance(event, Refused):
            self._count("unsettled", 1)
