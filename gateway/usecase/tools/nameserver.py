"""The name server: routes of this node's topics, and of brokers that register with it.

Routes of this node's topics are made from its metadata when they are asked for, so a topic has a route as soon as it exists.
The address of this node's own broker is empty in them: the protocol that the client speaks fills in its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Final

from domain import address
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.limits import SECOND_NS
from domain.nameserver.directory import BrokerRoutes, NameServerSettings
from domain.nameserver.route import (
    MASTER_ID,
    ORDER_KEY,
    ORDER_NAMESPACE,
    OWN_NAMESPACE,
    BrokerAddresses,
    BrokerRegistered,
    BrokerRenewed,
    ClusterFound,
    DropRoute,
    ListRoutes,
    PutSetting,
    QueryCluster,
    QueryRoute,
    QuerySettings,
    RegisterBroker,
    RenewBroker,
    RouteFound,
    RouteNames,
    SettingsFound,
    SetWritable,
    TopicQueues,
    UnregisterBroker,
    WritableChanged,
)
from domain.ports import Clock
from domain.store_ports import Metadata
from domain.topic import PERM_READ_WRITE, PERM_WRITE, Topic
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.catalog import every
from gateway.usecase.catalog.policy import NodePolicy
from gateway.usecase.catalog.topics import queues_of_derived
from gateway.usecase.handler import Verb
from gateway.usecase.long_questions import STEP_ITEMS, LongQuestions, Steps

SWEEP_NS: Final = 5 * SECOND_NS


class NameServer:
    """The verbs of the name server: routes, the brokers of the cluster, and key/value settings."""

    def __init__(
        self,
        cluster: str,
        broker: str,
        metadata: Metadata,
        routes: BrokerRoutes,
        settings: NameServerSettings,
        clock: Clock,
        policy: NodePolicy,
        questions: LongQuestions,
    ) -> None:
        self._cluster = cluster
        self._broker = broker
        self._own_writable = True
        self._policy = policy
        self._permission = policy.permission
        self._own = BrokerAddresses(cluster, broker, {MASTER_ID: ""})
        self._metadata = metadata
        self._routes = routes
        self._settings = settings
        self._clock = clock
        self._questions = questions
        clock.call_at(clock.monotonic_ns() + SWEEP_NS, self._sweep)

    def verbs(self) -> Mapping[type[Command], Verb]:
        """The commands of domain/nameserver/route.py."""
        return {
            QueryRoute: self._route,
            QueryCluster: self._brokers,
            ListRoutes: self._names,
            DropRoute: self._drop,
            RegisterBroker: self._register,
            UnregisterBroker: self._unregister,
            RenewBroker: self._renew,
            SetWritable: self._set_writable,
            PutSetting: self._put,
            QuerySettings: self._settings_of,
        }

    def _sweep(self) -> None:
        now = self._clock.monotonic_ns()
        self._routes.expire(now)
        self._clock.call_at(now + SWEEP_NS, self._sweep)

    def _route(self, connection: ClientConnection, command: QueryRoute) -> None:
        queues, brokers = self._routes.route(command.topic)
        topic = self._metadata.topic(command.topic)
        if topic is None and address.is_topic(command.topic) and command.topic.startswith(address.RETRY_PREFIX):
            # The group's first heartbeat creates its retry topic, after this question. Without a route the client would ask
            # again only after 30 s.
            count = queues_of_derived(self._metadata, command.topic)
            topic = Topic(command.topic, count, count)
        if topic is not None:
            own = TopicQueues(self._broker, topic.read_queues, topic.write_queues, self._perm(topic), topic.sys_flag)
            queues = [own, *queues]
            brokers = [self._own, *brokers]
        if not queues:
            text = f"no topic route info in name server for the topic: {command.topic}"
            connection.answer(Refused(command.ticket, Failure(ErrorCode.TOPIC_NOT_FOUND, text)))
            return
        order = self._settings.get(ORDER_NAMESPACE, command.topic)
        if order and self._settings.get(OWN_NAMESPACE, ORDER_KEY) == "false":
            order = ""
        connection.answer(RouteFound(command.ticket, queues, brokers, order or ""))

    def _perm(self, topic: Topic) -> int:
        """The permission in a route: the topic's, within the broker's, without write when that was wiped by SetWritable."""
        permission = self._policy.permission
        if permission != self._permission:
            # RocketMQ's broker registers again when its permission changes, which undoes a wiped write permission.
            self._permission = permission
            self._own_writable = True
        perm = topic.perm if permission == PERM_READ_WRITE else topic.perm & permission
        return perm if self._own_writable else perm & ~PERM_WRITE

    def _brokers(self, connection: ClientConnection, command: QueryCluster) -> None:
        connection.answer(ClusterFound(command.ticket, [self._own, *self._routes.brokers()]))

    def _names(self, connection: ClientConnection, command: ListRoutes) -> None:
        self._questions.ask(connection, self._all_names(connection, command))

    def _all_names(self, connection: ClientConnection, command: ListRoutes) -> Steps:
        names: dict[str, None] = {}
        own = every.topics(self._metadata) if command.cluster in ("", self._cluster) else ()
        for at, name in enumerate(chain((topic.name for topic in own), self._routes.topics(command.cluster)), 1):
            names[name] = None
            if at % STEP_ITEMS == 0:
                yield
        connection.answer(RouteNames(command.ticket, list(names)))

    def _drop(self, connection: ClientConnection, command: DropRoute) -> None:
        self._routes.drop_topic(command.topic, command.cluster)
        connection.answer(Done(command.ticket))

    def _register(self, connection: ClientConnection, command: RegisterBroker) -> None:
        registration = command.registration
        failure: Failure | None = None
        if registration.broker == self._broker:
            text = f"register broker failed: {self._broker} is the broker of this node itself; give yours another name"
            failure = Failure(ErrorCode.NOT_ALLOWED, text)
        elif not self._routes.register(registration, self._clock.monotonic_ns()):
            failure = Failure(ErrorCode.QUOTA, "register broker failed: too many brokers are registered here")
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return
        master, ha_address = self._routes.master(registration.broker) if registration.broker_id != MASTER_ID else ("", "")
        order = self._settings.all(ORDER_NAMESPACE)
        connection.answer(BrokerRegistered(command.ticket, master, ha_address, order))

    def _unregister(self, connection: ClientConnection, command: UnregisterBroker) -> None:
        self._routes.unregister(command.broker, command.broker_id, command.address)
        connection.answer(Done(command.ticket))

    def _renew(self, connection: ClientConnection, command: RenewBroker) -> None:
        known = self._routes.renew(command.broker, command.address, self._clock.monotonic_ns())
        if command.version is None:
            connection.answer(BrokerRenewed(command.ticket, known is None, known))
        else:
            connection.answer(BrokerRenewed(command.ticket, known != command.version, known))

    def _set_writable(self, connection: ClientConnection, command: SetWritable) -> None:
        if command.broker == self._broker:
            # Only routes change, as for any broker: producers go elsewhere, and messages that are still sent here are stored.
            self._permission = self._policy.permission
            self._own_writable = command.writable
            connection.answer(WritableChanged(command.ticket, self._metadata.topic_count()))
            return
        connection.answer(WritableChanged(command.ticket, self._routes.set_writable(command.broker, command.writable)))

    def _put(self, connection: ClientConnection, command: PutSetting) -> None:
        def put(result: Failure | None) -> None:
            connection.answer(Done(command.ticket) if result is None else Refused(command.ticket, result))

        self._settings.put(command.namespace, command.key, command.value, put)

    def _settings_of(self, connection: ClientConnection, command: QuerySettings) -> None:
        if not command.key:
            connection.answer(SettingsFound(command.ticket, self._settings.all(command.namespace)))
            return
        value = self._settings.get(command.namespace, command.key)
        connection.answer(SettingsFound(command.ticket, {command.key: value} if value is not None else {}))
