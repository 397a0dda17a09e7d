"""Composition of the use cases of subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from domain.ports import Clock, Entropy
from domain.store.message_store import MessageStore
from gateway.usecase.consume.redrive import Redriving
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.handler import UseCase
from gateway.webhooks.internal_client import InternalClient
from gateway.webhooks.subscriptions.attempts import DeliveryAttempts
from gateway.webhooks.subscriptions.claims import Claims
from gateway.webhooks.subscriptions.creation import SubscriptionCreation
from gateway.webhooks.subscriptions.owner_leases import OwnerLeases
from gateway.webhooks.subscriptions.redrive import SubscriptionRedrive
from gateway.webhooks.subscriptions.reset import SubscriptionReset
from gateway.webhooks.subscriptions.status import SubscriptionStatus
from gateway.webhooks.subscriptions.subscriptions import WebhookSubscriptions


def webhook_use_cases(store: MessageStore, handler: Dispatcher, clock: Clock, entropy: Entropy) -> Sequence[UseCase]:
    """The use cases of webhooks in a store group: subscriptions, claims, leases, attempts, resets, redrives of any group."""
    book = WebhookSubscriptions(store.state, store.metadata, store.positions, clock, handler.questions)
    claims = Claims(store.state, book, clock)
    redriving = Redriving(store.log, store.positions, store.metadata, handler.topics, handler.sending)
    asker = InternalClient(handler, _nothing)
    return (
        book,
        SubscriptionCreation(book, store.metadata, handler.topics, store.log, store.positions, clock, entropy),
        claims,
        SubscriptionStatus(book, claims, clock),
        OwnerLeases(claims, handler),
        DeliveryAttempts(store.state, book, claims, asker),
        redriving,
        SubscriptionRedrive(book, redriving),
        SubscriptionReset(book, asker),
    )


def _nothing() -> None:
    """No effect: the store does not close its own client."""
