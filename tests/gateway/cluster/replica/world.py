"""A whole store group under a seed: replicas with real stores on virtual disks, killed, paused, parted and without power."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from typing import Any, cast

from domain.controller.change import AlterSet
from domain.errors import Failure, StoreError
from domain.limits import MILLISECOND_NS
from domain.message.message import Message, Placed
from domain.message.record import Record
from domain.replication.ports import LeaderStore
from domain.set_aside import NOTHING
from domain.store.store_event import StoreEvent, StoreEventKind
from domain.store.store_ports import ReadResult
from domain.store.store_request import ReadRequest
from domain.topic.topic import Durability, Topic
from gateway.cluster.replica.health import ReplicaHealth
from gateway.cluster.replica.identity import ReplicaIdentity
from gateway.cluster.replica.peer_network import PeerNetwork
from gateway.cluster.replica.registering_state import ReplicaPlace
from gateway.cluster.replica.replica import ReplicaTerm, TermEvents
from gateway.cluster.replica.settings import SKEW_MS
from gateway.cluster.strangers import Strangers
from gateway.usecase.allowed_commands import AllowedCommands
from store.replication.pace import UNKNOWN
from store.replication.repairing import RepairCounts
from store.replication.replica_log.follower_log import Follower, open_follower
from store.settings import StoreSettings
from tests.gateway.cluster.replica.service import GROUP, Service, SimControllers
from tests.simulation.cluster.remoting import REPLICATION, replica_port
from tests.simulation.kit.bugs import HistoryError
from tests.simulation.kit.clock import MachineClock, PausableClock, VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import SeededEntropy
from tests.simulation.kit.network import between
from tests.simulation.kit.wires import Network
from tests.store.replication.replica_log.pair import log_bytes

CONFIG = StoreSettings(
    segment_bytes=8_192, checkpoint_bytes=8_000, checkpoint_ms=2_000, retention_check_ms=1 << 40, cache_bytes=0, scrub_days=0,
    flush_interval_ms=50, flush_timeout_ms=1_500, durability=Durability.REPLICATED_FLUSHED,
)  # fmt: skip
log = logging.getLogger("headgate.replica")
QUEUES = 2
TOPIC = "orders"


def _report(event: StoreEvent) -> None:
    """What a callback of the test raised is the test's."""
    if event.kind is StoreEventKind.FAULT and event.error is not None:
        raise event.error


class SimReplica:
    """One node: its disk and its clock outlive its lives. It is a `tests.simulation.kit.wires.Host`."""

    powered = True

    def __init__(self, world: World, number: int) -> None:
        self.number = number
        self.host = f"10.0.0.{number}"
        self.running = False
        self.world = world
        self.time = MachineClock(world.clock)
        self.clock = PausableClock(self.time)
        self.disk = MemoryDisk(self.clock, 2.0)
        self.controllers: SimControllers
        self.life: ReplicaTerm
        self.follower: Follower
        self.store: LeaderStore | None = None
        self._boot = 0

    def start(self) -> None:
        """Begin a life."""
        world = self.world
        entropy = SeededEntropy(world.chance)
        config = replace(CONFIG, boot=f"boot {self._boot}", fresh_incarnation=world.chance.randrange(1, 1 << 60))
        follower = self.follower = open_follower(self.disk, self.clock, config, _report)
        promote = follower.promote
        follower.promote = lambda epoch: world.watched(promote(epoch))  # type: ignore[method-assign]
        place = ReplicaPlace(
            "cluster", GROUP, ReplicaIdentity(self.disk, cast(Any, entropy)), f"{self.host}:{REPLICATION}", False,
            Strangers(log, self.clock), lambda: NOTHING,
        )  # fmt: skip
        self.controllers = SimControllers(world, self.clock, self.number)
        self.life = ReplicaTerm(
            follower, place, cast(Any, self.controllers),
            PeerNetwork(world.net.dialer(self), None, self.clock, cast(Any, entropy)),
            TermEvents(self._elected, self._over, lambda text: None), ReplicaHealth(self.clock, SKEW_MS), RepairCounts(),
            lambda: UNKNOWN,
        )  # fmt: skip
        self.running = True
        world.net.listen(replica_port(self, AllowedCommands("a replica", self.life), cast(Any, entropy)))
        self.life.start()

    def _elected(self, store: LeaderStore) -> None:
        self.store = store
        self.world.elected(self)

    def _over(self, reason: str) -> None:
        """This life ends; another one begins in the same process."""
        clock = self.clock
        self.store_is_gone()

        def again() -> None:
            self.end()
            self.clock = PausableClock(self.time)
            self.disk = self.disk.killed(self.clock)
            self.start()

        clock.call_at(clock.monotonic_ns() + 50 * MILLISECOND_NS, again)

    def store_is_gone(self) -> None:
        """Clients reach its store no more."""
        self.store = None

    def end(self) -> None:
        """kill -9: nothing of this life runs any more."""
        self.running = False
        self.store = None
        self.clock.alive = False
        self.world.service.closed(self.controllers)
        self.world.net.ended(self, True)

    def revive(self, power: bool) -> None:
        """Begin a life on what the end of the last one has left."""
        self.clock = PausableClock(self.time)
        if power:
            self._boot += 1
            self.disk = self.disk.powered_off(self.clock, chance=self.world.chance)
        else:
            self.disk = self.disk.killed(self.clock)
        self.start()


