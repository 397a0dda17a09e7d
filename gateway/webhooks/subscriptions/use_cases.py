"""The use cases of subscriptions, and their refusal by a gateway before an Apache RocketMQ cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.admin.group import RedriveGroup
from domain.admin.subscription import (
    ChangeStatus,
    ClaimSubscriptions,
    DeleteSubscription,
    GrantConsent,
    LeaseDeliveries,
    PutSubscription,
    QueryAttempts,
    QuerySubscriptions,
    RecordAttempts,
    RecordDeliveries,
    Redrive,
    ResetSubscription,
    TestSubscription,
)
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.ports import Clock, Entropy
from domain.store.message_store import MessageStore
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.redrive import Redriving
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.handler import UseCase, Verb, Verbs
from gateway.webhooks.internal_client import InternalClient
from gateway.webhooks.subscriptions.attempts import DeliveryAttempts
from gateway.webhooks.subscriptions.claims import Claims
from gateway.webhooks.subscriptions.creation import SubscriptionCreation
from gateway.webhooks.subscriptions.owner_leases import OwnerLeases
from gateway.webhooks.subscriptions.redelivery import SubscriptionRedelivery
from gateway.webhooks.subscriptions.status import SubscriptionStatus
from gateway.webhooks.subscriptions.subscriptions import WebhookSubscriptions

SUBSCRIPTIONS: Final = (
    "this gateway stands before an Apache RocketMQ cluster, and webhook subscriptions need a store of Headgate's own: "
    "subscribe at a node that has one"
)
REDRIVES: Final = (
    "this gateway stands before an Apache RocketMQ cluster, whose dead letters are given again by the cluster's own console"
)
_COMMANDS: Final[tuple[type[Command], ...]] = (
    PutSubscription, QuerySubscriptions, DeleteSubscription, ChangeStatus, ClaimSubscriptions, RecordAttempts,
    RecordDeliveries, QueryAttempts, TestSubscription, Redrive, ResetSubscription,
    GrantConsent, LeaseDeliveries,
)  # fmt: skip


def webhook_use_cases(store: MessageStore, handler: Dispatcher, clock: Clock, entropy: Entropy) -> Sequence[UseCase]:
    """The use cases of webhooks in a store group: subscriptions, claims, leases, attempts, resets, redrives of any group."""
    book = WebhookSubscriptions(store.state, store.metadata, store.positions, clock, handler.questions)
    claims = Claims(store.state, book, clock)
    redriving = Redriving(store.log, store.positions, store.metadata, handler.topics, handler.sending)
    client = InternalClient(handler, lambda: None)  # the store does not close its own client
    return (
        book,
        SubscriptionCreation(book, store.metadata, handler.topics, store.log, store.positions, clock, entropy),
        claims,
        SubscriptionStatus(book, claims, clock),
        OwnerLeases(claims, handler),
        DeliveryAttempts(store.state, book, claims, client),
        redriving,
        SubscriptionRedelivery(book, redriving, client),
    )


@final
class NoSubscriptions:
    """The verbs of subscriptions, and RedriveGroup: each is refused with NOT_SUPPORTED."""

    def __init__(self) -> None:
        self.verbs: Verbs = {**dict.fromkeys(_COMMANDS, _refuse(SUBSCRIPTIONS)), RedriveGroup: _refuse(REDRIVES)}


def _refuse(text: str) -> Verb:
    failure = Failure(ErrorCode.NOT_SUPPORTED, text)

    def refuse(connection: ClientConnection, command: Command) -> None:
        connection.answer(Refused(getattr(command, "ticket", None), failure))

    return refuse
