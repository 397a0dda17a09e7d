"""Reads under faults: nobody is answered less than somebody was answered before, at leaders that were replaced either.

One writer stores messages, positions and latest values at the newest leader, one after the other. Askers of each protocol are
connected to gateways, to leaders, and to who was one and does not know better: paused, or parted from all but its clients.
"""

from __future__ import annotations

from typing import Any, Final, final

from domain.controller.change import ElectLeader
from domain.topic.topic import Durability, Topic
from protocols.remoting import codes
from protocols.remoting.wire import frame
from tests.simulation.cluster.askers import ASKERS, END, GROUP, POSITION, TOPIC, VALUE, Asker, Seen
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.operators import Operators, change_group
from tests.simulation.cluster.store_node import StoreNode
from tests.simulation.cluster.weather import Weather
from tests.simulation.kit.bugs import HistoryError
from tests.simulation.kit.network import between

FAULTS_MS: Final = 15_000
CALM_MS: Final = 4_000
AT_GATEWAYS: Final = 0.3
"""Share of the connections of askers that go to a gateway."""
PARTED_MS: Final = 5_500
BROKEN: Final = 0.4
"""Share of the partings that begin with the end of its connections: another replica is elected at once."""
PAUSED: Final = 0.4
"""Share of the partings in which the leader stands still, too."""
PAUSE_MS: Final = (3_000, 4_500)
REST_MS: Final = 1_000
"""Pause of the writer at a new leader: others see first whether that has all that was read before."""
DEAF_MS: Final = (5, 60)
"""Time for which a leader is heard and hears nobody, before another one is made to lead: what it writes then is not confirmed
to it, and the next leader has it."""
MOVED_MS: Final = 2_000
MOVED_ASKERS: Final = 4
EACH: Final = 2
"""Askers of each protocol."""


class Writer(Asker):
    """Stores by turns a message, a position and a latest value, each greater than the one before, at the newest leader.

    An answer to it is no read: a leader that was replaced half a second ago need not know what the next one has stored.

    stored   writes that were acknowledged
    """

    protocol = "remoting"

    def __init__(self, readers: Readers, name: str, seen: Seen) -> None:
        super().__init__(readers, name, seen)
        self._newest = self.stored = 0

    def start(self) -> None:
        """Asker.start."""
        self._readers.dial_leader(self)

    def opened(self) -> None:
        """Asker.opened."""
        self._decoder = frame.FrameDecoder()
        self._later(self._readers.rest_ms, self.next)

    def ask(self, serial: int) -> None:
        """Asker.ask."""
        self._left = 1
        self._newest += 1
        kind = (END, POSITION, VALUE)[self._newest % 3]
        if kind == POSITION:
            fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": str(self._newest)}
            self.link.send(frame.encode(codes.UPDATE_OFFSET, serial, fields=fields))
            return
        stored = "" if kind == END else f"mqttRetain\x01true\x02originMqttTopic\x01{TOPIC}/value\x02"
        fields = {
            "a": "sim", "b": TOPIC, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1", "h": "0", "i": stored, "j": "0",
            "k": "false", "m": "false",
        }  # fmt: skip
        self.link.send(frame.encode(codes.SEND_V2, serial, fields=fields, body=b"%d" % self._newest))

    def received(self, data: bytes) -> None:
        """Party.received."""
        for answer in self._decoder.feed(data):
            if answer.opaque == self._serial:
                self._serial += 1
                self.stored += answer.code == 0
                self._later(self.chance.randrange(1, 60), self.next)


