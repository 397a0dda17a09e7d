"""The composition of a node: builds the store, the use cases, the access gate and the protocol adapters.

This module and the roles (`gateway.node.roles`) alone name concrete classes. `compose` is given the disk, the
clock and the entropy, and opens no socket, so the simulation uses it too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from domain.admin.replica import ReplicaView
from domain.client.membership import Subscription
from domain.ports import Disk, Entropy
from domain.store.message_store import MessageStore
from domain.store.store_event import Report
from domain.walk import Walks
from gateway.access.administration import Administration, ContextAdministration
from gateway.access.authority import Access
from gateway.access.bootstrap import open_access
from gateway.access.gate import Gate
from gateway.access.path_rights import PathRights
from gateway.access.records import AccessRecords
from gateway.access.revocation import AccessRevocation
from gateway.access.settings import AccessTable
from gateway.audit.settings import AuditSettings
from gateway.cluster.controller.settings import ControllerSettings
from gateway.cluster.forwarding.gateway_clients import ForwardedClients
from gateway.cluster.registration.settings import RegistrationSettings
from gateway.cluster.replica.settings import ReplicationSettings
from gateway.connection.channels import Channels
from gateway.connection.handler import CommandEntry, Handler
from gateway.guard.settings import LimitsSettings, ProxySettings
from gateway.guard.throttle import Log
from gateway.node.client_side import ClientPlace, ClientSide, ClientUsers, CommandPath, access_of, make_client_side, trail_of
from gateway.node.protocols import Protocols, installed
from gateway.node.roles.store_address import StoreAddress
from gateway.node.settings import Config, Known
from gateway.node.storage import DEFAULT_ENGINE, engine_named, engine_of, is_rocketmq, settings_of
from gateway.node.use_cases import UseCaseContext, UseCaseParts, all_needs, all_writes, installed_use_cases
from gateway.observe.store_log import log_store_event
from gateway.usecase.consume.offload import Offload
from gateway.usecase.consume.watch import Watches
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.handler import UseCase
from gateway.usecase.publish.latest import LatestValues
from gateway.usecase.publish.recall import Recalling
from gateway.usecase.publish.transaction import TransactionEnding, TransactionResuming
from gateway.usecase.sessions.attached_sessions import AttachedSessions
from gateway.usecase.sessions.sessions import Sessions
from gateway.usecase.tools.inspect import Inspecting
from gateway.usecase.tools.nameserver import NameServer
from gateway.usecase.tools.node_policy import PolicyChanging
from gateway.usecase.tools.own_routes import OwnRoutes
from gateway.usecase.tools.query import Querying
from gateway.usecase.tools.replication import Replicas
from gateway.usecase.topics_and_groups.modes import Modes
from gateway.usecase.topics_and_groups.policy import NodePolicy
from gateway.usecase.topics_and_groups.topic_change import TopicChanging
from gateway.usecase.waiting.long_polls import LiveTails
from nameserver.settings import NameserverSettings
from nameserver.stored_settings import StoredSettings
from nameserver.table import RouteTable
from protocols.adapter import Adapter
from protocols.remoting.nodes.forwarding.greeting import Welcome
from protocols.setting import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSide:
    """The store of a node, and the wiring of the use cases for it. The defaults are right for a store in the data directory.

    recall_broker  the only broker whose recall handles are taken; "": the store knows several, and refuses handles of others
    front          dispatcher -> what the access gate passes commands to
    first          access gate or throttle -> what takes the commands of clients first
    interest       called with the filter of each subscription of a connected client that begins (True) or ends (False)
    waits          called with the topic of each pull that waits at the end of a queue; True: `interest` is called when it ends;
                   None: the store reports arrivals anyway
    follow_lost    called once with a listener, which gets topic, queue and offset when a queue loses its messages from there on
    streams        adapters in place of those of the same name
    access         users and policies of another node, and the authority over them; None: this node keeps its own
    epoch          in which this node leads its store group; 0: the store is no replica
    over           reason why this node does not lead any more; "": it leads, or it is no replica
    replica        state of the replication; None: the store is not replicated
    heard          (group, topic) -> subscription, from clients of this replica while it followed
    offload_bytes  a consumer that is further behind the end of the log is sent to a replica that follows; 0: none is
    """

    store: MessageStore
    recall_broker: str = ""
    front: Callable[[Handler], Handler] = lambda handler: handler
    first: Callable[[Handler], Handler] = lambda handler: handler
    interest: Callable[[str, bool], None] = lambda pattern, begins: None
    waits: Callable[[str], bool] | None = None
    follow_lost: Callable[[Callable[[str, int, int], None]], None] = lambda lost: None
    streams: Callable[[Config, Setting], Mapping[str, Adapter]] = lambda config, setting: {}
    access: tuple[AccessRecords, Access | None] | None = None
    epoch: int = 0
    over: Callable[[], str] = lambda: ""
    replica: ReplicaView | None = None
    offload_bytes: int = 0
    heard: Mapping[tuple[str, str], Subscription] = field(default_factory=dict)


PARTS: Final[Mapping[str, type]] = {
    "policy": NodePolicy,
    "access": AccessTable,
    "audit": AuditSettings,
    "limits": LimitsSettings,
    "proxy": ProxySettings,
    "gateway": StoreAddress,
    "registration": RegistrationSettings,
    "nameserver": NameserverSettings,
    "controller": ControllerSettings,
    "replication": ReplicationSettings,
}
"""Table of the configuration -> its settings class, for tables of neither a protocol nor the storage engine."""
DELIVERY_BYTES: Final = 1_024
"""What a delivery that waits counts for in `Parts.unfinished_bytes`."""
CHANNELS: Final = "mqtt"
"""What streams of an HTTP/2 connection that carry another protocol are counted under."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(ClientSide):
    """A composed node without sockets, with its store. Its gate is the throttle, else the access gate, else the dispatcher.

    handler           the dispatcher: executes commands without checking rights or rates
    watches           subscriptions to new messages that connections have registered
    """

    store: MessageStore
    handler: Dispatcher
    policy: NodePolicy
    forwarded: ForwardedClients
    protocols: Protocols
    watches: Watches
    sessions: Sessions
    latest_values: LatestValues
    use_cases: Mapping[str, UseCaseParts]

    def unfinished_bytes(self) -> int:
        """Bytes of messages that were taken from clients, and that the node has still to store or to deliver."""
        undelivered = DELIVERY_BYTES * (self.sessions.undelivered + self.watches.arriving)
        return self.store.unanswered_bytes() + self.handler.sending.waiting_bytes + undelivered


