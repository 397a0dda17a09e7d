"""The role store: the log in the data directory, and the use cases over it, in this process."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Final, final

from domain.errors import Failure, StoreError
from domain.limits import SECOND_NS
from domain.store.backup import Backups
from gateway.cluster.forwarding.store_report import StoreReport
from gateway.cluster.forwarding.traffic import Traffic
from gateway.cluster.registration.broker_registration import registration_of
from gateway.cluster.registration.nameserver_connections import NodeRegistration
from gateway.node.client_side import ClientPlace, ClientSide, counters_of
from gateway.node.composition import Parts, StorePlace, StoreSide, compose
from gateway.node.roles.installed_roles import RoleContext
from gateway.node.roles.local_store import LocalStore, backups_of
from gateway.node.roles.role import EndClients, MakeStoreSide, OpenPort, Role
from gateway.node.roles.role_names import REPLICA
from gateway.observe.counters import CounterRegistry
from gateway.observe.lag import Lags
from gateway.observe.metrics import Snapshot
from gateway.observe.sys_values import sys_values, traffic_of
from gateway.runtime.entropy import SystemEntropy
from gateway.runtime.machine import hot_bytes

SETTLE_NS: Final = 10 * SECOND_NS


@final
class StoreRole(Role):
    """Role of a process that has the store; its gateway, if it is one, calls the use cases directly."""

    def __init__(
        self, context: RoleContext, make: MakeStoreSide | None = None, counters: CounterRegistry | None = None
    ) -> None:
        """Lock the data directory. Raises StoreError when another process uses it.

        `make` makes the store that the use cases work over; None: it is the one in the data directory.
        `counters`: of all protocols; None: new ones.
        """
        self.parts: Parts
        self._config = context.config
        self._clock = context.clock
        self._protocols = context.protocols
        self._counter_registry = counters or counters_of(context.protocols, context.clock)
        self._make = make
        self._local = LocalStore(context.config.data, context.health, context.config.durability)
        self.folder = self._local.disk.path
        self._lags: Lags
        self._registration: NodeRegistration | None = None
        self._health = context.health
        self._report: StoreReport
        self._made: StoreSide | None = None
        self._ready_ns = 0

    @property
    def client_side(self) -> ClientSide:
        """The composed node."""
        return self.parts

    @property
    def backups(self) -> Backups | None:
        """Backups of the store; None when its engine has none."""
        return backups_of(self.parts.store)

    async def open(self, ports: Mapping[str, int], host: str) -> None:
        """Open the store. Raises ConfigError for wrong settings, StoreError when the store fails."""
        local, clock = self._local, self._clock
        place = ClientPlace(
            config=self._config, ports=ports, host=host, broker=self._config.broker, clock=clock, entropy=SystemEntropy(),
            protocols=self._protocols, counters=self._counter_registry,
        )  # fmt: skip
        side = self._made = None if self._make is None else await self._make(local, place)
        own = StorePlace(local.disk, hot_bytes(), local.report)
        self.parts = local.opened(lambda: compose(place, side or own))
        await self._prepared(side)
        self._lags = Lags(self.parts.store.outlook, self._clock)
        replica = None if side is None else side.replica
        self._report = StoreReport(clock, self.parts.forwarded, self._health.reasons, replica)
        self._registration = registration_of(
            self._config, ports, host, self.parts, self._clock, SystemEntropy(), 0 if side is None else side.epoch
        )

    async def _prepared(self, side: StoreSide | None) -> None:
        """Wait until the topics that exist on every node are stored, so that the first client finds them.

        Raises StoreError when they are not stored within `SETTLE_NS`. A leader waits for the other replicas for as long as it
        leads: they, and not its disk, may be what is slow.
        """
        end = self._clock.monotonic_ns() + SETTLE_NS
        while not self.parts.handler.ready:
            if side is not None and side.epoch:
                if side.over():
                    return
            elif self._clock.monotonic_ns() > end:
                raise StoreError(f"the store in {self.folder} takes no writes: see the log above for the disk's error")
            await asyncio.sleep(0.002)

    def begin(self, now_ns: int, end_clients: EndClients, open_port: OpenPort) -> None:
        """From now on publish what `$SYS` shows, read the lag of groups, report to gateways, be registered at name servers."""
        self._ready_ns = now_ns
        self.parts.sessions.sys_topics.begin(self._sys_values)
        self._lags.start()
        self._report.start()
        if self._registration is not None:
            self._registration.start()

    def unfinished_bytes(self) -> int:
        """See `Parts.unfinished_bytes`."""
        return self.parts.unfinished_bytes()

    def fill(self, snapshot: Snapshot) -> Snapshot:
        """Add what the store and the use cases know."""
        parts = self.parts
        counters = parts.handler.counters
        stored, delivered = counters.sums()
        return dataclasses.replace(
            snapshot,
            store=parts.store.figures(),
            counters={**snapshot.counters, **self._counters()},
            lost=self._lost(),
            topics=counters.topics(),
            deliveries=counters.deliveries(),
            stored=stored,
            delivered=delivered,
            lags=self._lags.rows,
            other_lags=self._lags.others,
            lag_age_s=self._lags.age_s(),
            histograms={**parts.store.histograms(), **snapshot.histograms},
        )

    def _counters(self) -> dict[str, float]:
        parts, sessions, handler = self.parts, self.parts.sessions, self.parts.handler
        retained, retained_bytes = parts.latest_values.held()
        return {
            "messages_expired_total": handler.receiving.expired + handler.pulling.expired + handler.following.expired,
            "streams_waiting": handler.following.waiting(),
            "streams_leases": handler.lease_watches.watched,
            "mqtt_sessions_connected": sessions.attached,
            "mqtt_sessions_connected_max": sessions.attached_max,
            "mqtt_subscriptions": sessions.subscription_count,
            "mqtt_retained": retained,
            "mqtt_retained_bytes": retained_bytes,
            "watch_dropped_total": parts.watches.dropped,
            **{name: value for each in parts.use_cases.values() for name, value in each.figures().items()},
            "share_oversize_total": sessions.oversize,
            **self._registrations(),
        }

    def _registrations(self) -> dict[str, float]:
        if self._registration is None:
            return {}
        wanted, registered = self._registration.counts()
        return {"nameservers": wanted, "nameservers_registered": registered}

    def _lost(self) -> dict[str, int]:
        """Reason -> number of messages that were dropped instead of being delivered to an MQTT client."""
        lost = dict(self.parts.sessions.lost)
        for reason, count in self.parts.lost().items():
            lost[reason] = lost.get(reason, 0) + count
        return lost

    def _sys_values(self) -> dict[str, str]:
        sessions = self.parts.sessions
        retained, retained_bytes = self.parts.latest_values.held()
        lost = self._lost()
        counts = {
            "clients/connected": sessions.attached,
            "clients/maximum": sessions.attached_max,
            "subscriptions/count": sessions.subscription_count,
            "retained messages/count": retained,
            "store/messages/bytes": retained_bytes,
            "publish/messages/dropped": sum(lost.values()),
            **{f"publish/messages/dropped/{reason}": count for reason, count in lost.items()},
        }
        up_s = (self._clock.monotonic_ns() - self._ready_ns) // SECOND_NS
        own = Traffic(*traffic_of(self.parts.counter_registry.all()))
        return sys_values(own.plus(self.parts.forwarded.traffic), counts, up_s)

    def lines(self) -> list[tuple[str, str]]:
        """Durability, users and the folder."""
        level = self._config.durability
        survives = f"{level.value}: an acknowledged message survives {level.survives}"
        if self._config.table("replication").get("controllers") and not level.waits_for_replicas:
            survives += ", and may be lost with its node: it is acknowledged before the other replicas have it"
        return [("durability", survives), self.parts.access_line(), ("data", self._config.data)]

    def pause(self) -> None:
        """Stop reading lags, and notify the name servers that the node stops."""
        self._lags.stop()
        self._report.stop()
        if self._registration is not None:
            self._registration.leave()

    async def settled(self) -> None:
        """Wait until all earlier appends are answered."""
        await self._local.settled(self.parts.store)

    def refuse_waiting(self, failure: Failure) -> None:
        """Answer long polls."""
        for review in self.parts.handler.reviews:
            review(lambda connection, command: failure)

    async def close(self) -> None:
        """Close the connections to name servers, the store and the data directory."""
        if self._registration is not None:
            await self._registration.close()
        await self._local.close(self.parts.store)

    def abandon(self) -> None:
        """Unlock the data directory; close the store that was made for it."""
        if self._made is not None:
            self._made.store.close()
        self._local.disk.close()


def make_role(context: RoleContext) -> StoreRole:
    """The entry point `store`. A replica beside it makes its store. Raises StoreError."""
    replica = context.parts.get(REPLICA)
    return StoreRole(context, None if replica is None else replica.store_maker())
