"""The state node of a gateway before a cluster: what has no place there is kept by it, for all gateways."""

from __future__ import annotations

import logging
from typing import final

from domain.errors import ConfigError, Failure
from domain.ports import Clock, Entropy
from gateway.access.authority import Access
from gateway.access.records import AccessRecords
from gateway.cluster.forwarding.state_routing import StateRouting
from gateway.connection.handler import Handler
from gateway.node.client_side import access_of
from gateway.node.roles.node_connections import NodeConnections
from gateway.node.roles.role import EndClients
from gateway.node.roles.store_address import StateAddress
from gateway.node.settings import Config, refuse_exposed
from gateway.observe.counters import CounterRegistry
from gateway.observe.health import Health

log = logging.getLogger("headgate.node")


@final
class StateNode:
    """The connections to it, and what they add to the role of the gateway.

    Once it has been reached, this gateway goes on without it: with the users that it knows, and without state.
    """

    def __init__(
        self,
        config: Config,
        address: StateAddress,
        clock: Clock,
        entropy: Entropy,
        health: Health,
        counters: CounterRegistry,
    ) -> None:
        """Raises ConfigError when the key or the authorities cannot be read. `counters`: of the ports of this process."""
        self._config = config
        self._clock = clock
        self._health = health
        self._connections = NodeConnections(config, address.of_node(), address.servers, clock, entropy, self._changed, counters)
        self._forwarders = self._connections.forwarders
        self._opening = True

    def _changed(self) -> None:
        """A connection is there, or is not any more."""
        waits = self._connections.waits
        if self._opening:
            self._health.waits = f"waits for the state node at {self._connections.where}: {waits}" if waits else ""

    async def open(self) -> None:
        """Wait for it, for ever. Raises ConfigError when it lets everybody in and others reach this gateway."""
        log.info("waits for the state node at %s", self._connections.where)
        self._changed()
        self._connections.start()
        await self._connections.reached()
        self._opening = False
        self._health.waits = ""
        if not self.controlled:
            refuse_exposed(self._config)

    @property
    def controlled(self) -> bool:
        """Whether it controls access, once it has been reached."""
        facts = self._forwarders.facts
        return facts is not None and facts.controlled

    def need_control(self) -> None:
        """Raise ConfigError when it lets everybody in, who is checked here by the users of the cluster."""
        if not self.controlled:
            raise ConfigError(
                f"the state node at {self._connections.where} does not control access: "
                'start it with [access] users = "cluster" too'
            )

    def access(self) -> tuple[AccessRecords, Access | None]:
        """A copy of its users and policies, and the authority over them; None: it does not control access."""
        records = self._connections.records
        if not self.controlled:
            return records, None
        return records, Access(records, access_of(self._config), self._clock.wall_ms, self._config.cluster)

    def before(self, handler: Handler) -> Handler:
        """What takes the commands of clients: those that need state are given to the state node, all others to `handler`."""
        return StateRouting(self._forwarders.handler, handler)

    def begin(self, end_clients: EndClients) -> None:
        """Clients are served from now on."""
        self._connections.begin(end_clients)

    def unfinished_bytes(self) -> int:
        """Bytes of commands that it has not answered."""
        return self._forwarders.unanswered_bytes()

    def figures(self) -> dict[str, float]:
        """For the metrics."""
        return self._connections.figures()

    def line(self) -> tuple[str, str]:
        """For the table that is printed at the start."""
        return "state", f"at {self._connections.where}, {self._connections.secure}"

    async def settled(self) -> None:
        """Wait for its answers, for a bounded time."""
        await self._connections.settled()

    def refuse_waiting(self, failure: Failure) -> None:
        """Answer what it has not answered in time."""
        self._forwarders.refuse_waiting(failure)

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()
