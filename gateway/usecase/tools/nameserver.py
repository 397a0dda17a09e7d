"""The name server: routes of this node's topics, and of brokers that register with it.

Routes of this node's topics are made from its metadata when they are asked for, so a topic has a route as soon as it exists.
A node that is a name server alone has routes of registered brokers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.limits import SECOND_NS
from domain.nameserver.directory import BrokerRoutes, NameServerSettings
from domain.nameserver.route import (
    MASTER_ID,
    ORDER_KEY,
    ORDER_NAMESPACE,
    OWN_NAMESPACE,
    BrokerRegistered,
    BrokerRenewed,
    ClusterFound,
    DropRoute,
    ListRoutes,
    PageRegistered,
    PutSetting,
    QueryCluster,
    QueryRoute,
    QuerySettings,
    RegisterBroker,
    RegisterOutcome,
    RegisterPage,
    Registration,
    RenewBroker,
    RouteFound,
    RouteNames,
    SettingsFound,
    SetWritable,
    UnregisterBroker,
    WritableChanged,
)
from domain.ports import Clock
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs, answered
from gateway.usecase.tools.own_routes import OwnRoutes
from gateway.usecase.waiting.long_questions import STEP_ITEMS, LongQuestions, Steps

SWEEP_NS: Final = 5 * SECOND_NS
FULL: Final = Failure(
    ErrorCode.QUOTA, "register broker failed: too many brokers or topics are registered here (setting nameserver.routes_max)"
)
FAILURES: Final[Mapping[RegisterOutcome, Failure | None]] = {
    RegisterOutcome.TAKEN: None,
    RegisterOutcome.FULL: FULL,
    RegisterOutcome.MISFIT: Failure(
        ErrorCode.CLIENT_UNKNOWN, "register broker failed: one topic is a change, and the broker is not registered"
    ),
}


class NameServer:
    """The verbs of the name server: routes, the brokers of the cluster, and key/value settings."""

    def __init__(
        self,
        routes: BrokerRoutes,
        settings: NameServerSettings,
        clock: Clock,
        questions: LongQuestions,
        own: OwnRoutes | None = None,
    ) -> None:
        """`own`: the broker of this node; None: the node is a name server alone."""
        # As RocketMQ's name server: a broker whose connection ends is removed, unless it came back by another one.
        self._own = own
        self._routes = routes
        self._settings = settings
        self._clock = clock
        self._questions = questions
        self._holders: set[ClientConnection] = set()
        clock.call_at(clock.monotonic_ns() + SWEEP_NS, self._sweep)
        self.verbs: Verbs = {
            QueryRoute: self._route,
            QueryCluster: self._brokers,
            ListRoutes: self._names,
            DropRoute: self._drop,
            RegisterBroker: self._register,
            RegisterPage: self._register_page,
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
        own = self._own.queues(command.topic) if self._own is not None else None
        if self._own is not None and own is not None:
            queues = [own, *queues]
            brokers = [self._own.with_readers(connection.forwarded), *brokers]
        if not queues:
            text = f"no topic route info in name server for the topic: {command.topic}"
            connection.answer(Refused(command.ticket, Failure(ErrorCode.TOPIC_NOT_FOUND, text)))
            return
        order = self._settings.get(ORDER_NAMESPACE, command.topic)
        if order and self._settings.get(OWN_NAMESPACE, ORDER_KEY) == "false":
            order = ""
        connection.answer(RouteFound(command.ticket, queues, brokers, order or ""))

    def _brokers(self, connection: ClientConnection, command: QueryCluster) -> None:
        own = [self._own.with_readers(connection.forwarded)] if self._own is not None else []
        connection.answer(ClusterFound(command.ticket, [*own, *self._routes.brokers()]))

    def _names(self, connection: ClientConnection, command: ListRoutes) -> None:
        self._questions.ask(connection, self._all_names(connection, command))

    def _all_names(self, connection: ClientConnection, command: ListRoutes) -> Steps:
        names: dict[str, None] = {}
        own = self._own
        walk: Iterable[str] = own.names() if own is not None and command.cluster in ("", own.addresses.cluster) else ()
        for at, name in enumerate(chain(walk, self._routes.topics(command.cluster)), 1):
            names[name] = None
            if at % STEP_ITEMS == 0:
                yield
        connection.answer(RouteNames(command.ticket, list(names)))

    def _drop(self, connection: ClientConnection, command: DropRoute) -> None:
        self._routes.drop_topic(command.topic, command.cluster)
        connection.answer(Done(command.ticket))

    def _register(self, connection: ClientConnection, command: RegisterBroker) -> None:
        registration = command.registration
        failure = self._taken_name(registration)
        if failure is None:
            failure = FAILURES[self._routes.register(registration, self._clock.monotonic_ns(), connection)]
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return
        self._hold(connection)
        master, ha_address = self._routes.master(registration.broker) if registration.broker_id != MASTER_ID else ("", "")
        order = self._settings.all(ORDER_NAMESPACE)
        connection.answer(BrokerRegistered(command.ticket, master, ha_address, order))

    def _register_page(self, connection: ClientConnection, command: RegisterPage) -> None:
        registration = command.registration
        failure = self._taken_name(registration)
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return
        outcome = self._routes.register_page(registration, command.page, self._clock.monotonic_ns(), connection)
        if outcome is RegisterOutcome.FULL:
            connection.answer(Refused(command.ticket, FULL))
            return
        if outcome is RegisterOutcome.TAKEN:
            self._hold(connection)
        connection.answer(PageRegistered(command.ticket, outcome is RegisterOutcome.TAKEN))

    def _hold(self, connection: ClientConnection) -> None:
        """Remove the brokers of `connection` when it ends."""
        if connection in self._holders:
            return

        def ended() -> None:
            self._holders.discard(connection)
            self._routes.release(connection)

        self._holders.add(connection)
        connection.on_close.append(ended)

    def _taken_name(self, registration: Registration) -> Failure | None:
        """NOT_ALLOWED when the broker's name is that of this node's own."""
        if self._own is None or registration.broker != self._own.addresses.broker:
            return None
        text = f"register broker failed: {registration.broker} is the broker of this node itself; give yours another name"
        return Failure(ErrorCode.NOT_ALLOWED, text)

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
        if self._own is not None and command.broker == self._own.addresses.broker:
            changed = self._own.set_writable(command.writable)
        else:
            changed = self._routes.set_writable(command.broker, command.writable)
        connection.answer(WritableChanged(command.ticket, changed))

    def _put(self, connection: ClientConnection, command: PutSetting) -> None:
        self._settings.put(command.namespace, command.key, command.value, answered(connection, Done(command.ticket)))

    def _settings_of(self, connection: ClientConnection, command: QuerySettings) -> None:
        if not command.key:
            connection.answer(SettingsFound(command.ticket, self._settings.all(command.namespace)))
            return
        value = self._settings.get(command.namespace, command.key)
        connection.answer(SettingsFound(command.ticket, {command.key: value} if value is not None else {}))
