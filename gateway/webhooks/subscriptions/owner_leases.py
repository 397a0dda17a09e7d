"""Leases of owners: only the newest owner of a subscription leases its messages."""

from __future__ import annotations

from functools import partial
from typing import Final, final

from domain.access.principal import GATEWAY
from domain.admin.subscription import LeaseDeliveries
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Event, Refused
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler
from gateway.usecase.handler import Verbs
from gateway.webhooks.subscriptions.claims import Claims

REPLACED: Final = Failure(ErrorCode.CHANGED, "another owner delivers for this subscription")


@final
class _Tenancy:
    """Leases of one claim: a connection of its own, on which the commands of the owner wait.

    epoch   of the claim
    """

    def __init__(self, epoch: int, owner: ClientConnection) -> None:
        self.epoch = epoch
        self.owner = owner
        self._waiting: dict[object, None] = {}
        self._connection = ClientConnection("webhook", self, GATEWAY)

    def lease(self, handler: Handler, command: LeaseDeliveries) -> None:
        """Carry out the Receive in `command.lease`, by the right of the gateway. The owner gets its answer."""
        command.lease.ticket = command.ticket
        lease: Command = command.lease
        lease.principal = GATEWAY
        self._waiting[command.ticket] = None
        handler.handle(self._connection, lease)

    def end(self, failure: Failure | None) -> None:
        """End the leases. Waiting commands are refused with `failure`; None: they get no answer, since their owner is gone."""
        self._connection.end()
        if failure is not None:
            for ticket in self._waiting:
                self.owner.answer(Refused(ticket, failure))
        self._waiting.clear()

    # ConnectionDriver

    def answer(self, event: Event) -> None:
        """Pass an event to the owner."""
        self._waiting.pop(getattr(event, "ticket", None), None)
        self.owner.answer(event)

    def close(self) -> None:
        """Close the owner's connection: it has to claim again."""
        self.owner.driver.close()

    def throttle(self, until_ns: int) -> None:
        """No throttling: an owner leases only messages that it can send."""

    def revoke_access(self, failure: Failure) -> None:
        """Does nothing: the gateway has all rights, so none can be revoked."""


@final
class OwnerLeases:
    """The verb LeaseDeliveries.

    The epoch is checked when a command arrives, and again when a claim changes: commands that wait under an old epoch are
    refused. Thus an owner that was replaced while paused or disconnected gets no lease that the new owner would wait for.
    """

    def __init__(self, claims: Claims, handler: Handler) -> None:
        """`handler`: handles Receive."""
        self._claims = claims
        self._handler = handler
        self._tenancies: dict[str, _Tenancy] = {}
        self._of_owner: dict[ClientConnection, dict[str, None]] = {}
        claims.follow(self._changed)
        self.verbs: Verbs = {LeaseDeliveries: self._lease}

    def _lease(self, connection: ClientConnection, command: LeaseDeliveries) -> None:
        identity = command.id
        if not self._claims.holds(identity, command.epoch):
            connection.answer(Refused(command.ticket, REPLACED))
            return
        tenancy = self._tenancies.get(identity)
        if tenancy is None or tenancy.epoch != command.epoch or tenancy.owner is not connection:
            tenancy = self._begin(identity, command.epoch, connection)
        tenancy.lease(self._handler, command)

    def _begin(self, identity: str, epoch: int, owner: ClientConnection) -> _Tenancy:
        self._end(identity, REPLACED)
        mine = self._of_owner.get(owner)
        if mine is None:
            mine = self._of_owner[owner] = {}
            owner.on_close.append(partial(self._closed, owner))
        mine[identity] = None
        tenancy = self._tenancies[identity] = _Tenancy(epoch, owner)
        return tenancy

    def _changed(self, identity: str, epoch: int, owner: str) -> None:
        """A claim has a new epoch, or no owner."""
        tenancy = self._tenancies.get(identity)
        if tenancy is not None and (tenancy.epoch != epoch or not owner):
            self._end(identity, REPLACED)

    def _closed(self, owner: ClientConnection) -> None:
        """End all leases of an owner whose connection has ended."""
        for identity in self._of_owner.pop(owner, ()):
            self._end(identity, None)

    def _end(self, identity: str, failure: Failure | None) -> None:
        tenancy = self._tenancies.pop(identity, None)
        if tenancy is not None:
            self._of_owner.get(tenancy.owner, {}).pop(identity, None)
            tenancy.end(failure)
