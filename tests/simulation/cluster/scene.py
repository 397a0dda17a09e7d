"""One run: a cluster starts, clients work under faults, the faults end, and all that was accepted is delivered."""

from __future__ import annotations

from typing import NamedTuple, final

from controller.grey.ejections import FIRST_MS, PROBES
from controller.member.grey_moves import LOOK_MS
from domain.errors import Failure
from domain.record import Record
from domain.store_ports import ReadResult
from domain.store_request import ReadRequest
from tests.simulation.cluster.checkers import HistoryError
from tests.simulation.cluster.cluster import SKEW_MS, Cluster
from tests.simulation.cluster.load import DEV, GROUP, LEVELS, ORDERLY, QUEUES, ROWS, Load
from tests.simulation.cluster.weather import Weather

FAULTS_MS = 20_000
SETTLE_MS = 60_000
"""Within this time after the end of the faults everything is delivered and settled, and all logs are equal; the time in which a
replica is passed over because it was slow does not count."""
FIT_MS = FIRST_MS + (PROBES + 2) * LOOK_MS
"""A replica that was passed over once, and is as fast as the others again, is fit within this time."""
COUNT = 10
"""Messages of each producer."""
STORES = (3, 3, 2, 3, 4, 3, 3, 2, 3, 5)
"""Replicas, by the last digit of the seed."""


class Shape(NamedTuple):
    """What a seed decides beside the lot.

    stores     replicas
    gateways   gateways
    power      machines lose their power, too
    slow       one replica is slow for so long that it is passed over
    """

    stores: int
    gateways: int
    power: bool
    slow: bool


def shape_of(seed: int) -> Shape:
    """The shape of a run."""
    return Shape(STORES[seed % 10], 1 + seed % 2, seed % 3 == 0, seed % 10 == 6)