def known(protocols: Protocols | None = None) -> Known:
    """Ports and tables that a configuration may contain. `protocols`: None stands for the installed ones."""
    protocols = protocols or installed()
    declared = {name: table for each in installed_use_cases().values() for name, table in each.tables.items()}
    tables = {"store": engine_named(DEFAULT_ENGINE).settings, **PARTS, **declared, **protocols.tables}
    return Known(protocols.ports, tables, protocols.beside)


@dataclass(frozen=True, slots=True)
class StorePlace:
    """The data directory of a store, and what the store gets from the process.

    hot_bytes   default of the engine's setting `hot_bytes`: bytes of recent records kept in memory
    report      called with each event of the store
    """

    disk: Disk
    hot_bytes: int
    report: Report = log_store_event


def compose(place: ClientPlace, stored: StorePlace | StoreSide) -> Parts:
    """Make the use cases, the access gate and the adapters. Raises ConfigError and StoreError.

    `stored`: the data directory, whose store is opened, or a store that is open already.
    """
    side = stored
    if isinstance(side, StorePlace):
        side = StoreSide(store=open_store(place, side), recall_broker=place.config.broker)
    config, clock = place.config, place.clock
    store = side.store
    policy = config.part(NodePolicy, "policy")
    handler = _dispatcher(place, policy, side)
    rights = PathRights()
    attached = AttachedSessions()
    added = _added(place, policy, side, handler, rights, attached)
    records, access = side.access or open_access(
        access_of(config), config.admin, config.controlled, store.state, clock.wall_ms, config.cluster
    )
    handler.add(Administration(records), ContextAdministration(records))
    rights.access = access
    gate = side.front(handler)
    if access is not None:
        gate = _gate(handler, gate, access, attached, store)
    path = CommandPath(place, gate, side.first, log=_log(store, handler))
    channels = Channels(place.counters.of(CHANNELS), path.entry)
    forwarded = _forwarded(place, path.entry, handler.walks, side)
    handler.add(channels, forwarded)
    parts = partial(
        Parts,
        store=store,
        handler=handler,
        policy=policy,
        forwarded=forwarded,
        protocols=place.protocols,
        watches=added.watches,
        sessions=added.sessions,
        latest_values=added.latest_values,
        use_cases=added.use_cases,
    )
    users = ClientUsers(records, access, elsewhere=side.access is not None)
    return make_client_side(place, parts, path, users, side.streams)


@dataclass(frozen=True, slots=True)
class _Added:
    """Use cases that are named after they were added to the dispatcher."""

    watches: Watches
    sessions: Sessions
    latest_values: LatestValues
    use_cases: Mapping[str, UseCaseParts]


