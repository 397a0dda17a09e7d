"""One run: a cluster starts, clients work under faults, the faults end, and all that was accepted is delivered."""

from __future__ import annotations

from typing import NamedTuple, final

from controller.groups.snapshot import snapshot
from controller.member.grey_moves import POLL_MS
from controller.slow_replicas.ejections import FIRST_MS, PROBES
from domain.errors import Failure
from domain.message.record import Record
from domain.store.store_ports import ReadResult
from domain.store.store_request import ReadRequest
from tests.simulation.cluster.cluster import SKEW_MS, Cluster
from tests.simulation.cluster.load import GROUPS, LEVELS, QUEUES, Load
from tests.simulation.cluster.operators import OPERATED, RESHAPED, Operators
from tests.simulation.cluster.past import Past
from tests.simulation.cluster.spanning import READERS, WIDE
from tests.simulation.cluster.store_group import SimGroup
from tests.simulation.cluster.weather import Weather
from tests.simulation.kit.bugs import HistoryError

FAULTS_MS = 20_000
SETTLE_MS = 60_000
"""Within this time after the end of the faults everything is delivered and settled, and all logs are equal; the time in which a
replica is passed over because it was slow does not count."""
FIT_MS = 2 * FIRST_MS + (PROBES + 2) * POLL_MS
"""A replica that was passed over twice, and is as fast as the others again, is fit within this time."""
CALM = 2
"""Looks in a row, half a second apart, at which there is nothing to wait for: what was decided is readable by then."""
COUNT = 10
"""Messages of each producer."""
OFF_MS = (-4_000, 1_500, 20_000, -1_500, 4_000)
"""How far a clock is ahead that is off."""
OFF_FAULTS_MS = 45_000
"""Time of the faults in such a run: there is one at a time."""
STORES = (3, 3, 2, 3, 4, 3, 3, 2, 3, 5)
"""Replicas, by the last digit of the seed."""


ACKS = {8: 2, 9: 3, 18: 2}
"""Members that confirm, by the seed modulo 20: of three replicas, or of five."""


class Shape(NamedTuple):
    """What a seed decides beside the lot.

    stores     replicas
    gateways   gateways
    power      machines lose their power, too
    slow       one replica is slow for so long that it is passed over
    groups     store groups
    acks       members that confirm; 0: all
    operated   operators are busy, too; not where a clock is off, since its replica may lead then while no other one can
    off_ms     how far the clock of one replica is ahead; 0: all are right
    """

    stores: int
    gateways: int
    power: bool
    slow: bool
    groups: int
    off_ms: int
    acks: int
    operated: bool