@final
class Scene:
    """A run.

    stands_still   True: two failures at once have left no log of the SyncStateSet, and nobody was elected
    """

    stands_still = False

    def __init__(self, seed: int) -> None:
        shape = shape_of(seed)
        self.shape = shape
        self.cluster = Cluster(seed, shape.stores, shape.gateways, SKEW_MS)
        self.weather = Weather(self.cluster, shape.power, shape.slow)
        self.load: Load

    def run(self) -> Scene:
        """Run. Raises HistoryError."""
        cluster = self.cluster
        cluster.start()
        load = self.load = Load(cluster, COUNT, leases_survive=not self.shape.power)
        cluster.checkers.due = load.timers.due
        cluster.clock.run_until(self._whole, 20_000)
        load.topics()
        load.start()
        self.weather.begin()
        self._roam()
        cluster.clock.run_for(FAULTS_MS)
        self.weather.clear()
        if not self._settle():
            cluster.timeline.note("checker", "no log of the SyncStateSet exists any more: the group stands still, as it has to")
            self.stands_still = True
            return self
        wrong = load.check({topic: self.stored(topic) for topic in LEVELS}, keeps_quick=not self.shape.power)
        wrong += self._logs()
        if wrong:
            raise HistoryError("; ".join(wrong))
        return self

    def digest(self) -> str:
        """Digest of the trace: equal for runs that are equal."""
        return self.cluster.ledger.digest()

    def _whole(self) -> bool:
        """True when all replicas are in the SyncStateSet, and one of them serves."""
        group = self.cluster.checkers.group()
        return group is not None and len(group.members) == len(self.cluster.stores) and self.cluster.leader() is not None

    def _roam(self) -> None:
        """Now and then the MQTT session comes to another gateway."""
        if self.cluster.chance.random() < 0.5:
            self.load.listener.roam()
        self.cluster.after(self.cluster.chance.uniform(1_000, 9_000), self._roam)

    def _settle(self) -> bool:
        """Wait until all that was accepted is delivered. False: an operator has to decide first."""
        clock, checkers = self.cluster.clock, self.cluster.checkers
        end_ns = clock.monotonic_ns() + SETTLE_MS * 1_000_000
        slow: dict[int, int] = {}  # replica -> when it was passed over first
        while waits := self._waits_for():
            if checkers.stands_still():
                return False
            for each in checkers.slow():
                out_ns = clock.monotonic_ns() - slow.setdefault(each, clock.monotonic_ns())
                if out_ns > FIT_MS * 1_000_000:
                    raise HistoryError(f"replica {each} is passed over {out_ns // 1_000_000} ms after the end of all faults")
                end_ns = clock.monotonic_ns() + SETTLE_MS * 1_000_000
            if clock.monotonic_ns() > end_ns:
                raise HistoryError(f"{SETTLE_MS} ms after the end of all faults the cluster waits for: {waits}")
            clock.run_for(500)
        return True

    def _waits_for(self) -> str:
        """What is not as it has to be yet; "": nothing."""
        cluster, load = self.cluster, self.load
        leader, group = cluster.leader(), cluster.checkers.group()
        if leader is None or group is None:
            return "a leader"
        if not load.sent:
            return f"answers to {load.sending()}"
        if len(group.members) != len(cluster.stores):
            return f"members of the SyncStateSet: {group.members}"
        for topic, name in ((DEV, GROUP), (ROWS, ORDERLY)):
            for queue in range(QUEUES[topic]):
                position, end = self.position(name, topic, queue), self.end(topic, queue)
                if position != end:
                    return f"group {name}, which has settled {position} of {end} in {topic}/{queue}"
        if cluster.checkers.slow():
            return f"replicas to be fit again: {sorted(cluster.checkers.slow())}"
        unheard = load.unheard()
        if unheard:
            return f"messages that the session lacks: {sorted(unheard)}"
        ends = {len(each.log(0, 1 << 60)) for each in cluster.stores}
        return "" if len(ends) == 1 else f"logs of the same length: {sorted(ends)}"

    def _logs(self) -> list[str]:
        """All logs are equal."""
        logs = {each.log(0, 1 << 60) for each in self.cluster.stores}
        return [] if len(logs) == 1 else ["the logs differ"]

    # What the leader has

    def position(self, group: str, topic: str, queue: int) -> int:
        """The position of a group."""
        leader = self.cluster.leader()
        assert leader is not None
        assert leader.store is not None
        found: list[int | Failure] = []
        leader.store.store.positions.offset(group, topic, queue, found.append)
        return found[0] if isinstance(found[0], int) else 0

    def end(self, topic: str, queue: int) -> int:
        """The next offset of a queue."""
        leader = self.cluster.leader()
        assert leader is not None
        assert leader.store is not None
        found: list[tuple[int, int] | Failure] = []
        leader.store.store.log.bounds(topic, queue, found.append)
        return found[0][1] if isinstance(found[0], tuple) else 0

    def stored(self, topic: str) -> list[list[tuple[int, str]]]:
        """(offset, body) of all messages of a topic, by queue."""
        leader = self.cluster.leader()
        assert leader is not None
        assert leader.store is not None
        queues: list[list[tuple[int, str]]] = []
        for queue in range(QUEUES[topic]):
            found: list[ReadResult | Failure] = []
            leader.store.store.log.read(ReadRequest(topic, queue, 0, 100_000, 1 << 30), found.append)
            self.cluster.clock.run_turn()
            result = found[0]
            records = [] if isinstance(result, Failure) else [Record(each) for each in result.records]
            queues.append([(each.queue_offset, each.body.decode()) for each in records])
        return queues


def run(seed: int) -> Scene:
    """One run. Raises HistoryError, whose text ends with the timeline."""
    Cluster.made.clear()
    scene = Scene(seed)
    try:
        with scene.cluster.timeline.with_logs():
            return scene.run()
    except Exception as error:
        scene.cluster.timeline.note("checker", f"{type(error).__name__}: {error}")
        raise
