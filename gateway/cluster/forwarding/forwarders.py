"""Gateway side of forwarding over several connections to the store: each client stays on one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from domain.client.mqtt_session import Attach
from domain.command import Command, Disconnected
from domain.errors import Failure
from domain.message.crc32 import crc32
from domain.ports import Clock
from gateway.cluster.forwarding.forwarder import HELD_BYTES_MAX, Forwarder, StoreLost
from gateway.cluster.forwarding.space_copies import SpaceCopies
from gateway.cluster.forwarding.traffic import OwnTraffic, Traffic
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler
from protocols.remoting.nodes.forwarding.greeting import Welcome


@final
class Forwarders:
    """Handler over forwarders, one for each connection to the store, which treats each as a gateway of its own.

    The commands of one client stay in order, since they use one connection; so do those of an MQTT session over successive
    connections of its client, and those of CoAP peers. A new client is assigned to the open connection with the fewest clients.

    each      the forwarders; the first one keeps the copies of spaces of the store's state
    """

    def __init__(
        self,
        clock: Clock,
        cluster: str,
        node: str,
        lives: Sequence[bytes],
        versions: tuple[int, ...],
        on_store_lost: StoreLost,
        counted: Callable[[], Traffic],
    ) -> None:
        """`lives`: 16 random bytes for each connection. `counted`: as in `OwnTraffic`."""
        traffic = OwnTraffic(lives[0], counted)
        first = Forwarder(clock, cluster, node, lives[0], on_store_lost, traffic, versions)
        names = [f"{node} connection {number}" for number in range(2, len(lives) + 1)]
        others = [
            Forwarder(clock, cluster, name, life, on_store_lost, traffic, versions, first)
            for name, life in zip(names, lives[1:], strict=True)
        ]
        self.each: Sequence[Forwarder] = [first, *others]
        self.handler: Handler = self if others else first
        self._of: dict[ClientConnection, Forwarder] = {}
        for forwarder in self.each:
            forwarder.held_bytes_max = HELD_BYTES_MAX // len(self.each)

    @property
    def facts(self) -> Welcome | None:
        """The last answer of the store's node to a greeting; None: it was not reached yet."""
        return self.each[0].facts

    @property
    def state(self) -> SpaceCopies:
        """Copies of spaces of the store's state."""
        return self.each[0].state

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """See Forwarder.handle."""
        if type(command) is Disconnected:
            forwarder = self._of.pop(connection, None) or self.each[0]
        else:
            forwarder = self._of.get(connection) or self._chosen(connection, command)
        forwarder.handle(connection, command)

    def _chosen(self, connection: ClientConnection, command: Command) -> Forwarder:
        """The forwarder for a client, chosen at its first command."""
        each = self.each
        if connection.shared:
            found = each[0]
        elif isinstance(command, Attach) and (own := each[crc32(command.client_id.encode()) % len(each)]).linked:
            found = own
        else:
            found = min(each, key=lambda forwarder: (not forwarder.linked, forwarder.clients))
        self._of[connection] = found
        return found

    def unanswered_bytes(self) -> int:
        """Bytes of commands that the store's node has not received yet."""
        return sum(forwarder.unanswered_bytes() for forwarder in self.each)

    def unanswered(self) -> int:
        """See ForwarderClients.unanswered."""
        return sum(forwarder.forwarded.unanswered() for forwarder in self.each)

    def refuse_waiting(self, failure: Failure) -> None:
        """See ForwarderClients.refuse_waiting."""
        for forwarder in self.each:
            forwarder.forwarded.refuse_waiting(failure)
