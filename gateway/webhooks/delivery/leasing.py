"""Leasing of the messages of one topic for one subscription, limited to the messages that may be sent at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, final

from domain.admin.subscription import LeaseDeliveries
from domain.command import AwaitMessages, Command, Receive
from domain.event import Event, Leased, MessagesWaiting, Received, Refused
from domain.filter.path_filter import path_filter
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock
from domain.subscription.subscription import WebhookSubscription
from gateway.webhooks.internal_client import InternalClient

WAIT_MS: Final = 20_000
"""Time for which a Receive or AwaitMessages waits for messages."""
MARGIN_MS: Final = 15_000
"""Lease time beyond the timeout of a request, to settle its answer."""
AGAIN_NS: Final = SECOND_NS
"""Pause after a refused command."""


class Taker(Protocol):
    """Receiver of leased messages."""

    def take(self, topic: str, messages: Sequence[Leased], until: int) -> None:
        """Take messages of `topic`, leased until monotonic ns `until`. None in `messages`: the wait has ended without any."""

    def there(self) -> None:
        """A wait of AwaitMessages has ended: the topic may have messages."""

    def refused(self, again: int) -> None:
        """A command was refused; the next one may follow at monotonic ns `again`."""


@final
class Leasing:
    """Leases messages with one command in flight at a time. The store refuses a lease under a replaced claim.

    For a source of one topic, a Receive waits for messages. For a wildcard source, each topic waits by AwaitMessages without a
    lease, and a Receive follows when it has messages: thus the messages of all topics together are within the limit.

    topic       topic to lease from, its messages in the group's retry topic included
    """

    def __init__(
        self, subscription: WebhookSubscription, epoch: int, topic: str, asker: InternalClient, clock: Clock, taker: Taker
    ) -> None:
        """`epoch`: of the claim."""
        self.topic = topic
        self.receiving = False
        self._subscription = subscription
        self._epoch = epoch
        self._asker = asker
        self._clock = clock
        self._taker = taker
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

        self._asker.ask(make, self._received)

    def watch(self) -> None:
        """For a wildcard source: wait until this topic has messages."""
        if self._alone or self._has_some or self._waiting or self.receiving or self._clock.monotonic_ns() < self._resume_ns:
            return
        self._waiting = True
        subscription = self._subscription

        def make(ticket: object) -> Command:
            return AwaitMessages(ticket, subscription.group, self.topic, -1, WAIT_MS, subscription.ordered)

        self._asker.ask(make, self._waited)

    def _waited(self, event: Event) -> None:
        self._waiting = False
        if self._ended:
            return
        if isinstance(event, MessagesWaiting) and not event.full:
            self._has_some = event.there
            self._taker.there()
        else:
            self._refused()

    def _received(self, event: Event) -> None:
        self.receiving = False
        if isinstance(event, Received):
            self._has_some = bool(event.messages)
            until = self._clock.monotonic_ns() + (event.invisible_ms - MARGIN_MS // 2) * MILLISECOND_NS
            self._taker.take(self.topic, event.messages, until)
        elif isinstance(event, Refused):
            self._has_some = False
            self._refused()

    def _refused(self) -> None:
        self._resume_ns = self._clock.monotonic_ns() + AGAIN_NS
        self._taker.refused(self._resume_ns)
