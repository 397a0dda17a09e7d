"""The use cases of subscriptions, put together."""

from __future__ import annotations

from collections.abc import Sequence

from domain.message_store import MessageStore
from domain.ports import Clock, Entropy
from gateway.usecase.consume.redrive import Redriving
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.handler import UseCase
from gateway.webhooks.asker import Asker
from gateway.webhooks.catalog.attempts import AttemptBook
from gateway.webhooks.catalog.book import SubscriptionBook
from gateway.webhooks.catalog.claims import Claims
from gateway.webhooks.catalog.making import SubscriptionMaking
from gateway.webhooks.catalog.owner_leases import OwnerLeases
from gateway.webhooks.catalog.redrive import SubscriptionRedrive
from gateway.webhooks.catalog.reset import SubscriptionReset
from gateway.webhooks.catalog.status import SubscriptionStatus


def webhook_use_cases(store: MessageStore, handler: Dispatcher, clock: Clock, entropy: Entropy) -> Sequence[UseCase]:
    """What a store group does for webhooks: keeps subscriptions, claims and attempts; resets, and redrives any group."""
    book = SubscriptionBook(store.state, store.metadata, store.positions, clock, handler.questions)
    claims = Claims(store.state, book, clock)
    redriving = Redriving(store.log, store.positions, store.metadata, handler.topics, handler.sending)
    asker = Asker(handler, _nothing)
    return (
        book,
        SubscriptionMaking(book, store.metadata, handler.topics, store.log, store.positions, clock, entropy),
        claims,
        SubscriptionStatus(book, claims, clock),
        OwnerLeases(claims, handler),
        AttemptBook(store.state, book, claims, asker),
        redriving,
        SubscriptionRedrive(book, redriving),
        SubscriptionReset(book, asker),
    )


def _nothing() -> None:
    """The store does not forget its own client."""
