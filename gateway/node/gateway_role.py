"""The role gateway without the role store: what clients want is forwarded to the store of another process."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, final

from domain.backup import Backups
from domain.errors import ConfigError, Failure
from domain.ports import Clock
from gateway.access.records import AccessRecords
from gateway.client.answer import KeyPlaceError
from gateway.client.security import KeyPlace
from gateway.forwarding.forwarder import Forwarder
from gateway.forwarding.forwarders import Forwarders
from gateway.forwarding.traffic import Traffic
from gateway.node.client_side import ClientSide
from gateway.node.composition import access_of
from gateway.node.config import Config, refuse_exposed
from gateway.node.gateway_composition import compose_gateway
from gateway.node.protocols import Protocols
from gateway.node.role import EndClients, OpenPort
from gateway.node.store_address import StoreAddress
from gateway.observe.counters import CounterRegistry
from gateway.observe.health import Health
from gateway.observe.metrics import Snapshot
from gateway.observe.sys_values import traffic_of
from gateway.runtime.entropy import SystemEntropy
from gateway.runtime.outgoing.store_connection import Dialog, StoreConnection
from protocols.remoting.node_dialog import NodeDialog, Sign

CHECK_S: Final = 0.01
"""Time between two looks at whether the store is there, during the start."""
SETTLE_S: Final = 2.0
"""Seconds that the store has for its answers when this node stops."""
log = logging.getLogger("headgate.node")


@final
class GatewayRole:
    """`gateway.node.role.Role` of a process that has no store."""

    def __init__(
        self, config: Config, clock: Clock, health: Health, protocols: Protocols, counters: CounterRegistry | None = None
    ) -> None:
        """Raises ConfigError when no store is named. `counters`: of the name server in this process; None: there is none."""
        self.folder = Path(config.data)
        self._config = config
        self._address = config.part(StoreAddress, "gateway")
        if not self._address.store:
            raise ConfigError(
                f"roles is {config.roles}: a gateway without a store needs one elsewhere: name it by --store HOST:PORT, "
                "or by store in the table [gateway]"
            )
        self._sign()
        self._tls()
        self._clock = clock
        self._health = health
        self._protocols = protocols
        self._counters = counters or CounterRegistry(protocols.words, clock.wall_ms)
        self._entropy = SystemEntropy()
        self._side: ClientSide | None = None
        name = config.advertise or config.host
        lives = [self._entropy.token(16) for _ in range(self._address.connections)]
        self._forwarders = Forwarders(clock, config.cluster, name, lives, self._address.versions)
        self._records = AccessRecords(None, access_of(config).grants, self._forwarders.state)
        self._connections = [self._connection(forwarder) for forwarder in self._forwarders.each]
        self._where = self._connections[0].where

    def _connection(self, forwarder: Forwarder) -> StoreConnection:
        address = self._address
        return StoreConnection(
            *address.endpoint, partial(self._dialog, forwarder), self._tls, address.answer_s, address.silence_s, self._entropy,
            self._changed,
        )  # fmt: skip

    @property
    def client_side(self) -> ClientSide:
        """What serves clients."""
        assert self._side is not None
        return self._side

    @property
    def backups(self) -> Backups | None:
        """None: the store has them."""
        return None

    def _dialog(self, forwarder: Forwarder, write: Callable[[bytes], None]) -> Dialog:
        return NodeDialog(forwarder, self._sign(), write)

    def _sign(self) -> Sign | None:
        file = self._address.access_key_file
        try:
            return KeyPlace(file).read().signed if file else None
        except KeyPlaceError as error:
            raise ConfigError(f"gateway.access_key_file: {error}") from error

    def _tls(self) -> ssl.SSLContext | None:
        authorities = self._address.store_ca
        if not authorities:
            return None
        try:
            context = ssl.create_default_context(cafile=authorities)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"gateway.store_ca {authorities} cannot be used: {error}") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def _changed(self) -> None:
        """A connection to the store is there, or is not any more. While there is one, new clients are served."""
        waits = [connection.waits for connection in self._connections]
        self._health.waits = f"waits for the store at {self._where}: {waits[0]}" if all(waits) else ""

    async def open(self, ports: Mapping[str, int], host: str) -> None:
        """Wait for the store, for ever. Raises ConfigError for wrong settings."""
        log.info("waits for the store at %s", self._where)
        self._changed()
        for connection in self._connections:
            connection.start()
        forwarders = self._forwarders
        while forwarders.facts is None or not forwarders.ready:
            await asyncio.sleep(CHECK_S)
        facts = forwarders.facts
        if not facts.controlled:
            refuse_exposed(self._config)
        side = self._side = compose_gateway(
            self._config, ports, host, facts, forwarders.handler, self._records, self._clock, self._entropy, self._protocols,
            self._counters,
        )  # fmt: skip
        forwarders.each[0].traffic.counted = lambda: Traffic(*traffic_of(side.counter_registry.all()))

    def begin(self, now_ns: int, end_clients: EndClients, open_port: OpenPort) -> None:
        """When the store is lost, its clients begin anew, here or elsewhere."""
        self._forwarders.on_store_lost(end_clients)

    def unfinished_bytes(self) -> int:
        """Bytes of commands that the store has not answered."""
        return self._forwarders.unanswered_bytes()

    def fill(self, snapshot: Snapshot) -> Snapshot:
        """Add the state of the connections to the store."""
        connections = self._connections
        counters = {
            "gateway_store_connected": sum(not each.waits for each in connections),
            "gateway_store_attempts_total": sum(each.attempts for each in connections),
            "gateway_store_losses_total": sum(each.losses for each in connections),
            "gateway_unanswered_bytes": self._forwarders.unanswered_bytes(),
        }
        return dataclasses.replace(snapshot, counters={**snapshot.counters, **counters})

    def lines(self) -> list[tuple[str, str]]:
        """The store, users and the folder."""
        side = self.client_side
        who = "everybody who reaches a port" if side.access is None else f"controlled, {len(self._records.users)} users"
        secure = "TLS" if self._address.store_ca else "plain text"
        return [("store", f"{self._where}, {secure}"), ("access", who), ("data", f"{self.folder}: certificates")]

    def pause(self) -> None:
        """Nothing: a gateway does nothing by itself."""

    async def settled(self) -> None:
        """Wait for the store's answers, at most SETTLE_S."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + SETTLE_S
        while (self._forwarders.unanswered_bytes() or self._forwarders.unanswered()) and loop.time() < end_s:
            await asyncio.sleep(CHECK_S)

    def refuse_waiting(self, failure: Failure) -> None:
        """Answer long polls, and what the store has not answered in time."""
        self._forwarders.refuse_waiting(failure)

    async def close(self) -> None:
        """Close the connections to the store."""
        await self.settled()
        self.abandon()

    def abandon(self) -> None:
        """Stop waiting for the store."""
        for connection in self._connections:
            connection.close()
