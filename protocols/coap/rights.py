"""By whose rights commands are carried out: those of who has proven to be a user, or those of the gateway itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.access import Authority, ContextProof
from domain.admin.data_topic import DeleteDataTopic, JoinDataTopic
from domain.command import Command, DeleteLatest, QueryLatest, Receive, Send, Watch
from domain.principal import GATEWAY, Principal
from protocols.coap.exchange.exchange import Exchange, Proof, Remote
from protocols.coap.observe.observations import Feed, Observation

_OF_CLIENT: Final = (Send, DeleteLatest, DeleteDataTopic, QueryLatest, Receive, Watch, JoinDataTopic)
"""Commands that events cause and a client has asked for: they are carried out by its rights."""


@final
class Rights:
    """Sets the principals of commands. `authority`: checks what was proven; None: access is not controlled."""

    __slots__ = ("authority",)

    def __init__(self, authority: Authority | None) -> None:
        self.authority = authority

    def give(self, commands: Sequence[Command], remote: Remote, proof: Proof) -> None:
        """Set the principal of who has proven `proof` at `remote`, except on commands of the gateway.

        Without one the gateway refuses them with 4.01.
        """
        if self.authority is None or not commands:
            return
        principal = self._principal(remote, proof)
        if principal is not None:
            for command in commands:
                if getattr(command, "principal", None) is not GATEWAY:
                    command.principal = principal

    def give_later(self, commands: Sequence[Command]) -> None:
        """The same for commands that events have caused: those of a client are carried out by its rights."""
        if self.authority is None:
            return
        for command in commands:
            asker = _asker_of(command)
            if asker is not None:
                self.give((command,), asker.remote, asker.proof)
            else:
                command.principal = GATEWAY

    def identity(self, exchange: Exchange) -> str:
        """The principal that commands of this request have, and its address, which policies may name; "" without one.

        With a security context, that too: what it may no longer have ends, whatever others of the same user may.
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
    """Who has asked for a command of `Responses.later`; None: the gateway."""
    if not isinstance(command, _OF_CLIENT):
        return None
    ticket = command.ticket
    if isinstance(ticket, (Exchange, Observation)):
        return ticket
    if isinstance(ticket, Feed) and ticket.observers:
        return next(iter(ticket.observers))
    return None
