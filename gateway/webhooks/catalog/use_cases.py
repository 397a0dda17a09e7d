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
from gateway.webhooks.catalog.redrive import SubscriptionRedrive
from gateway.webhooks.catalog.reset import SubscriptionReset


def webhook_use_cases(store: MessageStore, handler: Dispatcher, clock: Clock, entropy: Entropy) -> Sequence[UseCase]:
    """What a store group does for webhooks: keeps subscriptions, claims and attempts; resets, and redrives any group."""
    book = SubscriptionBook(
        store.state, store.metadata, handler.topics, store.log, store.positions, clock, entropy, handler.questions
    )
    claims = Claims(store.state, book, clock)
    redriving = Redriving(store.log, store.positions, store.metadata, handler.topics, handler.sending)
    asker = Asker(handler, _nothing)
    return (
        book,
        claims,
        AttemptBook(store.state, book, claims, asker),
        redriving,
        SubscriptionRedrive(book, redriving),
        SubscriptionReset(book, asker),
    )


def _nothing() -> None:
    """The store does not forget its own client."""
