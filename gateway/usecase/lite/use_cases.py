"""The use cases of lite topics, put together."""

from __future__ import annotations

from collections.abc import Sequence

from domain.lite import LiteQueues
from domain.ports import Clock, MessageStore, Metadata
from gateway.usecase.catalog.policy import NodePolicy
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.handler import UseCase
from gateway.usecase.lite.inspection import LiteInspection
from gateway.usecase.lite.lifecycle import LiteLifecycle
from gateway.usecase.lite.receive import LiteReceiving
from gateway.usecase.lite.subscription_sync import LiteSubscriptionSync
from gateway.usecase.lite.subscriptions import Subscriptions
from gateway.usecase.lite.suspension import LiteSuspension


def lite_use_cases(
    store: MessageStore, lights: LiteQueues, metadata: Metadata, handler: Dispatcher, clock: Clock, policy: NodePolicy
) -> Sequence[UseCase]:
    """Subscribing, receiving, suspending, asking; and the sweep that ends lite topics has begun."""
    subscriptions = Subscriptions()
    rights = handler.rights
    receiving = LiteReceiving(store, lights, metadata, subscriptions, handler.dead_letters, clock, handler.counters, rights)
    LiteLifecycle(lights, metadata, clock)
    lights.listen(handler.pulling)
    return (
        LiteSubscriptionSync(store, metadata, subscriptions, receiving, handler.registry, clock, policy),
        receiving,
        LiteSuspension(store, lights),
        LiteInspection(store, lights, metadata, receiving, clock),
    )