@final
class Readers:
    """A run. Seeds that are odd part leaders, the others have the weather of all clusters.

    rest_ms  pause of the writer at a new leader
    """

    def __init__(self, seed: int, moves: bool = False) -> None:
        """`moves`: two of three replicas confirm, and as a leader is parted, an operator has another one lead at once."""
        Cluster.made.clear()
        cluster = self.cluster = Cluster(seed, stores=3 if moves else (3, 2, 4)[seed % 3], gateways=1 + seed % 2)
        self.weather = Weather(cluster, power=False, slow=False)
        self.partings = 0
        self.rest_ms = 1 if moves else REST_MS
        self._moves = moves
        self._parts = moves or seed % 2 == 1
        self.seen = Seen(lambda text: cluster.timeline.note("checker", text))
        each = range(MOVED_ASKERS if moves else EACH)
        self._askers = [kind(self, f"{kind.protocol} asker {at}", self.seen) for kind in ASKERS for at in each]
        writer = self.writer = Writer(self, "writer", self.seen)
        cluster.on_served = lambda node, store: writer.hop()

    def dial(self, protocol: str, party: Any) -> str:
        """Connect to a gateway, or to any replica that serves clients; to whom."""
        cluster = self.cluster
        serving = [each for each in cluster.stores if each.parts is not None]
        if not serving or cluster.chance.random() < AT_GATEWAYS:
            cluster.dial(protocol, party)
            return "a gateway"
        store = cluster.chance.choice(serving)
        store.serve(protocol, party)
        return store.name

    def dial_leader(self, party: Any) -> None:
        """Connect to the newest leader."""
        leader = self.cluster.leader()
        if leader is None:
            self.cluster.after(20, party.lost)
        else:
            leader.serve("remoting", party)

    def run(self) -> Readers:
        """Run. Raises HistoryError."""
        with self.cluster.timeline.with_logs():
            return self._run()

    def _run(self) -> Readers:
        cluster = self.cluster
        cluster.start()
        cluster.clock.run_until(cluster.groups[0].is_whole, 20_000)
        if self._moves:
            Operators(cluster, self.weather).set_acks(2)
        self._make_topic()
        self.writer.start()
        for each in self._askers:
            each.start()
        cluster.clock.run_for(1_000)
        if self._parts:
            self._part()
        else:
            self.weather.begin()
        cluster.clock.run_for(FAULTS_MS)
        self._parts = False
        self.weather.clear()
        cluster.clock.run_for(CALM_MS)
        if self.seen.faults:
            raise HistoryError("; ".join(self.seen.faults[:5]))
        return self

    def _part(self) -> None:
        """The leader is parted from all machines, and stands still for some of that time. Clients that are connected to it ask
        it when it goes on, and does not know yet that another one leads."""
        cluster, chance = self.cluster, self.cluster.chance
        leader = cluster.leader()
        if not self._parts:
            return
        if leader is None or not cluster.groups[0].is_whole():
            cluster.after(100, self._part)
            return
        self.partings += 1
        others = [each for each in cluster.machines if each is not leader]
        if self._moves:
            cluster.net.blocked |= {(other.host, leader.host) for other in others}
            cluster.after(chance.uniform(*DEAF_MS), lambda: self._move(leader, others))
            return
        pairs = between([leader], others)
        cluster.net.blocked |= {(origin.host, to.host) for origin, to in pairs}
        lot = chance.random()
        if lot < BROKEN:
            cluster.net.reset(leader.host, 1.0)
        elif lot < BROKEN + PAUSED:
            leader.pause(int(chance.uniform(*PAUSE_MS)))
        cluster.after(PARTED_MS, cluster.net.heal)
        cluster.after(PARTED_MS + chance.uniform(200, 1_000), self._part)

    def _move(self, leader: StoreNode, others: list[Machine]) -> None:
        """Nobody hears the leader any more, and another replica is to lead."""
        cluster, found = self.cluster, self.cluster.checkers.group()
        cluster.net.blocked |= {(leader.host, other.host) for other in others}
        wanted = [each.id for each in found.members if each.id != found.leader] if found is not None else []
        if found is not None and wanted:
            change_group(cluster, ElectLeader(found.name, designated=cluster.chance.choice(wanted)))
        cluster.after(MOVED_MS, cluster.net.heal)
        cluster.after(MOVED_MS + cluster.chance.uniform(200, 1_000), self._part)

    def _make_topic(self) -> None:
        """Make the topic; again when it is refused, since the leader may not know yet who is in its SyncStateSet."""
        clock, topic = self.cluster.clock, Topic(TOPIC, read_queues=1, write_queues=1, durability=Durability.REPLICATED_FLUSHED)
        made: list[object] = []
        while made != [None]:
            made = []
            self.cluster.groups[0].served.metadata.put_topic(topic, made.append)
            clock.run_until(lambda answers=made: bool(answers), 5_000)  # type: ignore[misc]
            clock.run_for(50)


def run(seed: int) -> Readers:
    """One run. Raises HistoryError."""
    return Readers(seed).run()


def run_moved(seed: int) -> Readers:
    """One run in which the next leader is elected while the fence of the one before may be open. Raises HistoryError."""
    return Readers(seed, moves=True).run()
