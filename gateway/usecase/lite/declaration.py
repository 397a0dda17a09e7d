"""The declaration of lite topics, which the entry point `lite` of `gateway.use_cases` names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from domain.access.access import GET, SUB, UPDATE
from domain.admin import lite as lite_admin
from domain.ports import Clock
from domain.store.message_store import MessageStore
from domain.topic import lite
from gateway.access.needs import CommandNeeds, of_both, of_cluster, of_group, of_its_topic
from gateway.node.use_cases import UseCaseContext, UseCaseDeclaration, UseCaseParts
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.handler import UseCase
from gateway.usecase.lite.inspection import LiteInspection
from gateway.usecase.lite.lifecycle import LiteLifecycle
from gateway.usecase.lite.receive import LiteReceiving
from gateway.usecase.lite.receive_poll import LiteReceiveContext
from gateway.usecase.lite.subscription_sync import LiteSubscriptionSync
from gateway.usecase.lite.subscriptions import Subscriptions
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
        LiteInspection(log, positions, queues, metadata, subscriptions, receiving, clock),
    )


def _make(context: UseCaseContext) -> UseCaseParts:
    return UseCaseParts(verbs=lite_use_cases(context.store, context.handler, context.clock, context.policy))


USE_CASE: Final = UseCaseDeclaration(
    make=_make,
    needs=CommandNeeds(
        {
            lite.SyncSubscription: of_both(SUB),
            lite.ReceiveLite: of_both(SUB),
            lite.SuspendLite: of_group(SUB),
            lite_admin.QueryLiteNode: of_cluster(GET),
            lite_admin.QueryLiteParent: of_its_topic(GET),
            lite_admin.QueryLiteTopic: of_its_topic(GET),
            lite_admin.QueryLiteClient: of_both(GET),
            lite_admin.QueryLiteGroup: of_group(GET),
            lite_admin.DispatchLite: of_group(UPDATE),
        }
    ),
)
