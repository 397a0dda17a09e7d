"""Principals of commands: the authenticated user of the request, or the gateway itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.access.access import Authority, ContextProof
from domain.access.principal import GATEWAY, Principal
from domain.admin.data_topic import DeleteDataTopic, JoinDataTopic
from domain.command import Command, DeleteLatest, QueryLatest, Receive, Send, Watch
from protocols.coap.exchange.exchange import Exchange, Proof, Remote
from protocols.coap.observe.observations import Feed, Observation

_OF_CLIENT: Final = (Send, DeleteLatest, DeleteDataTopic, QueryLatest, Receive, Watch, JoinDataTopic)
"""Commands of `Responses.later` that have the rights of the requesting client; others have those of the gateway."""


@final
class Rights:
    """Sets the principals of commands. `authority`: authenticates proofs; None: no access control."""

    __slots__ = ("authority",)

    def __init__(self, authority: Authority | None) -> None:
        self.authority = authority

    def give(self, commands: Sequence[Command], remote: Remote, proof: Proof) -> None:
        """Set the principal that `proof` authenticates at `remote`, except on commands of the gateway.

        Commands without a principal are refused with 4.01 by the gateway.
        """
        if self.authority is None or not commands:
            return
        principal = self._principal(remote, proof)
        if principal is not None:
            for command in commands:
                if getattr(command, "principal", None) is not GATEWAY:
                    command.principal = principal

    def give_later(self, commands: Sequence[Command]) -> None:
        """Set the principals of commands caused by events: that of the requesting client, or the gateway."""
        if self.authority is None:
            return
        for command in commands:
            asker = _asker_of(command)
            if asker is not None:
                self.give((command,), asker.remote, asker.proof)
            else:
                command.principal = GATEWAY

    def identity(self, exchange: Exchange) -> str:
        """Identity of the principal of a request: user, and address, which policies may name; "" without a principal.

        A security context is part of it: a revoked context loses its observations, other contexts of the user keep theirs.
        """
        principal = self._principal(exchange.remote, exchange.proof)
        if principal is None:
            return ""
        credentials = exchange.proof[0]
        own = f" {credentials.digest}" if isinstance(credentials, ContextProof) else ""
        return f"{principal.user} {principal.host}{own}"

    def _principal(self, remote: Remote, proof: Proof) -> Principal | None:
        if self.authority is None:
            return None
        found = self.authority.authenticate(proof[0], remote.address[0], proof[1])
        return found if isinstance(found, Principal) else None


def _asker_of(command: Command) -> Exchange | Observation | None:
    """Requester of a command of `Responses.later`; None: the gateway."""
    if not isinstance(command, _OF_CLIENT):
        return None
    ticket = command.ticket
    if isinstance(ticket, (Exchange, Observation)):
        return ticket
    if isinstance(ticket, Feed) and ticket.observers:
        return next(iter(ticket.observers))
    return None
