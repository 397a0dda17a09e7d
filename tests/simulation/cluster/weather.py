"""Faults, at times that the seed decides. Each ends by itself, or in `Weather.clear`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from domain.controller.change import AlterSet
from tests.simulation.cluster.machine import Machine
from tests.simulation.kit.network import between

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster
    from tests.simulation.cluster.store_node import StoreNode

PAUSE_MS_MAX: Final = 6_000
WELL_MS: Final = 4_000
"""Time in which a controller that has just started hears the clocks of all replicas."""
SLOW_MS: Final = 15_000
"""How long a disk is slow that the controllers are to notice: they take some eight seconds for it."""


class Weather:
    """The faults of a run.

    power     machines lose their power
    slow      the disk of one replica is slow for so long that it is passed over
    storming  True once faults have begun
    counts    fault -> how often it has been
    """

    def __init__(self, cluster: Cluster, power: bool, slow: bool) -> None:
        self._cluster = cluster
        self._chance: random.Random = cluster.chance
        self.power = power
        self.counts: dict[str, int] = {}
        self.storming = False
        self._over = False
        self.slow = slow
        self._spared: StoreNode | None = None
        self._faults: list[tuple[int, Callable[[], None]]] = [
            (6, self.kill), (3, self.kill_two), (4, self.pause), (3, self.reset), (3, self.isolate), (2, self.halves),
            (2, self.one_way), (1, self.bridge), (1, self.ring), (2, self.slow_network), (2, self.slow_disk),
            (1, self.full_disk), (1, self.failing_disk), (3, self.leave_network_alone),
        ]  # fmt: skip
        self._faults += [(4, self.power_off), (2, self.power_off_all)] if power else [(2, self.wipe), (1, self.flip)]
        for store in cluster.stores:
            store.altering = partial(self._tempt, store)

    def begin(self) -> None:
        """Let it storm, until `clear`."""
        self._cluster.net.unsteady = 0.02
        self.storming = True
        if self.slow:
            self.slow_for_long()
        if self._cluster.off is not None:
            self._cluster.net.unsteady = 0.0
            self._next_alone(self._cluster.clock.monotonic_ns())
        else:
            self._next()

    def _next_alone(self, whole_ns: int) -> None:
        """One fault at a time, once all has been well since `whole_ns` for long enough: somebody else can always lead."""
        if self._over:
            return
        cluster, now = self._cluster, self._cluster.clock.monotonic_ns()
        is_well = all(each.running and not each.clock.paused for each in cluster.machines) and not cluster.net.blocked
        if not is_well or not all(each.is_whole() for each in cluster.groups):
            whole_ns = now
        elif now - whole_ns > WELL_MS * 1_000_000:
            whole_ns = now
            self._chance.choice((self.kill, self.kill, self.pause, self.isolate, self.reset))()
        cluster.after(250, lambda: self._next_alone(whole_ns))

    def _next(self) -> None:
        if self._over:
            return
        calm = self._spared is not None  # who is slow is found out by comparison with others that are well
        self._cluster.after(self._chance.uniform(2_000, 8_000) if calm else self._chance.uniform(50, 2_000), self._next)
        self._chance.choices([each for _, each in self._faults], [weight for weight, _ in self._faults])[0]()

    def clear(self) -> None:
        """All faults end."""
        self._over = True
        cluster = self._cluster
        cluster.timeline.note("weather", "all faults end")
        cluster.net.unsteady = 0.0
        cluster.net.heal()
        for machine in cluster.machines:
            machine.heal()
        self._repair()

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def _note(self, what: str) -> None:
        self._cluster.timeline.note("weather", what)

    def _machine(self) -> Machine:
        """A machine: mostly one of the stores, and often the leader."""
        cluster, lot = self._cluster, self._chance.random()
        leader = self._chance.choice(cluster.groups).leader()
        if leader is not None and leader is not self._spared and lot < 0.35:
            return leader
        found = self._chance.choice(cluster.stores if lot < 0.7 else cluster.machines)
        return self._chance.choice(cluster.controllers) if found is self._spared else found

    def _again(self, machine: Machine, after_ms: float) -> None:
        def again() -> None:
            if not machine.running:
                machine.note("started")
                machine.start()

        self._cluster.after(after_ms, again)

    # Processes and machines

    def kill(self) -> None:
        """kill -9."""
        machine = self._machine()
        if machine.running:
            self._count("kill")
            machine.end("killed")
            self._again(machine, self._chance.uniform(20, 4_000))

    def kill_two(self) -> None:
        """Two kills within a short time, or at once."""
        self.kill()
        self._cluster.after(self._chance.choice((0, 1, 20, 300)), lambda: None if self._over else self.kill())

    def pause(self) -> None:
        """SIGSTOP, and SIGCONT later."""
        machine = self._machine()
        self._count("pause")
        machine.pause(self._chance.randrange(50, PAUSE_MS_MAX))

    def power_off(self) -> None:
        """One machine loses its power."""
        machine = self._machine()
        if machine.powered:
            self._count("power")
            self._unsynced()
            machine.lose_power()
            self._again(machine, self._chance.uniform(100, 4_000))

    def power_off_all(self) -> None:
        """All machines lose their power at once."""
        self._count("power of all")
        self._unsynced()
        for machine in self._cluster.machines:
            machine.lose_power()
            self._again(machine, self._chance.uniform(100, 3_000))

    def _unsynced(self) -> None:
        """From now on what was not durable may be lost."""
        for group in self._cluster.groups:
            group.checkers.unsynced = True

    def wipe(self) -> None:
        """A replica that does not lead loses all of its log, and comes back under its old name."""
        cluster, of = self._cluster, self._chance.choice(self._cluster.groups)
        group = of.checkers.group()
        stores = [
            each for each in of.stores
            if each is not self._spared and each.store is None and each.life is not None and each.life.own
        ]  # fmt: skip
        if group is None or not group.leader or not stores:
            return
        members = {(each.id, each.incarnation) for each in group.members}
        store = self._chance.choice(stores)
        holders = [each for each in of.stores if each is not store and each.member in members]
        if not holders or store.life is None or store.life.own == group.leader:
            return
        self._count("wipe")
        of.checkers.lost_logs.add(store.member)
        store.end("killed, and its log is gone")
        store.wipe()
        away_ms = self._chance.uniform(20, 500)
        self._again(store, away_ms)
        leader = of.leader()
        if leader is not None and self._chance.random() < 0.6:
            cluster.after(away_ms + self._chance.uniform(0, 30), lambda: self._kill_one(leader))

    def flip(self) -> None:
        """A bit of one replica's log is flipped, once in a run, while two others have it all."""
        cluster, of = self._cluster, self._chance.choice(self._cluster.groups)
        group = of.checkers.group()
        if group is None or any(each.damaged for each in cluster.stores):
            return
        members = {(each.id, each.incarnation) for each in group.members}
        store = self._chance.choice(of.stores)
        if sum(each is not store and each.member in members for each in of.stores) >= 2 and store.flip():
            self._count("flip")

    def _kill_one(self, store: StoreNode) -> None:
        if store.running and not self._over and store is not self._spared:
            store.end("killed")
            self._again(store, self._chance.uniform(500, 4_000))

    def _tempt(self, leader: StoreNode, change: AlterSet) -> None:
        """The SyncStateSet grows, and the answer is late: the newcomers are parted from the leader, which goes on for a moment
        and dies with the others of the set."""
        group = leader.group.checkers.group()
        if self._over or group is None or not self.storming or self._cluster.off or self._chance.random() < 0.6:
            return
        before = {each.id for each in group.members}
        newcomers = [
            each for each in leader.group.stores if each.life is not None and each.life.own in self._ids(change) - before
        ]
        old = [each for each in leader.group.stores if each.life is not None and each.life.own in before]
        if not newcomers or leader not in old:
            return
        pairs: list[tuple[Machine, Machine]]
        pairs = [pair for one in old for new in newcomers for pair in ((one, new), (new, one))]
        pairs.extend((controller, leader) for controller in self._cluster.controllers)
        names = ", ".join(each.name for each in newcomers)
        self._part("late growth", f"{names} in the set, the answer is late, and the leader loses them", pairs)
        for one in old:
            self._cluster.after(self._chance.uniform(50, 1_200), partial(self._kill_one, one))

    def _ids(self, change: AlterSet) -> set[int]:
        return {each.id for each in change.members}

    # The network

    def reset(self) -> None:
        """Connections break."""
        self._count("reset")
        machine = self._machine()
        share = self._chance.choice((0.3, 1.0))
        self._note(f"connections of {machine.name} break ({share:.0%})")
        self._cluster.net.reset(machine.host, share)
        for gateway in self._cluster.gateways:
            gateway.reset_some(self._chance.choice((0.0, 0.3)))

    def _part(self, name: str, what: str, pairs: Iterable[tuple[Machine, Machine]]) -> None:
        self._count(name)
        net = self._cluster.net
        net.heal()
        blocked = {(origin.host, to.host) for origin, to in pairs}
        net.blocked |= blocked
        for_ms = self._chance.uniform(100, 6_000)
        self._note(f"{what}, for {for_ms:.0f} ms")

        def end() -> None:
            if net.blocked == blocked:
                net.heal()
                self._note("the network is whole")

        self._cluster.after(for_ms, end)

    def isolate(self) -> None:
        """Nothing passes to and from one machine."""
        one = self._machine()
        self._part("isolate", f"{one.name} is isolated", between([one], self._cluster.machines))

    def _split(self) -> tuple[list[Machine], list[Machine]]:
        machines = list(self._cluster.machines)
        self._chance.shuffle(machines)
        at = self._chance.randrange(1, len(machines))
        return machines[:at], machines[at:]

    def halves(self) -> None:
        """Nothing passes between two parts."""
        left, right = self._split()
        self._part("halves", f"{_names(left)} are parted from {_names(right)}", between(left, right))

    def one_way(self) -> None:
        """From one machine to others nothing passes; back it does."""
        one = self._machine()
        others = [each for each in self._cluster.machines if each is not one and self._chance.random() < 0.7]
        pairs = [(one, other) for other in others]
        if self._chance.random() < 0.5:
            pairs = [(other, one) for one, other in pairs]
        self._part("one way", f"{'from' if pairs and pairs[0][0] is one else 'to'} {one.name} nothing passes", pairs)

    def bridge(self) -> None:
        """Two parts reach each other only through one machine, which does not forward."""
        left, right = self._split()
        middle = self._machine()
        pairs = [pair for pair in between(left, right) if middle not in pair]
        self._part("bridge", f"{middle.name} is the bridge between {_names(left)} and {_names(right)}", pairs)

    def ring(self) -> None:
        """Each machine reaches two others."""
        machines = list(self._cluster.machines)
        self._chance.shuffle(machines)
        count = len(machines)
        pairs = [
            (machines[one], machines[other])
            for one in range(count) for other in range(count) if one != other and (one - other) % count not in (1, count - 1)
        ]  # fmt: skip
        self._part("ring", f"a ring of {_names(machines)}", pairs)

    def leave_network_alone(self) -> None:
        """A partition ends before its time."""
        if self._cluster.net.blocked:
            self._cluster.net.heal()
            self._note("the network is whole")

    def slow_network(self) -> None:
        """Everything to and from one machine takes longer, or what is said is late now and then."""
        self._count("slow network")
        net, machine = self._cluster.net, self._machine()
        late_ms = net.slow[machine.host] = self._chance.choice((5, 50, 250))
        self._note(f"{machine.name} is {late_ms} ms away")

        def end() -> None:
            net.slow.pop(machine.host, None)

        self._cluster.after(self._chance.uniform(500, 5_000), end)
        net.unsteady = self._chance.choice((0.0, 0.02, 0.1))

    # Disks

    def _store_disk(self, name: str, what: str, for_ms: float, begin: str, value: object) -> None:
        """Something is wrong with the disk of a store, unless its process starts again meanwhile."""
        store = self._chance.choice(self._cluster.stores)
        disk = store.disk
        before = getattr(disk, begin)
        self._count(name)
        store.note(f"{what} for {for_ms:.0f} ms")
        setattr(disk, begin, value)
        self._cluster.after(for_ms, lambda: setattr(disk, begin, before))

    def slow_disk(self) -> None:
        """Syncs take long, for each process that there is meanwhile."""
        self._slow_disk(
            self._chance.choice(self._cluster.stores),
            self._chance.choice((20.0, 100.0, 700.0)),
            self._chance.uniform(500, 5_000),
        )

    def slow_for_long(self) -> None:
        """Syncs of one replica take long until the controllers have noticed it; its process lives on meanwhile."""
        store = self._chance.choice(self._cluster.stores)
        self._spared = store
        self._slow_disk(store, self._chance.choice((100.0, 700.0)), SLOW_MS)

        def end() -> None:
            self._spared = None

        self._cluster.after(SLOW_MS, end)

    def _slow_disk(self, store: StoreNode, sync_ms: float, for_ms: float) -> None:
        self._count("slow disk")
        store.note(f"a sync takes {sync_ms} ms for {for_ms:.0f} ms")
        store.disk.sync_ms = sync_ms
        until_ns = store.slow_until_ns = max(store.slow_until_ns, self._cluster.clock.monotonic_ns() + int(for_ms * 1e6))

        def end() -> None:
            if store.slow_until_ns == until_ns:
                store.disk.sync_ms = store.sync_ms

        self._cluster.after(for_ms, end)

    def full_disk(self) -> None:
        """No room for another byte."""
        self._store_disk("full disk", "the disk is full", self._chance.uniform(100, 2_000), "capacity", 1)
        self._cluster.after(self._chance.uniform(2_000, 5_000), self._repair)

    def failing_disk(self) -> None:
        """Syncs fail: their pages are clean afterwards, and lost at the next power failure."""
        self._store_disk("failing disk", "syncs fail", self._chance.uniform(50, 500), "fail_syncs", True)
        self._cluster.after(self._chance.uniform(500, 4_000), self._repair)

    def _repair(self) -> None:
        """An operator starts replicas again that take nothing any more, because their disk has failed."""
        for store in self._cluster.stores:
            if store.is_stuck and not store.clock.paused:
                store.end("takes nothing any more, and is started again")
                store.start()


def _names(machines: list[Machine]) -> str:
    return ", ".join(each.name for each in machines)
