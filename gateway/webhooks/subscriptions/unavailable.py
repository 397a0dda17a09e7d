"""Refusal of subscriptions and redrives by a gateway before an Apache RocketMQ cluster."""

from __future__ import annotations

from collections.abc import Mapping
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
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verb

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


@final
class NoSubscriptions:
    """The verbs of subscriptions, and RedriveGroup: each is refused with NOT_SUPPORTED."""

    def verbs(self) -> Mapping[type[Command], Verb]:
        """All verbs of subscriptions, and RedriveGroup."""
        return {**dict.fromkeys(_COMMANDS, _refuse(SUBSCRIPTIONS)), RedriveGroup: _refuse(REDRIVES)}


def _refuse(text: str) -> Verb:
    failure = Failure(ErrorCode.NOT_SUPPORTED, text)

    def refuse(connection: ClientConnection, command: Command) -> None:
        connection.answer(Refused(getattr(command, "ticket", None), failure))

    return refuse