def _added(
    place: ClientPlace,
    policy: NodePolicy,
    side: StoreSide,
    handler: Dispatcher,
    rights: PathRights,
    attached: AttachedSessions,
) -> _Added:
    """Add the use cases that the dispatcher does not make itself, and let those that follow the store listen to it."""
    config, clock = place.config, place.clock
    store, metadata = side.store, side.store.metadata
    routes = RouteTable(config.part(NameserverSettings, "nameserver").routes_max)
    own_routes = OwnRoutes(config.cluster, config.broker, metadata, policy, side.replica)
    own_store = not is_rocketmq(config)
    context = UseCaseContext(
        store=store, handler=handler, policy=policy, clock=clock, entropy=place.entropy, rights=rights, own_store=own_store
    )
    handler.add(
        NameServer(routes, StoredSettings(store.state), clock, handler.questions, own_routes),
        Modes(handler.groups, metadata, routes, store.state),
        Inspecting(store.log, store.outlook, metadata, handler.topics, handler.rights, clock, _figures(store, handler)),
        Querying(store.log, store.positions, metadata, handler.registry, handler.questions, handler.reads),
        Replicas(side.replica, store.figures),
        PolicyChanging(policy, store.transactions.check_policy, metadata, side.replica),
        TopicChanging(metadata, handler.topics),
        Recalling(store.timers, handler.topics, side.recall_broker, clock),
        deciding := TransactionEnding(store.transactions, handler.registry),
        watches := Watches(clock, side.interest),
        sessions := Sessions(store, clock, handler, policy, attached, side.interest, rights),
        TransactionResuming(store.log, handler.topics),
        *_verbs(use_cases := _declared(context)),
    )  # fmt: skip
    if own_store:
        handler.sending.gathers = True
    removed = [each.removed for each in use_cases.values() if each.removed is not None]
    latest_values = LatestValues(store.state, clock, handler.reads, removed)
    handler.add(latest_values)
    store.log.listen(watches)
    store.transactions.listen(deciding)
    store.log.listen(sessions)
    side.follow_lost(sessions.went_back)
    if side.heard:
        handler.registry.inherit(side.heard)
    if side.replica is not None and side.offload_bytes:
        handler.pulling.offload(Offload(side.replica, side.offload_bytes))
    return _Added(watches, sessions, latest_values, use_cases)


def _log(store: MessageStore, handler: Dispatcher) -> Log:
    """Return the log for the throttle. Messages that were gathered go first: the next command has not written them."""

    def written() -> int:
        handler.sending.gathered.append()
        return store.accepted_bytes()

    return Log(written, all_writes())


def _forwarded(place: ClientPlace, entry: CommandEntry, walks: Walks, side: StoreSide) -> ForwardedClients:
    config, life = place.config, place.entropy.token(16).hex()
    welcome = Welcome(config.cluster, config.broker, life, config.controlled, epoch=side.epoch)
    return ForwardedClients(entry, walks, side.store, welcome, config.part(StoreAddress, "gateway").versions)


def _declared(context: UseCaseContext) -> dict[str, UseCaseParts]:
    """The parts of the installed use cases, by name."""
    return {name: each.make(context) for name, each in installed_use_cases().items()}


def _verbs(use_cases: Mapping[str, UseCaseParts]) -> list[UseCase]:
    return [verb for each in use_cases.values() for verb in each.verbs]


def open_store(place: ClientPlace, stored: StorePlace) -> MessageStore:
    """Open the store in the data directory, as `compose` does. Raises ConfigError and StoreError."""
    config = place.config
    given = given_to_store(config, place.protocols.store_host(place.host, place.ports), place.entropy)
    settings = settings_of(config, stored.hot_bytes, given)
    return engine_of(config).open(stored.disk, place.clock, settings, stored.report)


def given_to_store(config: Config, store_host: bytes, entropy: Entropy) -> dict[str, object]:
    """Settings of the store that follow from those of the node."""
    return {
        "broker": config.broker,
        "store_host": store_host,
        "durability": config.durability,
        "fresh_incarnation": int.from_bytes(entropy.token(8), "big") >> 1 | 1,
    }


def _dispatcher(place: ClientPlace, policy: NodePolicy, side: StoreSide) -> Dispatcher:
    config, store = place.config, side.store
    handler = Dispatcher(
        store=store,
        clock=place.clock,
        entropy=place.entropy,
        cluster=config.cluster,
        broker=config.broker,
        policy=policy,
        tails=None if side.waits is None else LiveTails(side.waits, side.interest),
        refusal=None if is_rocketmq(config) else lambda: store.broken,
    )
    handler.write_down(trail_of(place).verb)
    handler.counters.follow("parked", lambda: store.timed()[0])
    handler.counters.follow("due", lambda: store.timed()[1])
    return handler


def _figures(store: MessageStore, handler: Dispatcher) -> Callable[[], dict[str, float]]:
    return lambda: {**store.figures(), **handler.counters.figures()}


def _gate(handler: Dispatcher, inner: Handler, access: Access, attached: AttachedSessions, store: MessageStore) -> Handler:
    """The access gate in front of `inner`, and what takes access away again."""
    needs = all_needs()
    reviews = [*handler.reviews, *handler.kept_reviews]
    revocation = AccessRevocation(access, handler.walks, handler, attached.subscriptions_of, reviews, needs)
    attached.follow_resumed(revocation.session_resumed)
    handler.walks.clock.call_soon(revocation.review_all)  # users and policies of the configuration may be others than before
    return Gate(access, inner, store.transactions, revocation, store.log, needs)
