"""Rights on a path, for a use case that knows the path only when it has looked it up, or acts for a user who is away."""

from __future__ import annotations

from typing import final

from domain.access.principal import GATEWAY, Principal
from domain.address import topic_of_path
from domain.client.mqtt_session import Will
from domain.command import Command
from domain.errors import Failure
from domain.filter.path_matching import path_of
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

    def read_denial(self, connection: ClientConnection | None, path: str) -> Failure | None:
        """Why the user of a connection may not read a path, and counts that. None: it may, or there is no connection."""
        owner = None if connection is None else connection.principal
        if self.access is None or connection is None or owner is None or owner.privileged:
            return None
        failure = self.access.first_denial(owner, (needs.listen(path),), connection.client_id)
        self.access.refused["not-allowed"] += failure is not None
        return failure

    def will_denial(self, will: Will, user: str, client_id: str) -> Failure | None:
        """Why the will of a user's client may not be published now, and counts that. None: it may."""
        access = self.access
        if access is None:
            return None
        principal = access.left_by(user, will.host, will.registered)
        if isinstance(principal, Failure):
            return principal
        failure = access.bans.of(user, client_id, will.host)
        if failure is None and not principal.privileged:
            message = will.message
            path = path_of(message.topic, message.properties)
            failure = access.first_denial(principal, (needs.publish(path, message.topic),), client_id)
        access.refused["not-allowed"] += failure is not None
        return failure

    def refusal(self, connection: ClientConnection, command: Command, path: str, publish: bool) -> Failure | None:
        """As `denial`, and counts it."""
        failure = self.denial(connection, command, path, publish)
        if failure is not None and self.access is not None:
            self.access.refused["not-allowed"] += 1
        return failure
