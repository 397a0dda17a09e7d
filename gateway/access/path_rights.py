"""Rights on a path, for a use case that knows the path of a command only when it has looked it up."""

from __future__ import annotations

from typing import final

from domain.access.principal import GATEWAY, Principal
from domain.address import topic_of_path
from domain.command import Command
from domain.errors import Failure
from gateway.access import needs
from gateway.access.authority import Access
from gateway.connection.client_connection import ClientConnection


@final
class PathRights:
    """Decides whether the principal of a command may publish or subscribe on a path. Without access control, it may.

    access   None: access is not controlled
    """

    def __init__(self, access: Access | None = None) -> None:
        self.access = access

    def denial(self, connection: ClientConnection, command: Command, path: str, publish: bool) -> Failure | None:
        """Why the principal of `command` may not publish on `path` (`publish` False: not subscribe to it). None: it may."""
        principal: Principal | None = getattr(command, "principal", None) or connection.principal
        if self.access is None or principal is None or principal is GATEWAY or principal.privileged:
            return None  # the gate has refused a command without a principal
        need = needs.publish(path, topic_of_path(path)) if publish else needs.listen(path)
        return self.access.first_denial(principal, (need,), connection.client_id)

    def refusal(self, connection: ClientConnection, command: Command, path: str, publish: bool) -> Failure | None:
        """As `denial`, and counts it."""
        failure = self.denial(connection, command, path, publish)
        if failure is not None and self.access is not None:
            self.access.refused["not-allowed"] += 1
        return failure