def shape_of(seed: int) -> Shape:
    """The shape of a run."""
    is_off = seed % 10 == 1 or seed % 50 in (14, 29)
    off_ms = OFF_MS[seed // 10 % len(OFF_MS)] if is_off else 0
    return Shape(
        STORES[seed % 10],
        1 + seed % 2,
        seed % 3 == 0 and not is_off,
        seed % 10 == 6,
        2 if seed % 10 == 5 else 1,
        off_ms,
        ACKS.get(seed % 20, 0),
        seed >= OPERATED and not is_off,
    )


@final
class Scene:
    """A run.

    stands_still   True: two failures at once have left no log of the SyncStateSet, and nobody was elected
    """

    stands_still = False

    def __init__(self, seed: int) -> None:
        shape = shape_of(seed)
        self.shape = shape
        self.cluster = Cluster(seed, shape.stores, shape.gateways, SKEW_MS, shape.groups, shape.off_ms)
        self.weather = Weather(self.cluster, shape.power, shape.slow)
        self.operators = Operators(self.cluster, self.weather, seed >= RESHAPED)
        self.past = Past(self.cluster)
        self.load: Load

    def run(self) -> Scene:
        """Run. Raises HistoryError."""
        cluster = self.cluster
        cluster.start()
        cluster.clock.run_until(self._whole, 20_000)
        load = self.load = Load(cluster, COUNT, leases_survive=not self.shape.power)
        load.topics()
        self.past.happen()
        cluster.checkers.due = lambda name: load.timers.due.get(name) or self.past.timers.due.get(name, 0)
        cluster.checkers.is_void = load.deals.is_rolled_back
        cluster.clock.run_until(self._whole, 20_000)
        cluster.checkers.clocks_known = True
        if self.shape.acks:
            self.operators.set_acks(self.shape.acks)
        load.start()
        self.weather.begin()
        if self.shape.operated:
            self.operators.begin()
        self._roam()
        cluster.clock.run_for(OFF_FAULTS_MS if self.shape.off_ms else FAULTS_MS)
        self.weather.clear()
        if self.shape.operated:
            self.operators.end()
        load.decide()
        if not self._settle():
            cluster.timeline.note("checker", "no log of the SyncStateSet exists any more: the group stands still, as it has to")
            self.stands_still = True
            return self
        first = cluster.groups[0]
        wrong = load.check({topic: stored(first, topic) for topic in LEVELS if topic != WIDE}, keeps_quick=not self.shape.power)
        for part in load.parts:
            wrong += part.check(stored(part.group, WIDE))
        wrong += self._logs()
        if wrong:
            raise HistoryError("; ".join(wrong))
        return self

    def digest(self) -> str:
        """Digest of the trace: equal for runs that are equal."""
        return self.cluster.ledger.digest()

    def _whole(self) -> bool:
        """True when all replicas are in their SyncStateSets, and in each group one serves whose clock is right."""
        cluster = self.cluster
        return all(each.is_whole() for each in cluster.groups) and cluster.leader() is not cluster.off

    def _roam(self) -> None:
        """Now and then the MQTT session comes to another gateway."""
        if self.cluster.chance.random() < 0.5:
            self.load.listener.roam()
        self.cluster.after(self.cluster.chance.uniform(1_000, 9_000), self._roam)

    def _settle(self) -> bool:
        """Wait until all that was accepted is delivered. False: an operator has to decide first."""
        clock, groups = self.cluster.clock, self.cluster.groups
        end_ns = clock.monotonic_ns() + SETTLE_MS * 1_000_000
        slow: dict[tuple[str, int], int] = {}  # replica -> when it was passed over first
        calm = 0
        while calm < CALM:
            waits = self._waits_for()
            calm = 0 if waits else calm + 1
            if any(each.checkers.stands_still() for each in groups):
                return False
            for place in [(group.name, each) for group in groups for each in group.checkers.slow()]:
                out_ns = clock.monotonic_ns() - slow.setdefault(place, clock.monotonic_ns())
                if out_ns > FIT_MS * 1_000_000:
                    raise HistoryError(f"replica {place} is passed over {out_ns // 1_000_000} ms after the end of all faults")
                end_ns = clock.monotonic_ns() + SETTLE_MS * 1_000_000
            if waits and clock.monotonic_ns() > end_ns:
                raise HistoryError(f"{SETTLE_MS} ms after the end of all faults the cluster waits for: {waits}")
            clock.run_for(500)
        return True

    def _waits_for(self) -> str:
        """What is not as it has to be yet; "": nothing."""
        cluster, load = self.cluster, self.load
        if not load.sent:
            return f"answers to {load.sending()}"
        for group in cluster.groups:
            if not group.is_whole():
                return f"members of the SyncStateSet, and a leader: {group.checkers.group()}"
            if slow := group.checkers.slow():
                return f"replicas of {group.name} to be fit again: {sorted(slow)}"
        if out := {each.name: each.failure for each in cluster.controllers if each.failure}:
            return f"controllers to take part: {out}"
        members = [each.requests.member for each in cluster.controllers if each.requests is not None]
        if len({snapshot(each.groups) for each in members if each is not None}) > 1:
            return "controllers that know the same"
        first = cluster.groups[0]
        settles = [(first, topic, name) for topic, name in GROUPS.items()]
        settles += [(part.group, WIDE, READERS) for part in load.parts]
        for group, topic, name in settles:
            for queue in range(QUEUES[topic]):
                position, end = position_of(group, name, topic, queue), end_of(group, topic, queue)
                if position != end:
                    return f"group {name}, which has settled {position} of {end} in {topic}/{queue} of {group.name}"
        undecided = first.served.figures()["transactions_open"]
        if undecided:
            return f"decisions about {undecided} transactions"
        if unheard := load.unheard():
            return f"messages that the session lacks: {sorted(unheard)}"
        for group in cluster.groups:
            ends = {each.log_end for each in group.stores}
            if len(ends) > 1:
                return f"logs of {group.name} of the same length: {sorted(ends)}"
        return self.past.waits_for()

    def _logs(self) -> list[str]:
        """All logs of a group are equal, from where all of them begin."""
        return [
            f"the logs of {group.name} differ"
            for group in self.cluster.groups
            if len({each.log(max(one.first for one in group.stores), 1 << 60) for each in group.stores}) > 1
        ]


def position_of(of: SimGroup, group: str, topic: str, queue: int) -> int:
    """The position of a consumer group; -1: a leader that may not answer reads yet does not say it."""
    found: list[int | Failure] = []
    of.served.positions.offset(group, topic, queue, found.append)
    return -1 if not found else found[0] if isinstance(found[0], int) else 0


def end_of(of: SimGroup, topic: str, queue: int) -> int:
    """The next offset of a queue."""
    found: list[tuple[int, int] | Failure] = []
    of.served.log.bounds(topic, queue, found.append)
    return found[0][1] if found and isinstance(found[0], tuple) else 0


def stored(of: SimGroup, topic: str) -> list[list[tuple[int, str]]]:
    """(offset, body) of all messages of a topic, by queue; of those that retention has deleted, as they were readable."""
    queues: list[list[tuple[int, str]]] = []
    for queue in range(QUEUES[topic]):
        bounds: list[tuple[int, int] | Failure] = []
        of.served.log.bounds(topic, queue, bounds.append)
        of.clock.run_until(lambda: bool(bounds), 5_000)  # noqa: B023 - it is called at once
        first = bounds[0][0] if isinstance(bounds[0], tuple) else 0
        found: list[ReadResult | Failure] = []
        of.served.log.read(ReadRequest(topic, queue, first, 100_000, 1 << 30), found.append)
        of.clock.run_turn()
        result = found[0]
        records = [] if isinstance(result, Failure) else [Record(each) for each in result.records]
        deleted = [(at, of.checkers.seen.get((topic, queue, at), b"").decode()) for at in range(first)]
        queues.append(deleted + [(each.queue_offset, each.body.decode()) for each in records])
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
