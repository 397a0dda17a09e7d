"""The use cases of lite topics, put together."""

from __future__ import annotations

from collections.abc import Sequence

from domain.lite import LiteQueues
from domain.ports import Clock, MessageStore, Metadata
from gateway.usecase.catalog.policy import NodePolicy
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.handler import UseCase
from gateway.usecase.lite.inspecting import LiteInspecting
from gateway.usecase.lite.lifecycle import LiteLifecycle
from gateway.usecase.lite.receiving import LiteReceiving
from gateway.usecase.lite.subscriptions import Subscriptions
from gateway.usecase.lite.suspending import LiteSuspending
from gateway.usecase.lite.syncing import LiteSyncing


def lite_use_cases(
    store: MessageStore, lights: LiteQueues, metadata: Metadata, handler: Dispatcher, clock: Clock, policy: NodePolicy
) -> Sequence[UseCase]:
    """Subscribing, receiving, suspending, asking; and the sweep that ends lite topics has begun."""
    subscriptions = Subscriptions()
    rights = handler.rights
    receiving = LiteReceiving(store, lights, metadata, subscriptions, handler.dead_letters, clock, handler.tally, rights)
    LiteLifecycle(lights, metadata, clock)
    lights.listen(handler.pulling)
    return (
        LiteSyncing(store, metadata, subscriptions, receiving, handler.registry, clock, policy),
        receiving,
        LiteSuspending(store, lights),
        LiteInspecting(store, lights, metadata, receiving, clock),
    )
