"""The use cases of subscriptions, put together."""

from __future__ import annotations

from collections.abc import Sequence

from domain.message_store import MessageStore
from domain.ports import Clock, Entropy
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.handler import UseCase
from gateway.webhooks.attempts import AttemptBook
from gateway.webhooks.book import SubscriptionBook
from gateway.webhooks.claims import Claims
from gateway.webhooks.redrive import Redriving
from gateway.webhooks.reset import SubscriptionReset


def webhook_use_cases(store: MessageStore, handler: Dispatcher, clock: Clock, entropy: Entropy) -> Sequence[UseCase]:
    """What a store group does for webhooks: keeps subscriptions, claims and attempts; redrives and resets."""
    book = SubscriptionBook(
        store.state, store.metadata, handler.topics, store.log, store.positions, clock, entropy, handler.questions
    )
    claims = Claims(store.state, book, clock)
    return (
        book,
        claims,
        AttemptBook(store.state, book, claims),
        Redriving(book, store.log, store.positions, handler.topics, handler.sending),
        SubscriptionReset(book, handler),
    )
