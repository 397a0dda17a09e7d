"""A replica of a simulated cluster: a real life of a replica, and the composition of a node while it leads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from domain.address import endpoint_text
from domain.controller.change import AlterSet, GroupChange
from domain.errors import GatewayError, StoreError
from domain.limits import MILLISECOND_NS
from domain.replication.ports import LeaderStore
from domain.set_aside import NOTHING
from domain.store.message_store import MessageStore
from domain.store.store_event import StoreEvent, StoreEventKind
from domain.topic.topic import Durability
from gateway.cluster.forwarding.store_report import StoreReport
from gateway.cluster.replica import identity
from gateway.cluster.replica.controllers import Changed, GroupControllers
from gateway.cluster.replica.damaged_start import DamagedStart
from gateway.cluster.replica.health import ReplicaHealth
from gateway.cluster.replica.identity import ReplicaIdentity
from gateway.cluster.replica.log_repairs import RepairSources
from gateway.cluster.replica.peer_network import PeerNetwork
from gateway.cluster.replica.registering_state import ReplicaPlace
from gateway.cluster.replica.replica import ReaderEvents, ReplicaTerm, TermEvents
from gateway.cluster.replica.settings import SKEW_MS
from gateway.cluster.strangers import Strangers
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import ConnectionContext
from gateway.node.composition import Parts, StoreSide, compose
from gateway.node.roles.follower_composition import compose_follower
from gateway.observe.counters import CounterRegistry
from gateway.usecase.allowed_commands import AllowedCommands
from store.replication.pace import UNKNOWN
from store.replication.repairing import RepairCounts
from store.replication.replica_log.damaged import damaged_replica
from store.replication.replica_log.follower_log import Follower, open_follower
from store.settings import StoreSettings
from tests.place import place_of
from tests.simulation.cluster.client_links import ClientLinks
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.past import RETENTION_MS
from tests.simulation.cluster.remoting import REPLICATION, replica_port
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.links import Party
from tests.simulation.kit.wires import Listener
from tests.simulation.ledger import Traced
from tests.simulation.world import PORTS

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster
    from tests.simulation.cluster.store_group import SimGroup

log = logging.getLogger("headgate.replica")
REMOTING = 10911
READERS = 10913
SETTLE_NS = 5_000 * MILLISECOND_NS
"""How long a store that was elected has to take its first writes; see gateway.node.roles.store."""
AGAIN_MS = 50
"""Time in which a process whose life as a replica has ended starts again."""
CONFIG = StoreSettings(
    segment_bytes=24_000, checkpoint_bytes=60_000, checkpoint_ms=4_000, retention_ms=RETENTION_MS, retention_check_ms=1_000,
    cache_bytes=1 << 16,
    scrub_days=0, flush_interval_ms=50, flush_timeout_ms=1_500, durability=Durability.REPLICATED_FLUSHED, free_ratio_min=0.0,
    pressure_ratio=0.0, clock_skew_ms=SKEW_MS, transaction_check_ms=3_000, transaction_checks_max=1_000,
)  # fmt: skip


def log_part(disk: MemoryDisk, begin: int, end: int) -> bytes:
    """The bytes of a log from `begin` to `end`, or fewer, as its process sees them."""
    parts: list[bytes] = []
    for name in filter(str.isdigit, disk.names("log")):
        base, data = int(name), disk.files[f"log/{name}"].data
        if base < end and base + len(data) > begin:
            parts.append(bytes(data[max(begin - base, 0) : end - base]))
    return b"".join(parts)


class StoreNode(Machine):
    """One replica.

    group      its store group
    number     in that group, from 1 on
    life       its life as a replica; None: it is down
    follower   its log, as long as it has not been promoted
    store      its store once it may serve; None: it does not
    led        the same from its promotion on
    parts      the composed node, once clients reach it
    context    of the connections of its clients, once they reach it
    links      clients that are connected to it themselves
    damaged    True: its disk has lost or changed what was on its platter
    last_member  the member that it was at the last end of its process
    flips      position of its log at which a bit was flipped -> (the byte before, the byte after)
    learner    True: from its next start on it is a learner
    remote     name of the place of a remote replica, which is a learner; "": it is none
    altering   called with each change of the SyncStateSet that it asks for
    slow_until_ns  until when its disk is slow
    """

    damaged = False
    learner = False
    remote = ""
    slow_until_ns = 0
    last_member = (0, "")

    def __init__(self, cluster: Cluster, group: SimGroup, name: str, number: int, host: str) -> None:
        super().__init__(cluster, name, host)
        self.group = group
        self.number = number
        self.life: ReplicaTerm | None = None
        self.follower: Follower | None = None
        self.store: LeaderStore | None = None
        self.led: LeaderStore | None = None
        self.parts: Parts | None = None
        self.context: ConnectionContext | None = None
        self.links = ClientLinks(self)
        self.altering: Callable[[AlterSet], None] = lambda change: None
        self.flips: dict[int, tuple[int, int]] = {}

    def began(self) -> None:
        """Machine.began."""
        settings = replace(
            CONFIG, boot=f"boot {self.boot}", fresh_incarnation=self.chance.randrange(1, 1 << 60), broker=self.group.name
        )
        try:
            known = ReplicaIdentity(self.disk, self.entropy)
        except OSError as error:
            self._fail(error)
            return
        controllers = GroupControllers(
            "DefaultCluster", self.group.name, self.cluster.controller_endpoints, self._network()
        )  # fmt: skip
        self._open(settings, known, controllers)

    def _network(self) -> PeerNetwork:
        return PeerNetwork(self.cluster.net.dialer(self), None, self.clock, self.entropy)

    def _fail(self, error: OSError) -> None:
        """The process ends, because its disk fails; somebody starts it again."""
        self.end(f"does not start: {error}")

        def again() -> None:
            if not self.running and self.powered:
                self.start()

        self.cluster.after(1_000, again)

    def _open(self, settings: StoreSettings, known: ReplicaIdentity, controllers: GroupControllers) -> None:
        """Open the log; when what it has promised is damaged, after other replicas have helped, as in
        gateway.node.roles.replica."""
        try:
            follower = open_follower(self.disk, self.clock, settings, self._heard)
        except OSError as error:
            self._fail(error)
            return
        except StoreError as error:
            fault = error
            damaged = damaged_replica(self.disk, self.clock, fault)
            if not self.damaged or damaged is None or not known.id:
                self.group.checkers.does_not_open(self, fault)
                return
            self.note(f"its log is damaged: {fault}")
            sources = RepairSources(self._network())

            def done(opens: bool) -> None:
                sources.close()
                if opens:
                    self._open(settings, known, controllers)
                else:
                    self.group.checkers.does_not_open(self, fault)

            DamagedStart(damaged, known, controllers, sources, self.clock, self.entropy, RepairCounts(), done).start()
            return
        self._join(follower, known, controllers)

    def _join(self, follower: Follower, known: ReplicaIdentity, controllers: GroupControllers) -> None:
        """The log is open: take part."""
        cluster = self.cluster
        self.follower = follower
        promote = follower.promote
        follower.promote = lambda epoch: self._promoted(promote(epoch))  # type: ignore[method-assign]
        place = ReplicaPlace(
            "DefaultCluster",
            self.group.name,
            known,
            endpoint_text(self.host, REPLICATION),
            self.learner,
            Strangers(log, self.clock),
            lambda: NOTHING,
            endpoint_text(self.host, READERS),
            endpoint_text(self.host, REMOTING),
            remote=self.remote,
        )
        readers = ReaderEvents(self._serve_readers, lambda epoch: None, lambda: cluster.net.close(self, READERS))
        life = self.life = ReplicaTerm(
            follower, place, controllers, self._network(), TermEvents(self._elected, self._over, lambda text: None, readers),
            ReplicaHealth(self.clock, SKEW_MS), RepairCounts(), lambda: UNKNOWN,
        )  # fmt: skip
        ask = controllers.change

        def changing(change: GroupChange, done: Changed) -> None:
            ask(change, done)
            if isinstance(change, AlterSet):
                self.altering(change)

        controllers.change = changing  # type: ignore[method-assign]
        handler = Traced(cluster.clock, cluster.ledger, AllowedCommands("a replica", life))
        cluster.net.listen(replica_port(self, handler, self.entropy))
        self._serve_readers()
        life.start()

    def _serve_readers(self) -> None:
        """The log has begun, or begun again: it is read at the port for that, as in gateway.node.roles.replica."""
        assert self.life is not None
        place = place_of(self.group.config, PORTS, self.host, self.clock, self.entropy)
        side, _, _ = compose_follower(place, self.life.reads, self.life)
        handler = Traced(self.cluster.clock, self.cluster.ledger, side.gate)
        context = ConnectionContext(handler, self.clock, CounterRegistry(), ConnectionLimits(10_000))
        self.cluster.net.listen(Listener(self, READERS, context, side.adapters.streams["remoting"]))

    def gone(self) -> None:
        """Machine.gone."""
        if self.life is not None:
            self.last_member = self.member
        self.life = self.follower = self.store = self.led = self.parts = self.context = None
        self.links.vanish()

    @property
    def member(self) -> tuple[int, str]:
        """(replica, incarnation) as the controllers know it; (0, ""): it is not known."""
        if self.life is None or self.follower is None:
            return 0, ""
        found = self.led.replica.incarnation if self.led is not None else self.follower.incarnation
        return self.life.own, str(found)

    @property
    def is_stuck(self) -> bool:
        """True when its log takes nothing until it is started again."""
        if self.led is not None:
            return self.led.store.broken is not None
        return self.follower is not None and self.follower.broken is not None

    def wipe(self) -> None:
        """Lose everything but the name of the replica."""
        name = self.disk.read_all(identity.NAME)
        self.disk = MemoryDisk(self.clock, self.sync_ms)
        self.flips.clear()
        if name is not None:
            self.disk.replace(identity.NAME, name)

    def replace_disk(self) -> None:
        """An operator puts an empty disk in."""
        self.note("gets an empty disk")
        self.disk = MemoryDisk(self.clock, self.sync_ms)
        self.damaged = False
        self.flips.clear()

    def flip(self) -> bool:
        """Flip a bit of what is on the platter. False when nothing is."""
        sizes = [(name, content.synced) for name, content in self.disk.files.items() if name[:4] == "log/"]
        durable = [(name, size) for name, size in sizes if size and name[4:].isdigit()]
        if not durable:
            return False
        name, size = self.chance.choice(durable)
        at = self.chance.randrange(size)
        data = self.disk.files[name].data
        before = data[at]
        self.disk.flip(name, at, self.chance.randrange(8))
        self.damaged = True
        self.flips[int(name[4:]) + at] = before, data[at]
        self.note(f"a bit of its log at {int(name[4:]) + at} is flipped")
        return True

    @property
    def first(self) -> int:
        """Where its log begins, as its process sees it."""
        return min((int(name) for name in self.disk.names("log") if name.isdigit()), default=0)

    @property
    def log_end(self) -> int:
        """Where its log ends, as its process sees it."""
        last = max((int(name) for name in self.disk.names("log") if name.isdigit()), default=0)
        file = self.disk.files.get(f"log/{last:020}")
        return last + (len(file.data) if file is not None else 0)

    def log(self, begin: int, end: int) -> bytes:
        """The bytes of its log from `begin` to `end`, or fewer, as its process sees them, without flipped bits.

        They begin at `first` when that is greater: retention has deleted what was before.
        """
        begin = max(begin, self.first)
        found = bytearray(log_part(self.disk, begin, end))
        for at, (before, after) in self.flips.items():
            if begin <= at < begin + len(found) and found[at - begin] == after:
                confirmed = self.group.checkers.confirmed
                found[at - begin] = confirmed[at] if at < len(confirmed) else before
        return bytes(found)

    def _heard(self, event: StoreEvent) -> None:
        """An event of the store: no callback may raise."""
        if event.kind is StoreEventKind.FAULT and event.error is not None:
            raise event.error

    def _promoted(self, store: LeaderStore) -> LeaderStore:
        self.led = store
        self.group.checkers.promoted(self, store)
        return store

    def _elected(self, store: LeaderStore) -> None:
        """The store of a leader may serve: it is composed as in gateway.node.roles.store."""
        self.store = store
        try:
            place = place_of(self.group.config, PORTS, self.host, self.clock, self.entropy)
            parts = compose(place, StoreSide(store=self.ports_of(store), epoch=store.replica.epoch))
        except GatewayError as error:
            self._over(str(error))
            return
        self._prepare(parts, self.clock.monotonic_ns() + SETTLE_NS)

    def ports_of(self, store: LeaderStore) -> MessageStore:
        """What the node is composed over."""
        return store.store

    def _prepare(self, parts: Parts, end_ns: int) -> None:
        now = self.clock.monotonic_ns()
        if parts.handler.ready:
            self._serve(parts)
        elif now > end_ns:
            self._over("the store takes no writes")
        else:
            self.clock.call_at(now + 2 * MILLISECOND_NS, lambda: self._prepare(parts, end_ns))

    def _serve(self, parts: Parts) -> None:
        assert self.store is not None
        self.parts = parts
        cluster = self.cluster
        context = self.context = ConnectionContext(
            Traced(cluster.clock, cluster.ledger, parts.gate), self.clock, CounterRegistry(), ConnectionLimits(10_000),
            unfinished_bytes=parts.unfinished_bytes,
        )  # fmt: skip
        cluster.net.listen(Listener(self, REMOTING, context, parts.adapters.streams["remoting"]))
        assert self.life is not None
        StoreReport(self.clock, parts.forwarded, list, self.life).start()
        self.note(f"serves in epoch {self.store.replica.epoch}")
        cluster.served(self, self.store)

    def serve(self, protocol: str, party: Party) -> None:
        """A client connects to the leader itself, or to one that was."""
        assert self.parts is not None
        assert self.context is not None
        self.links.serve(self.parts, self.context, protocol, party)

    def _over(self, reason: str) -> None:
        """This life ends; the process starts again."""
        clock = self.clock
        if not clock.alive:
            return
        self.note(f"this life ends: {reason}")

        def again() -> None:
            self.end("leaves")
            self.start()

        clock.call_at(clock.monotonic_ns() + AGAIN_MS * MILLISECOND_NS, again)
