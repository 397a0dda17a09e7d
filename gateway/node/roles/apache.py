"""The roles gateway and store before an Apache RocketMQ cluster: messages are there, state is in a data directory.

A gateway keeps the state itself, or `[store.state] address` names the state node: a process with the role store alone, which
carries out what needs state for all gateways, and relays no remoting clients.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar, final

from domain.errors import ConfigError, Failure
from domain.limits import REMOTING_FRAME_BYTES_MAX, SECOND_NS
from domain.store.store_ports import StateChange, StatePairs
from gateway.access.authority import Access
from gateway.access.records import AccessRecords
from gateway.apache.relay.brokers import RelayBrokers
from gateway.apache.relay.relay import Relay
from gateway.apache.relay.servers import RelayServers
from gateway.apache.relay.settings import RelaySettings
from gateway.apache.relay.uplink import FULL_BYTES
from gateway.apache.settings import RocketmqSettings
from gateway.apache.store import RocketmqStore
from gateway.apache.topics.broker_capabilities import CapabilityFinding, ClusterCapabilities
from gateway.apache.topics.metadata import RocketmqMetadata
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.brokers.queue_choice import CHOICES, MakeChoice
from gateway.connection.handler import Handler
from gateway.node.client_side import ClientPlace, ClientSide, counters_of
from gateway.node.composition import StorePlace, StoreSide, open_store
from gateway.node.entry_points import load_named
from gateway.node.roles.cluster_access import ClusterAccess, has_cluster_users
from gateway.node.roles.installed_roles import RoleContext
from gateway.node.roles.local_store import LocalStore
from gateway.node.roles.role import EndClients, OpenPort, Role
from gateway.node.roles.role_names import GATEWAY, STORE
from gateway.node.roles.server_access import ServerAccess
from gateway.node.roles.state_node import StateNode
from gateway.node.roles.store import StoreRole
from gateway.node.settings import Config, refuse_exposed
from gateway.node.storage import of_cluster, state_address
from gateway.observe.counters import CounterRegistry
from gateway.observe.health import Health
from gateway.observe.metrics import Snapshot
from gateway.runtime.entropy import SystemEntropy
from gateway.runtime.machine import hot_bytes
from protocols.adapter import Adapter
from protocols.remoting.relayed.connection import RelayAdapter
from protocols.remoting.settings import RemotingSettings
from protocols.setting import Setting

CHECK_S: Final = 0.02
"""Time between two looks at whether the cluster is there, during the start."""
LOG_S: Final = 10.0
REFUSED_S: Final = 1.0
"""Pause before brokers that refuse the access key of this node are asked again."""
ASKED_TOPICS: Final = 256
"""Topics that name servers are asked for at once, during the start."""
PORTS: Final = "rocketmq_ports"
"""State space of the ports at which brokers are served: address of the broker -> port."""
PORTS_MAX: Final = 1_024
"""Ports of earlier starts that are used again."""
STRATEGIES: Final = "gateway.apache.choices"

log = logging.getLogger("headgate.rocketmq")
Told = TypeVar("Told")


@final
class ApacheRole(Role):
    """Role of a gateway whose messages are in an Apache RocketMQ cluster."""

    def __init__(self, context: RoleContext) -> None:
        """Lock the data directory. Raises ConfigError when no name server is named, StoreError for the directory."""
        config, clock = context.config, context.clock
        self._settings = of_cluster(config, RocketmqSettings)
        self._relay_settings = of_cluster(config, RelaySettings)
        if not self._settings.nameservers:
            raise ConfigError('store.nameservers is empty: name the cluster\'s name servers, as in ["10.0.0.5:9876"]')
        self._config = config
        self._clock = clock
        self._health = context.health
        self._protocols = context.protocols
        self._entropy = SystemEntropy()
        self._relays = GATEWAY in config.role_set
        counters = counters_of(context.protocols, clock)
        self._state = self._state_node(context.health, counters)
        self._make_choice = _strategy(self._settings.send)
        self._reached = ServerAccess(self._settings.servers)
        self._sign = self._reached.kept_sign(clock)
        self._servers = self._connections(self._reached.servers.endpoints)
        self._inner = StoreRole(context, self._store_side, counters)
        self.folder = self._inner.folder
        self._store: RocketmqStore
        self._cluster: ClusterMap
        self._relay: Relay | None = None
        self._access: ClusterAccess | None = None

    def _connections(self, nameservers: Sequence[tuple[str, int]]) -> Brokers:
        """Connections to servers of the cluster, signed with the key of this node."""
        return Brokers(nameservers, self._reached.dialer(), self._clock, self._entropy, self._sign)

    def _state_node(self, health: Health, counters: CounterRegistry) -> StateNode | None:
        """None: the state is in this node's data directory."""
        config = self._config
        address = state_address(config)
        if address is not None:
            if STORE in config.role_set:
                raise ConfigError(
                    f"roles is {config.roles}: store.state names the state node {address.address}, so this process is "
                    "no store: start it with --roles gateway"
                )
            return StateNode(config, address, self._clock, self._entropy, health, counters)
        if not self._relays and config.role_set != {STORE}:
            raise ConfigError(f"roles is {config.roles}: a state node of a cluster has the role store alone")
        if not config.controlled:
            refuse_exposed(config)
        return None

    @property
    def client_side(self) -> ClientSide:
        """The composed node."""
        return self._inner.client_side

    async def open(self, ports: Mapping[str, int], host: str) -> None:
        """Wait for the cluster, for ever; then serve. Raises ConfigError and StoreError."""
        await self._inner.open(ports, host)

    async def _store_side(self, local: LocalStore, place: ClientPlace) -> StoreSide:
        config, clock, state = self._config, self._clock, self._state
        if state is not None:
            await state.open()
        store = local.opened(lambda: open_store(place, StorePlace(local.disk, hot_bytes(), local.report)))
        self._cluster = ClusterMap(self._servers, clock, store.state)
        metadata = RocketmqMetadata(self._servers, self._cluster, clock, (config.cluster, config.broker))
        self._cluster.start()
        await self._brokers_told()
        await self._remembered(metadata)
        facts = await self._facts()
        if has_cluster_users(config):
            if state is not None:
                state.need_control()
            self._access = ClusterAccess(config, clock, self._servers, self._connections(()), self._cluster)
            await self._access.open(self._health)
        metadata.start()
        choice = self._make_choice(self._servers, self._cluster, self._settings.zone)
        client_id = f"{socket.gethostname()}@{os.getpid()}@headgate"
        self._store = RocketmqStore(
            self._servers, self._cluster, metadata, store, choice, facts, clock, client_id
        )  # fmt: skip
        self._relay = await self._relayed(place.ports, place.host) if self._relays else None
        return StoreSide(
            store=self._store,
            front=self._store.before,
            first=self._first,
            interest=self._store.tail.watch,
            waits=self._store.tail.wait,
            follow_lost=self._store.tail.pulls.follow_lost,
            streams=self._streams,
            access=self._authority(),
        )

    def _authority(self) -> tuple[AccessRecords, Access | None] | None:
        """Users and policies of the cluster, or of the state node; None: those of this node."""
        if self._access is not None:
            return self._access.access()
        return None if self._state is None else self._state.access()

    def _first(self, gate: Handler) -> Handler:
        """What takes the commands of clients: some are the state node's, and those of the relay need no gate."""
        handler = gate if self._state is None else self._state.before(gate)
        return handler if self._relay is None else self._relay.before(handler)

    def _streams(self, config: Config, setting: Setting) -> dict[str, Adapter]:
        """The adapter of remoting clients that are relayed."""
        if self._relay is None:
            return {}
        checked = self._relay_settings.check_signatures
        return {"remoting": RelayAdapter(setting, config.part(RemotingSettings, "remoting"), checked)}

    async def _brokers_told(self) -> None:
        """Wait until a name server has reported the brokers."""
        where = ", ".join(self._settings.nameservers)
        log.info("waits for the name servers of the cluster: %s", where)
        loop = asyncio.get_running_loop()
        said_s = loop.time()
        while not self._cluster.brokers:
            waiting = "; ".join(self._servers.nameservers_waiting()) or self._cluster.fault or "no broker is known there yet"
            self._health.waits = f"waits for the cluster at {where}: {waiting}"
            if loop.time() - said_s >= LOG_S:
                said_s = loop.time()
                log.warning("%s", self._health.waits)
            await asyncio.sleep(CHECK_S)
        self._health.waits = ""

    async def _remembered(self, metadata: RocketmqMetadata) -> None:
        """Ask for the topics that were used before: sessions that are resumed do not wait for them."""
        names = await _answer_of(self._cluster.remembered)
        for at in range(0, len(names), ASKED_TOPICS):
            some = names[at : at + ASKED_TOPICS]
            await asyncio.gather(*(_answer_of(partial(metadata.ensure_topic, name)) for name in some))

    async def _facts(self) -> ClusterCapabilities:
        """What the brokers say of themselves. Waits while all of them refuse the access key of this node."""
        said = ""
        while True:
            facts = await _answer_of(CapabilityFinding(self._servers, self._cluster).start)
            refusal = facts.refusal()
            if not refusal:
                break
            self._health.waits = f"waits for the cluster: {refusal}: name a user of the cluster in store.access_key_file"
            if refusal != said:
                said = refusal
                log.warning("%s", self._health.waits)
            await asyncio.sleep(REFUSED_S)
        self._health.waits = ""
        for line in facts.missing():
            log.info("not to be had from this cluster: %s", line)
        return facts

    async def _relayed(self, ports: Mapping[str, int], host: str) -> Relay:
        """What passes remoting clients on to the brokers."""
        state, settings = self._store.state, self._relay_settings

        def read_ports(done: Callable[[StatePairs | Failure], None]) -> None:
            state.pairs(PORTS, b"", b"", PORTS_MAX, done)

        pairs = await _answer_of(read_ports)
        kept = {} if isinstance(pairs, Failure) else {key.decode(): int(value) for key, value in pairs.pairs}

        def keep(address: str, port: int) -> None:
            state.put([StateChange(PORTS, address.encode(), b"%d" % port)], None)

        brokers = RelayBrokers(host, settings, kept, keep)
        dialer = self._reached.dialer(unwritten_bytes_max=FULL_BYTES)
        nameservers = self._reached.servers.endpoints
        return Relay(RelayServers(nameservers, brokers, ports, dialer, self._clock, settings, REMOTING_FRAME_BYTES_MAX))

    def begin(self, now_ns: int, end_clients: EndClients, open_port: OpenPort) -> None:
        """Serve each broker at a port of its own."""
        self._inner.begin(now_ns, end_clients, open_port)
        registry = self._inner.parts.handler.registry
        self._store.begin(lambda group: bool(registry.producers(group)))
        if self._relay is not None:
            self._relay.start(lambda port: open_port("remoting", port))
            self._cluster.follow(self._relay_brokers)
            self._relay_brokers("")
        if self._state is not None:
            self._state.begin(end_clients)
        self._poll()

    def _relay_brokers(self, topic: str) -> None:
        """Pass the brokers to the relay, as follower of the cluster map. `topic` "": they have changed."""
        if self._relay is not None and not topic:
            self._relay.notified(self._cluster.brokers.values())

    def _poll(self) -> None:
        """Say why clients should go elsewhere, if they should; again each second."""
        self._clock.call_at(self._clock.monotonic_ns() + SECOND_NS, self._poll)
        away = [broker for broker in self._cluster.brokers if self._servers.waits(broker)]
        gone = away and len(away) == len(self._cluster.brokers)
        unknown = "" if self._access is None else self._access.waits
        self._health.waits = "no broker of the cluster answers" if gone else unknown

    def unfinished_bytes(self) -> int:
        """See `Parts.unfinished_bytes`. The relay bounds each of its clients alone: most of its requests are long polls."""
        return self._inner.unfinished_bytes() + (0 if self._state is None else self._state.unfinished_bytes())

    def fill(self, snapshot: Snapshot) -> Snapshot:
        """Add what the store, the use cases and the relay know."""
        filled = self._inner.fill(snapshot)
        counters = dict(filled.counters)
        for each in (self._relay, self._state, self._access):
            counters.update({} if each is None else each.figures())
        return dataclasses.replace(filled, counters=counters)

    def lines(self) -> list[tuple[str, str]]:
        """What the cluster is, and what is not to be had."""
        inner = [line for line in self._inner.lines() if line[0] != "durability"]
        relayed = [] if self._relay is None else [("brokers at", self._relay.servers.where())]
        state = [] if self._state is None else [self._state.line()]
        users = [] if self._access is None else [self._access.line()]
        return [*self._store.facts.lines(), *relayed, *state, *users, *inner]

    def pause(self) -> None:
        """Start no further work."""
        self._inner.pause()
        if self._relay is not None:
            self._relay.stop()

    async def settled(self) -> None:
        """Wait until all earlier sends are answered."""
        await self._inner.settled()
        if self._state is not None:
            await self._state.settled()

    def refuse_waiting(self, failure: Failure) -> None:
        """Answer long polls."""
        self._inner.refuse_waiting(failure)
        if self._state is not None:
            self._state.refuse_waiting(failure)

    async def close(self) -> None:
        """Close the connections to the cluster, and the data directory."""
        if self._state is not None:
            await self._state.settled()
            self._state.close()
        if self._access is not None:
            self._access.stop()
        await self._inner.close()

    def abandon(self) -> None:
        """The start has failed."""
        for each in (self._state, self._servers):
            if each is not None:
                each.close()
        if self._access is not None:
            self._access.stop()
        self._inner.abandon()


def _answer_of(ask: Callable[[Callable[[Told], None]], None]) -> asyncio.Future[Told]:
    """What `ask` gives to the function that it gets."""
    answer: asyncio.Future[Told] = asyncio.get_running_loop().create_future()

    def take(value: Told) -> None:
        if not answer.done():  # a start that is ended waits no more
            answer.set_result(value)

    ask(take)
    return answer


def _strategy(name: str) -> MakeChoice:
    """The strategy called `name`. Raises ConfigError."""
    found = CHOICES.get(name)
    if found is not None:
        return found
    what = f"store.send is {name!r}"
    found, _ = load_named(
        STRATEGIES, name,
        lambda names: f"{what}: there is no such strategy; there are {', '.join([*CHOICES, *names])}",
        f"{what}: the strategy cannot be loaded",
    )  # fmt: skip
    made: MakeChoice = found
    return made


def make_role(context: RoleContext) -> ApacheRole:
    """The entry point `apache`. Raises ConfigError and StoreError."""
    return ApacheRole(context)
