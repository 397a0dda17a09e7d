"""State node of a gateway before a cluster: it handles commands that need state, the gateway all others (decision 46)."""

from __future__ import annotations

from typing import Final, final

from domain.admin import oscore, user
from domain.client import mqtt_session
from domain.command import Command, DeleteLatest, Disconnected, QueryLatest, Send
from domain.errors import Failure
from domain.event import Event
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler

STATE: Final[frozenset[type[Command]]] = frozenset(
    {
        QueryLatest, DeleteLatest, user.CreateUser, user.UpdateUser, user.DeleteUser, user.ListUsers, user.PutPolicies,
        user.DeletePolicies, user.ListPolicies, oscore.PutOscoreContext, oscore.DeleteOscoreContext, oscore.QueryOscoreContext,
        oscore.ReserveOscoreRun, oscore.HoldOscoreContext,
    }
)  # fmt: skip
"""Commands that read or change state, besides those of MQTT sessions."""


@final
class StandIn:
    """Driver of a connection with only those commands of a client that need state; passes their answers to the client.

    The connection counts as shared, so a client keeps its own connection when the state node is lost: its other commands go on.
    """

    __slots__ = ("_client", "connection")

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self.connection = ClientConnection(client.protocol, self, shared=True)
        self.connection.host = client.host

    def answer(self, event: Event) -> None:
        """Pass an answer to the client."""
        self._client.answer(event)

    def close(self) -> None:
        """Close the connection of the client, since the state node drops it."""
        self._client.driver.close()

    def throttle(self, until_ns: int) -> None:
        """Stop reading from the client until monotonic `until_ns`."""
        self._client.driver.throttle(until_ns)

    def revoke_access(self, failure: Failure) -> None:
        """No effect: this gateway follows users too, and notifies the client itself."""


@final
class StateRouting:
    """Handler that passes commands that need state to a state node, and all others to `handler`.

    The state node gets all commands of MQTT clients. Of other clients it gets reads and changes of latest values, messages that
    set a latest value or have an idempotency key, and changes of users.
    """

    def __init__(self, state: Handler, handler: Handler) -> None:
        self._state = state
        self._handle = handler.handle
        self._sessions: set[ClientConnection] = set()
        self._stand_ins: dict[ClientConnection, StandIn] = {}

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Pass a command to the state node or to `handler`."""
        kind = type(command)
        if connection in self._sessions:
            if kind is Disconnected:
                self._sessions.discard(connection)
            self._state.handle(connection, command)
        elif kind is mqtt_session.Attach:
            self._sessions.add(connection)
            self._state.handle(connection, command)
        elif kind in STATE or (isinstance(command, Send) and _needs_state(command)):
            self._state.handle(self._stand_in(connection), command)
        else:
            if kind is Disconnected:
                self._leave(connection, command)
            self._handle(connection, command)

    def _stand_in(self, client: ClientConnection) -> ClientConnection:
        found = self._stand_ins.get(client)
        if found is None:
            found = self._stand_ins[client] = StandIn(client)
        return found.connection

    def _leave(self, client: ClientConnection, command: Command) -> None:
        found = self._stand_ins.pop(client, None)
        if found is not None:
            self._state.handle(found.connection, command)


def _needs_state(command: Send) -> bool:
    if command.once is not None:
        return True
    for message in command.messages:  # noqa: SIM110  a generator costs each message more
        if message.retain:
            return True
    return False
