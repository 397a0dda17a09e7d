"""Replicated store as a member of its group: a port for followers, and the wait for its election."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, final

from domain.address import endpoint_text
from domain.controller.health import UNMEASURED
from domain.errors import StoreError
from domain.replication.message import (
    Follow,
    FollowRefusal,
    FollowRefused,
    LogHeld,
    LogPartRefused,
    PartRefusal,
    ReadLog,
)
from domain.replication.ports import LeaderStore
from domain.walk import Walks
from gateway.access.authority import Access
from gateway.cluster.registration.broker_registration import SlaveRegistration
from gateway.cluster.replica.controllers import GroupControllers
from gateway.cluster.replica.health import ReplicaHealth
from gateway.cluster.replica.identity import KnownControllers, ReplicaIdentity
from gateway.cluster.replica.peer_network import PeerNetwork
from gateway.cluster.replica.registering_state import ReplicaPlace
from gateway.cluster.replica.replica import ReaderEvents, ReplicaTerm, TermEvents
from gateway.cluster.replica.settings import ReplicationSettings
from gateway.cluster.strangers import Strangers
from gateway.connection.client_connection import ClientConnection
from gateway.node.client_side import ClientPlace, ClientSide, counters_of
from gateway.node.composition import StoreSide
from gateway.node.roles.follower_composition import MIB, compose_follower
from gateway.node.roles.installed_roles import RoleContext
from gateway.node.roles.local_store import LocalStore
from gateway.node.roles.replica_log import ReplicaLogOpening
from gateway.node.roles.role import MakeStoreSide, Role, ServeReaders
from gateway.node.roles.role_names import READERS
from gateway.node.roles.server_access import ServerAccess
from gateway.node.roles.single_purpose import SinglePurposePlace, SinglePurposeRole, SinglePurposeSide
from gateway.observe.metrics import Snapshot, row_of
from gateway.runtime.aside_figure import AsideFigure
from gateway.runtime.compiled import in_use
from gateway.runtime.entropy import SystemEntropy
from gateway.runtime.machine import processor_ns
from gateway.usecase.follower.presence import Presence
from gateway.usecase.follower.reading import FollowerReading
from gateway.usecase.handler import Verbs
from protocols.http2.adapter import choose
from store.replication.pace import ProcessorTime
from store.replication.repairing import RepairCounts

log: Final = logging.getLogger("headgate.replica")
REFUSED: Final = "this port is for the followers of a store group: ask the port remoting"
OUTPUT_BYTES_MAX: Final = 64 * 1024 * 1024
"""What may wait for followers to read it: the window of each is bounded."""
HAND_OVER_S: Final = 3.0
"""Seconds that a stop waits for the election of another leader."""


@final
class ReplicaRole(SinglePurposeRole):
    """Role of the part that replicates.

    replica   one life of the replica, once its log is open
    repairs   counts the repairs of its log
    strangers counts what it refuses, since it is of another store group or history
    """

    def __init__(self, context: RoleContext) -> None:
        """Raises ConfigError and StoreError."""
        super().__init__(context)
        self.replica: ReplicaTerm | None = None
        self.repairs = RepairCounts()
        self.strangers = Strangers(log, context.clock)
        self._opening: ReplicaLogOpening | None = None
        self._serve_at_port: ServeReaders | None = None
        self._reading: FollowerReading | None = None
        self._presence: Presence | None = None
        self._served: ClientSide | None = None
        self._slave: SlaveRegistration | None = None
        self._over = context.over
        self._health = context.health
        self._settings = context.config.part(ReplicationSettings, "replication")
        access = ServerAccess(self._settings.servers)
        self._controllers = access.servers.endpoints
        self._network = PeerNetwork(access.dialer(), access.kept_sign(context.clock), context.clock, SystemEntropy())
        self._address = ""
        self._run = self._network.entropy.token(8).hex()
        self.verbs: Verbs = dict.fromkeys((Follow, LogHeld, ReadLog), self._of_term)

    def made(self, place: SinglePurposePlace) -> SinglePurposeSide:
        """The port, and users in a store of its own. Raises ConfigError and StoreError."""
        self._address = self._settings.address or endpoint_text(place.host, place.ports["replication"])
        side = place.side(place.open_store(), REFUSED, self, is_replica=True)
        return replace(side, limits=replace(side.limits, output_bytes_max=OUTPUT_BYTES_MAX))

    @property
    def replica_id(self) -> int:
        """Id of this replica; 0: it has none yet."""
        return 0 if self.replica is None else self.replica.own

    def other_replicas(self) -> list[int] | None:
        """Role.other_replicas."""
        leading = None if self.replica is None else self.replica.leading
        return None if leading is None else [each.id for each in leading.group.replicas if each.id != self.replica_id]

    async def hand_over(self) -> None:
        """Have another replica lead before this one stops, when one is in sync; for HAND_OVER_S at most."""
        if self.replica is None:
            return
        done = asyncio.get_running_loop().create_future()
        self.replica.hand_over(lambda: None if done.done() else done.set_result(None))
        await asyncio.wait([done], timeout=HAND_OVER_S)

    def _of_term(self, connection: ClientConnection, command: Follow | LogHeld | ReadLog) -> None:
        """Pass a command of another replica to the present life of this one."""
        if self.replica is not None:
            self.replica.verbs[type(command)](connection, command)
        elif isinstance(command, Follow):
            connection.answer(FollowRefused(command.ticket, FollowRefusal.NOT_LEADING, 0))
        elif isinstance(command, ReadLog):
            connection.answer(LogPartRefused(command.ticket, PartRefusal.NOT_OPEN))

    def store_maker(self) -> MakeStoreSide:
        """Role.store_maker: the store of the group, once this replica is elected."""
        return self.lead

    async def lead(self, local: LocalStore, clients: ClientPlace) -> StoreSide:
        """Follow until this replica is elected; its store, once it may serve. Raises ConfigError and StoreError.

        If the term of the replica ends before that, `over` is called, and this call keeps waiting until it is cancelled.
        """
        try:
            return await self._led(local, clients)
        finally:
            self._stand_down()
            self._reading = self._presence = None

    async def _led(self, local: LocalStore, clients: ClientPlace) -> StoreSide:
        config, ports, host = clients.config, clients.ports, clients.host
        elected: asyncio.Future[LeaderStore] = asyncio.get_running_loop().create_future()
        network, skew_ms = self._network, self._settings.clock_skew_max_ms
        opening = self._opening = ReplicaLogOpening(config, local, self._protocols.store_host(host, ports), network, skew_ms)
        try:
            identity = ReplicaIdentity(local.disk, network.entropy, self._run)
        except OSError as error:
            raise StoreError(f"the data directory cannot be used: {error}") from error
        controllers = GroupControllers(
            config.cluster, config.broker, self._controllers, network, KnownControllers(local.disk), identity.run
        )
        follower = await opening.log(identity, controllers, self.repairs)
        serves = endpoint_text(host, ports[READERS]) if self._serves(ports) else ""
        gates = endpoint_text(host, ports["remoting"])
        place = ReplicaPlace(
            config.cluster,
            config.broker,
            identity,
            self._address,
            self._settings.learner or bool(self._settings.remote),
            self.strangers,
            AsideFigure(Path(config.data), Walks(network.clock)).look,
            serves,
            gates,
            self._settings.remote,
        )
        slave = self._slave = SlaveRegistration(config, serves, self._address, network.clock, network.entropy)

        def over(reason: str) -> None:
            led = None if self.replica is None else self.replica.promoted
            if led is not None and not elected.done():
                elected.set_result(led)  # it is opened, closed and followed by another life, as if it had served
            elif replica.needs_a_person and not elected.done():
                elected.set_exception(StoreError(reason))
            self._over()

        readers = None
        if self._serves(ports):
            readers = ReaderEvents(
                renewed=lambda: self._serve(clients, replica),
                followed=lambda epoch: slave.follows(replica.own, epoch),
                promoting=self._stand_down,
            )
        events = TermEvents(lambda store: None if elected.done() else elected.set_result(store), over, self._stands_by, readers)
        meter = ReplicaHealth(network.clock, skew_ms)
        replica = self.replica = ReplicaTerm(
            follower, place, controllers, network, events, meter, self.repairs, lambda: ProcessorTime(*processor_ns())
        )
        choose()  # the engine of HTTP/2 is imported now: clients would wait for that at an election
        if readers is not None:
            readers.renewed()
        replica.start()
        try:
            led = await elected
        except BaseException:
            if elected.done() and not elected.cancelled() and elected.exception() is None:
                elected.result().store.close()  # it was handed over in the turn in which this wait was ended
            replica.close()
            raise
        return StoreSide(
            store=led.store, recall_broker=config.broker, epoch=led.replica.epoch, over=lambda: replica.why,
            replica=replica, offload_bytes=self._settings.offload_mib * MIB,
            heard={} if self._presence is None else self._presence.heard,
        )  # fmt: skip

    def _stand_down(self) -> None:
        """Serve readers no more, and be no slave at name servers."""
        self._offer(None)
        if self._slave is not None:
            self._slave.end()

    def _serves(self, ports: Mapping[str, int]) -> bool:
        """True when this replica serves readers while it follows."""
        return self._settings.serve_readers and READERS in ports

    def _serve(self, clients: ClientPlace, replica: ReplicaTerm) -> None:
        """Serve readers from what the replica has now."""
        counters = counters_of(self._protocols, self._clock)
        place = replace(clients, entropy=self._network.entropy, counters=counters)
        served, self._reading, self._presence = compose_follower(place, replica.reads, replica)
        self._offer(served)

    def serve_readers(self, serve: ServeReaders) -> None:
        """Role.serve_readers."""
        self._serve_at_port = serve

    def _offer(self, side: ClientSide | None) -> None:
        self._served = side
        if self._serve_at_port is not None:
            self._serve_at_port(side)

    def accesses(self) -> list[Access]:
        """Users while the replica follows: those of the group's log, as far as it is applied, and those of this replica alone;
        empty: access is not controlled."""
        return [each.access for each in (self._served, self.side) if each is not None and each.access is not None]

    def standby_snapshot(self, parts: Sequence[Role]) -> Snapshot:
        """The figures of the metrics page while the replica follows: its log, what readers do, and what `parts` add."""
        found = Snapshot(
            protocols=[] if self._served is None else [row_of(one) for one in self._served.counter_registry.all()],
            store={} if self.replica is None else self.replica.reads.figures(),
            compiled=in_use(),
        )
        for each in parts:
            found = each.fill(found)
        return found

    def _stands_by(self, text: str) -> None:
        self._health.standby = text

    def counters(self) -> dict[str, float]:
        """How the replica is."""
        replica = self.replica
        found: dict[str, float] = {
            "replica_repaired_parts_total": self.repairs.parts,
            "replica_repaired_bytes_total": self.repairs.size,
            "replica_repairs_failed_total": self.repairs.failures,
            "replica_repair_parts_given_total": self.repairs.given,
            "replica_strangers_total": self.strangers.count,
            **({} if replica is None else {**_measured(replica.meter), **replica.figures()}),
        }
        leading = None if replica is None else replica.leading
        if leading is None:
            reading = self._reading
            if reading is None:
                return {"replica_leads": 0, **found}
            read = {"replica_read_total": reading.served, "replica_elsewhere_total": reading.elsewhere}
            return {"replica_leads": 0, **read, **self._named(), **found}
        return {
            **found,
            "replica_leads": 1,
            "replica_slow": len(leading.review.slow),
            "replica_followers": sum(each.connection is not None for each in leading.followers.values()),
            "replica_members": len(leading.group.members),
            "replica_lacking": len(leading.group.lacking),
            "replica_min_in_sync": leading.group.min_in_sync,
            "replica_acks": leading.group.confirming,
            "replica_confirmed_bytes": leading.written,
        }

    def _named(self) -> dict[str, float]:
        """Name servers that have, and should have, this replica as a slave."""
        wanted, registered = (0, 0) if self._slave is None else self._slave.counts()
        return {"nameservers": wanted, "nameservers_registered": registered} if wanted else {}

    def lines(self) -> list[tuple[str, str]]:
        """Who may connect, and the controllers."""
        controllers = ", ".join(endpoint_text(*each) for each in self._controllers)
        return [self.side.access_line(), ("group", f"{self.config.broker}, as {self._address}; controllers {controllers}")]

    def _end(self) -> None:
        if self._opening is not None:
            self._opening.close()
        if self.replica is not None:
            self.replica.close()

    async def close(self) -> None:
        """End the life of the replica, and close the store of users."""
        self._end()
        if self._slave is not None:
            await self._slave.close()
        await super().close()

    def abandon(self) -> None:
        """End the life of the replica, and unlock the directory."""
        self._end()
        super().abandon()


def _measured(meter: ReplicaHealth) -> dict[str, float]:
    """The figures of the last heartbeat. What was not measured is left out."""
    figures = meter.newest
    times = (("sync", figures.sync_us), ("ack", figures.ack_us), ("path", figures.path_us), ("turn", figures.turn_us))
    found: dict[str, float] = {f"replica_{name}_seconds": us / 1e6 for name, us in times if us != UNMEASURED}
    fence = meter.fence
    return {
        **found,
        "replica_errors_total": meter.errors,
        "replica_fence_waited_total": fence.waited,
        "replica_fence_refused_total": fence.refused,
    }


def make_role(context: RoleContext) -> ReplicaRole:
    """The entry point `replica`. Raises ConfigError and StoreError."""
    return ReplicaRole(context)
