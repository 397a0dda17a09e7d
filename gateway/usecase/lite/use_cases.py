"""The use cases of lite topics, composed."""

from __future__ import annotations

from collections.abc import Sequence

from domain.ports import Clock
from domain.store.message_store import MessageStore
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.handler import UseCase
from gateway.usecase.lite.inspection import LiteInspection
from gateway.usecase.lite.lifecycle import LiteLifecycle
from gateway.usecase.lite.receive import LiteReceiving
from gateway.usecase.lite.receive_poll import LiteReceiveContext
from gateway.usecase.lite.subscription_sync import LiteSubscriptionSync
from gateway.usecase.lite.subscriptions import Subscriptions
from gateway.usecase.lite.suspension import LiteSuspension
from gateway.usecase.topics_and_groups.policy import NodePolicy


def lite_use_cases(store: MessageStore, handler: Dispatcher, clock: Clock, policy: NodePolicy) -> Sequence[UseCase]:
    """The use cases whose verbs the dispatcher adds. Starts the sweep that deletes idle lite topics, too."""
    log, positions, queues, metadata = store.log, store.positions, store.lite_queues, store.metadata
    subscriptions = Subscriptions()
    receiving = LiteReceiving(LiteReceiveContext(handler.leasing, queues, subscriptions), log, positions, metadata)
    LiteLifecycle(queues, metadata, clock)
    queues.listen(handler.pulling)
    return (
        LiteSubscriptionSync(log, positions, metadata, subscriptions, receiving, handler.registry, clock, policy),
        receiving,
        LiteSuspension(store.leases, queues),
        LiteInspection(log, positions, queues, metadata, subscriptions, receiving, clock),
    )
