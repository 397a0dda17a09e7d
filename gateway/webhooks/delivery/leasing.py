"""Leasing of the messages of one topic for one subscription, limited to the messages that may be sent at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain.admin.subscription import LeaseDeliveries
from domain.command import AwaitMessages, Command, Receive
from domain.event import Event, Leased, MessagesWaiting, Received, Refused
from domain.filter.stored_path_filter import path_filter
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.subscription.subscription import WebhookSubscription
from gateway.webhooks.delivery.delivery_process import DeliveryProcess

WAIT_MS: Final = 20_000
"""Time for which a Receive or AwaitMessages waits for messages."""
MARGIN_MS: Final = 15_000
"""Lease time beyond the timeout of a request, to settle its answer."""
AGAIN_NS: Final = SECOND_NS
"""Pause after a refused command."""


@final
class Leasing:
    """Leases messages with one command in flight at a time. The store refuses a lease under a replaced claim.

    For a source of one topic, a Receive waits for messages. For a wildcard source, each topic waits by AwaitMessages without a
    lease, and a Receive follows when it has messages: thus the messages of all topics together are within the limit.

    topic       topic to lease from, its messages in the group's retry topic included
    """

    def __init__(
        self,
        subscription: WebhookSubscription,
        epoch: int,
        topic: str,
        process: DeliveryProcess,
        take: Callable[[str, Sequence[Leased], int], None],
        there: Callable[[], None],
        refused: Callable[[int], None],
    ) -> None:
        """`epoch`: of the claim.

        take      called with the topic, its messages, and the monotonic ns at which their leases end; without messages: the
                  wait has ended without any
        there     called when a wait of AwaitMessages has ended: the topic may have messages
        refused   called with the monotonic ns from which the next command may follow a refused one
        """
        self.topic = topic
        self.receiving = False
        self._subscription = subscription
        self._epoch = epoch
        self._client = process.client
        self._clock = process.clock
        self._take = take
        self._there = there
        self._notify_refused = refused
        self._alone = not subscription.wild
        self._filter = path_filter(topic, [subscription.source]) if subscription.source != topic else None
        self._invisible_ms = subscription.retry.timeout_ms + MARGIN_MS
        self._client_id = f"webhook-{subscription.id}"
        self._waiting = False
        self._has_some = True
        self._ended = False
        self._resume_ns = 0

    @property
    def ready(self) -> bool:
        """True when `ask` may find messages."""
        return not self.receiving and not self._waiting and (self._alone or self._has_some)

    def end(self) -> None:
        """Stop waiting on the topic."""
        self._ended = True

    def ask(self, limit: int) -> None:
        """Lease up to `limit` messages. For a source of one topic, wait up to WAIT_MS for the first."""
        self.receiving = True
        subscription, wait_ms = self._subscription, WAIT_MS if self._alone else 0
        from_first = subscription.from_first or not self._alone

        def make(ticket: object) -> Command:
            lease = Receive(
                ticket, subscription.group, self.topic, limit, self._invisible_ms, wait_ms, filter=self._filter,
                from_first=from_first, ordered=subscription.ordered, client_id=self._client_id,
            )  # fmt: skip
            return LeaseDeliveries(ticket, subscription.id, self._epoch, lease)

        self._client.ask(make, self._received)

    def watch(self) -> None:
        """For a wildcard source: wait until this topic has messages."""
        if self._alone or self._has_some or self._waiting or self.receiving or self._clock.monotonic_ns() < self._resume_ns:
            return
        self._waiting = True
        subscription = self._subscription

        def make(ticket: object) -> Command:
            return AwaitMessages(ticket, subscription.group, self.topic, -1, WAIT_MS, subscription.ordered)

        self._client.ask(make, self._waited)

    def _waited(self, event: Event) -> None:
        self._waiting = False
        if self._ended:
            return
        if isinstance(event, MessagesWaiting) and not event.full:
            self._has_some = event.there
            self._there()
        else:
            self._refused()

    def _received(self, event: Event) -> None:
        self.receiving = False
        if isinstance(event, Received):
            self._has_some = bool(event.messages)
            until = self._clock.monotonic_ns() + (event.invisible_ms - MARGIN_MS // 2) * MILLISECOND_NS
            self._take(self.topic, event.messages, until)
        elif isinstance(event, Refused):
            self._has_some = False
            self._refused()

    def _refused(self) -> None:
        self._resume_ns = self._clock.monotonic_ns() + AGAIN_NS
        self._notify_refused(self._resume_ns)