class World:
    """The nodes, the service of the controllers, clients, and what they have seen.

    acknowledged   (queue, offset) -> body
    seen           the same of what a leader has shown
    confirmed      highest position that any leader has confirmed
    waited         (when it was sent, how long it waited for its acknowledgement) of messages, in milliseconds
    net            what is between the replicas
    parted         pairs of nodes that do not reach each other; 0 stands for the controllers
    """

    def __init__(self, seed: int, count: int = 3, far: bool = False) -> None:
        """`far`: one more kind of fault, slow ways between replicas."""
        self.far = far
        self.chance = random.Random(seed)
        self.clock = VirtualClock()
        self.parted: set[frozenset[int]] = set()
        self.faulty = False
        self.net = Network(self.clock, self.chance)
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.seen: dict[tuple[int, int], bytes] = {}
        self.elections = 0
        self.confirmed = 0
        self.waited: list[tuple[int, int]] = []
        self._sent = 0
        self.replicas: dict[int, SimReplica] = {}
        self.service = Service(self)
        for number in range(1, count + 1):
            self.replicas[number] = SimReplica(self, number)
            self.net.add(self.replicas[number])
            self.replicas[number].start()

    def delay_ns(self) -> int:
        """How long a word takes."""
        if self.faulty and self.chance.random() < 0.02:
            return self.chance.randrange(300) * MILLISECOND_NS
        return self.chance.randrange(100_000, 2_000_000)

    def loses(self) -> bool:
        """True when a word to or from the controllers is lost."""
        return self.faulty and self.chance.random() < 0.1

    def cut(self, number: int) -> None:
        """The connections of a node break."""
        self.net.reset(self.replicas[number].host, 1.0)

    def part(self, pair: frozenset[int]) -> None:
        """Nothing passes between two nodes."""
        self.parted.add(pair)
        hosts = [self.replicas[each].host for each in pair - {0}]
        self.net.blocked |= between(hosts, hosts)

    def part_far(self, one: SimReplica, other: SimReplica, late_ms: int) -> None:
        """Everything between two replicas takes so much longer."""
        self.net.far[one.host, other.host] = self.net.far[other.host, one.host] = late_ms

    def join(self) -> None:
        """Everything passes again, and in time."""
        self.parted.clear()
        self.net.heal()

    def watched(self, store: LeaderStore) -> LeaderStore:
        """A store whose confirmed position is noted."""
        confirm = store.replica.confirm

        def noted(written: int, synced: int) -> None:
            self.confirmed = max(self.confirmed, written)
            confirm(written, synced)

        store.replica.confirm = noted  # type: ignore[method-assign]
        return store

    def tempt(self, change: AlterSet) -> None:
        """The set grows: now its newcomers are parted from the leader, which goes on for a moment and dies with the others."""
        group = self.service.group()
        before = set(group.in_sync) if group is not None else set()
        newcomers = {each.id for each in change.members} - before
        by_id = {each.life.own: each for each in self.replicas.values() if each.running}
        old = [by_id[each] for each in before if each in by_id]
        if not newcomers or not old or self.chance.random() < 0.5:
            return
        for one in old:
            for number in newcomers & set(by_id):
                self.part(frozenset((one.number, by_id[number].number)))

        def kill() -> None:
            for one in old:
                if one.running and self.faulty:
                    one.end()

        self.clock.call_at(self.clock.monotonic_ns() + self.chance.randrange(1, 250) * MILLISECOND_NS, kill)

    # Clients

    def elected(self, replica: SimReplica) -> None:
        """A replica serves: it has all that was acknowledged, and shows what was shown before."""
        self.elections += 1
        store = replica.store
        assert store is not None
        acknowledged = dict(self.acknowledged)

        def topic_made(failure: Failure | None) -> None:
            if failure is None and replica.store is store:
                for queue in range(QUEUES):
                    self._read(replica, store, queue, acknowledged)

        if store.store.metadata.topic(TOPIC) is None:
            topic = Topic(TOPIC, read_queues=QUEUES, write_queues=QUEUES, durability=Durability.REPLICATED_FLUSHED)
            store.store.metadata.put_topic(topic, topic_made)
        else:
            topic_made(None)

    def _read(self, replica: SimReplica, store: LeaderStore, queue: int, acknowledged: dict[tuple[int, int], bytes]) -> None:
        def read(result: ReadResult | Failure) -> None:
            if replica.store is not store:
                return
            if isinstance(result, Failure):
                found: dict[int, bytes] = {}
            else:
                found = {Record(each).queue_offset: bytes(Record(each).body) for each in result.records}
            for (at, offset), body in acknowledged.items():
                if at == queue and found.get(offset) != body:
                    has = found.get(offset)
                    raise HistoryError(f"replica {replica.number} has {has!r} at {queue}/{offset}, acknowledged was {body!r}")
            for offset, body in found.items():
                if self.seen.setdefault((queue, offset), body) != body:
                    raise HistoryError(f"{queue}/{offset} was {self.seen[queue, offset]!r} and is {body!r}")

        store.store.log.read(ReadRequest(TOPIC, queue, 0, 1_000_000, 1 << 40), read)

    def send(self) -> None:
        """Send a message to whoever serves."""
        for each in self.replicas.values():
            if each.running and each.life.leading is None and each.follower.applied > self.confirmed:
                raise HistoryError(f"replica {each.number} has applied {each.follower.applied} of {self.confirmed} confirmed")
        leaders = [each for each in self.replicas.values() if each.store is not None and not each.clock.paused]
        if not leaders:
            return
        replica = self.chance.choice(leaders)
        store = replica.store
        assert store is not None
        self._sent += 1
        queue, body = self.chance.randrange(QUEUES), b"%d " % self._sent + b"x" * self.chance.randrange(300)

        sent_ms = self.service.now_ms()

        def done(result: list[Placed] | Failure) -> None:
            if not isinstance(result, Failure):
                self.waited.append((sent_ms, self.service.now_ms() - sent_ms))
                key = (queue, result[0].queue_offset)
                if self.acknowledged.setdefault(key, body) != body:
                    raise HistoryError(f"two messages are acknowledged at {key}")
                if self.seen.setdefault(key, body) != body:
                    raise HistoryError(f"{key} was shown as {self.seen[key]!r}, and {body!r} is acknowledged there")

        if store.store.metadata.topic(TOPIC) is not None:
            store.store.log.append([Message(TOPIC, body, b"", queue_id=queue)], done)

    # Faults

    def harm(self) -> None:
        """One fault, or the end of one."""
        chance = self.chance
        replica = chance.choice(list(self.replicas.values()))
        kind = chance.randrange(9 + 3 * self.far)
        if kind <= 1 and replica.running:
            replica.end()
        elif kind == 2 and replica.running:
            replica.clock.paused = True
            self.clock.call_at(
                self.clock.monotonic_ns() + chance.randrange(100, 6_000) * MILLISECOND_NS, replica.clock.resume
            )  # fmt: skip
        elif kind == 3:
            pair = frozenset(chance.sample(range(len(self.replicas) + 1), 2))
            self.part(pair)
        elif kind == 4:
            self.join()
        elif kind == 5:
            self.cut(replica.number)
        elif kind == 6:
            self.service.up = not self.service.up
        elif kind >= 9:
            self.fall_behind(replica)
        elif not replica.running:
            replica.revive(chance.random() < 0.5)

    def fall_behind(self, replica: SimReplica) -> None:
        """A replica is away for a while, and comes back over slow ways: it is connected soon, and lacks records for long."""
        others = [each for each in self.replicas.values() if each is not replica]
        if replica.running:
            replica.end()
        for _ in range(self.chance.randrange(20, 60)):
            self.send()
            self.clock.run_for(self.chance.randrange(1, 100))
        for each in others:
            self.part_far(replica, each, self.chance.randrange(50, 400))
        if not replica.running:
            replica.revive(False)
        self.clock.run_for(self.chance.randrange(1, 1_000))

    def lose_power(self) -> None:
        """All nodes lose power at once, and come back."""
        for replica in self.replicas.values():
            if replica.running:
                replica.end()
        for replica in self.replicas.values():
            replica.revive(True)

    def run(self, faults: int) -> None:
        """Faults and sends for a while; then the faults end, and within a bounded time everything is there."""
        self.clock.run_for(5_000)
        self.faulty = True
        self.net.unsteady = 0.02
        for _ in range(faults):
            for _ in range(self.chance.randrange(1, 30)):
                self.send()
                self.clock.run_for(self.chance.randrange(1, 100))
            if self.chance.random() < 0.05:
                self.lose_power()
            else:
                self.harm()
        self.heal()

    def heal(self) -> None:
        """The faults end: everything that was acknowledged is served, and all logs become equal."""
        self.faulty = False
        self.net.unsteady = 0.0
        self.join()
        self.service.up = True
        for replica in self.replicas.values():
            replica.clock.resume()
            if not replica.running:
                replica.revive(False)
        self.clock.run_for(30_000)
        before = len(self.acknowledged)
        for _ in range(20):
            self.send()
            self.clock.run_for(20)
        self.clock.run_for(3_000)
        group = self.service.group()
        if group is None or len(group.members) != len(self.replicas) or not group.leader:
            raise HistoryError(f"the group does not recover: {group}")
        if len(self.acknowledged) < before + 20:
            raise HistoryError("sends are not acknowledged after the faults have ended")
        for replica in self.replicas.values():
            if replica.store is not None:
                self.elected(replica)
        self.clock.run_for(1_000)
        self._compare()

    def _compare(self) -> None:
        logs = {number: log_bytes(each.disk, 0, 1 << 60) for number, each in self.replicas.items()}
        firsts = {number: int(each.disk.names("log")[0]) for number, each in self.replicas.items()}
        begin = max(firsts.values())
        end = min(firsts[number] + len(data) for number, data in logs.items())
        parts = {data[begin - firsts[number] : end - firsts[number]] for number, data in logs.items()}
        if len(parts) != 1:
            raise HistoryError(f"the logs differ between {begin} and {end}")


def run(seed: int, faults: int = 25, count: int = 3, far: bool = False) -> World:
    """One run. Raises HistoryError."""
    world = World(seed, count, far)
    try:
        world.run(faults)
    except (StoreError, OSError) as error:
        raise HistoryError(f"seed {seed}: {error}") from error
    return world
