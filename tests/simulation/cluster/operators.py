"""What operators do to store groups, at times that the seed decides, while everything else goes wrong: runs from OPERATED on.

Leadership is moved, nodes are stopped in order and started again, replicas become learners and come back, and `min_in_sync`
changes. All connections of the controller that leads break now and then. The disk of one fails, until it is started again, or
is full, until it has room. In runs from RESHAPED on `acks` changes, too, and learners are added, promoted and removed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from controller.groups.replica_reports import informed
from domain.controller.answer import GroupAnswer
from domain.controller.change import CleanReplicas, ElectLeader, GroupChange, SetAcks, SetMinInSync
from domain.controller.group import StoreGroup
from domain.controller.request import ChangeGroup, GroupChanged, ListStoreGroups, StoreGroupsListed
from domain.errors import ConfigError
from domain.limits import MILLISECOND_NS
from gateway.cluster.controller.controller_requests import ControllerRequests
from gateway.cluster.replica import identity
from protocols.remoting.controller.asking import Heard
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.simulation.cluster.controller_node import ControllerNode
from tests.simulation.kit.bugs import HistoryError

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster
    from tests.simulation.cluster.store_group import SimGroup
    from tests.simulation.cluster.store_node import StoreNode
    from tests.simulation.cluster.weather import Weather

OPERATED: Final = 1_000
"""The first seed of runs with operators."""
RESHAPED: Final = 10_000
"""The first seed of runs in which they also change `acks`, and add and remove learners."""
ADDED_MAX: Final = 1
"""Replicas that are added to a group in a run."""
GONE_MS: Final = 4_000
"""A replica that has ended is dead for the controllers within this time."""
ANSWERED_MS: Final = 60_000
HAND_OVER_MS: Final = 3_000
"""How long a node that stops waits for the election of another one, as in gateway.node.roles.replica."""


def change_group(cluster: Cluster, change: GroupChange) -> None:
    """Have the controller that leads make a change, as the commands of `headgate cluster` do. Its outcome is not told."""
    leading = _leading(cluster)
    if leading is not None and leading[1].member is not None:
        node, controlling = leading
        now_ms = node.clock.monotonic_ns() // MILLISECOND_NS
        group = leading[1].member.groups.group(change.group)
        leading[1].member.change(informed(change, group, controlling.heartbeats, now_ms), _unread)


def asked(cluster: Cluster, command: ChangeGroup | ListStoreGroups) -> GroupChanged | StoreGroupsListed:
    """The answer of the controller that leads. Raises HistoryError when none answers within ANSWERED_MS."""
    end_ns = cluster.clock.monotonic_ns() + ANSWERED_MS * MILLISECOND_NS
    while cluster.clock.monotonic_ns() < end_ns:
        leading = _leading(cluster)
        if leading is not None:
            recorder = EventRecorder()
            leading[1].verbs[type(command)](recorder.connection, command)
            for _ in range(40):
                cluster.clock.run_for(100)
                if recorder.recorded:
                    break
            found = next(iter(recorder.take()), None)
            if isinstance(found, GroupChanged | StoreGroupsListed):
                return found
        cluster.clock.run_for(250)
    raise HistoryError(f"no controller answers within {ANSWERED_MS} ms: {command}")


class OperatorTool:
    """What `headgate cluster` asks the controllers, in a simulated cluster: a GroupOrders."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def group(self, name: str) -> Heard:
        """As ClusterControllers.group."""
        found = asked(self._cluster, ListStoreGroups(1, names=(name,)))
        assert isinstance(found, StoreGroupsListed)
        if not found.groups:
            raise ConfigError(f"there is no store group {name}")
        return found.groups[0][0], tuple(found.groups[0][1])

    def change(self, change: GroupChange) -> GroupAnswer:
        """As ClusterControllers.change."""
        found = asked(self._cluster, ChangeGroup(1, change))
        assert isinstance(found, GroupChanged)
        return found.answer

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self._cluster.clock.run_for(seconds * 1_000)


def _leading(cluster: Cluster) -> tuple[ControllerNode, ControllerRequests] | None:
    """The controller that leads, as far as it knows."""
    for node in cluster.controllers:
        found = node.requests
        if found is not None and found.member is not None and found.member.leads and not node.clock.paused:
            return node, found
    return None


class Operators:
    """They are as busy as the weather is bad, and put everything right at its end."""

    def __init__(self, cluster: Cluster, weather: Weather, reshapes: bool = False) -> None:
        """`reshapes`: they change `acks`, and add and remove learners."""
        self._cluster = cluster
        self._weather = weather
        self._chance: random.Random = cluster.chance
        self._over = False
        self._broken: set[str] = set()
        self._reshapes = reshapes
        self._acks = 0
        self._deeds: list[tuple[int, Callable[[SimGroup], None]]] = [
            (4, self.move), (3, self.stop), (2, self.toggle_learner), (2, self.change_least), (4, self.cut_off_controller),
            (2, self.fail_controller),
        ]  # fmt: skip
        if reshapes:
            self._deeds += [(3, self.change_acks), (2, self.add_learner), (2, self.remove_learner)]

    def begin(self) -> None:
        """Be busy, until `end`."""
        if self._over:
            return
        self._cluster.after(self._chance.uniform(300, 3_000), self.begin)
        deeds, weights = [each for _, each in self._deeds], [weight for weight, _ in self._deeds]
        self._chance.choices(deeds, weights)[0](self._chance.choice(self._cluster.groups))

    def end(self) -> None:
        """Learners count again, one member is enough, and all confirm unless the run has begun with another number."""
        self._over = True
        for group in self._cluster.groups:
            self._put_right(group)

    def _put_right(self, group: SimGroup) -> None:
        for node in self._cluster.controllers:
            self._start_failed(node)
        for store in group.stores:
            if store.learner:
                self._become(store, False)
        found = group.checkers.group()
        if found is not None and self._reshapes:
            self._forget_removed(group, found)
            if found.wanted_acks != self._acks:
                change_group(self._cluster, SetAcks(group.name, self._acks))
                found = None
        if found is None or found.least or any(each.learner for each in found.replicas):
            change_group(self._cluster, SetMinInSync(group.name, 0))
            self._cluster.after(500, lambda: self._put_right(group))

    def _forget_removed(self, group: SimGroup, found: StoreGroup) -> None:
        """Have the controllers forget learners that have been removed, if they have not."""
        own = [each.life.own if each.life is not None else 0 for each in group.stores]
        gone = tuple(each.id for each in found.replicas if each.learner and each.id not in own)
        if all(own) and gone:
            change_group(self._cluster, CleanReplicas(group.name, gone))

    def set_acks(self, count: int) -> None:
        """Let so many members confirm in the first group, and wait until they do."""
        group = self._cluster.groups[0]
        self._acks = count

        def is_set() -> bool:
            found = group.checkers.group()
            if found is not None and found.wanted_acks != count:
                change_group(self._cluster, SetAcks(group.name, count))
                self._cluster.clock.run_for(100)
            return found is not None and found.acks == count

        self._cluster.clock.run_until(is_set, 10_000)

    def _did(self, name: str, what: str) -> None:
        self._weather.counts[name] = self._weather.counts.get(name, 0) + 1
        self._cluster.timeline.note("operator", what)

    def move(self, group: SimGroup) -> None:
        """Have some replica lead, in sync or not."""
        found = group.checkers.group()
        if found is not None and found.replicas:
            wanted = self._chance.choice(found.replicas).id
            self._did("move", f"replica {wanted} of {group.name} should lead")
            change_group(self._cluster, ElectLeader(group.name, designated=wanted, leader_epoch=found.leader_epoch))

    def stop(self, group: SimGroup) -> None:
        """Stop a node in order: it hands over, if it leads. It is started again."""
        store = self._chance.choice(group.stores)
        life, clock = store.life, store.clock
        if life is None or not store.running or clock.paused:
            return
        self._did("stop", f"{store.name} is told to stop")
        away_ms = self._chance.uniform(20, 2_000)

        def stopped() -> None:
            if store.running and store.clock is clock:
                store.end("has stopped")
                self._start_again(store, away_ms)

        life.hand_over(stopped)
        self._cluster.after(HAND_OVER_MS, stopped)

    def _start_again(self, store: StoreNode, after_ms: float) -> None:
        def again() -> None:
            if not store.running:
                store.note("started")
                store.start()

        self._cluster.after(after_ms, again)

    def toggle_learner(self, group: SimGroup) -> None:
        """A replica becomes a learner, one of a group at a time, or counts again."""
        learners = [each for each in group.stores if each.learner]
        store = learners[0] if learners else self._chance.choice(group.stores)
        if store.running and store.life is not None and store.life.own and not store.clock.paused:
            self._become(store, not store.learner)

    def _become(self, store: StoreNode, learner: bool) -> None:
        self._did("learner", f"{store.name} is {'a' if learner else 'no'} learner from its next start on")
        store.learner = learner
        if store.running and not store.clock.paused:
            store.end("is started with another setting")
            self._start_again(store, self._chance.uniform(20, 500))

    def change_least(self, group: SimGroup) -> None:
        """Ask for another number of members in sync."""
        least = self._chance.choice((0, 1, 2, 2))
        self._did("least", f"min_in_sync of {group.name} is to be {least}")
        change_group(self._cluster, SetMinInSync(group.name, least))

    def change_acks(self, group: SimGroup) -> None:
        """Ask for another number of members that confirm. More than there are replicas are refused, and fewer than
        `min_in_sync`."""
        wanted = self._chance.choice((0, 1, 2, 2, 3))
        self._did("acks", f"acks of {group.name} is to be {wanted}")
        change_group(self._cluster, SetAcks(group.name, wanted))

    def add_learner(self, group: SimGroup) -> None:
        """One more replica, as a learner; in a group that has had all of these, a learner is promoted."""
        if len(group.stores) < group.strength + ADDED_MAX:
            self._did("add", f"{group.add_learner().name} is added as a learner")
            return
        for store in group.stores:
            if store.learner and store.running and not store.clock.paused:
                self._become(store, False)
                return

    def remove_learner(self, group: SimGroup) -> None:
        """A learner goes for good: the controllers forget it. Its machine comes back with an empty disk, as a new learner."""
        found = group.checkers.group()
        members = {each.id for each in found.members} if found is not None else set()
        for store in group.stores:
            own = store.life.own if store.life is not None else 0
            if store.learner and store.running and not store.clock.paused and own and own not in members:
                self._remove(group, store, own)
                return

    def _remove(self, group: SimGroup, store: StoreNode, number: int) -> None:
        self._did("remove", f"{store.name}, replica {number}, is removed")
        group.checkers.lost_logs.add(store.member)
        store.end("is removed")
        store.replace_disk()

        def forget() -> None:
            if not store.running and store.disk.read_all(identity.NAME) is None:
                change_group(self._cluster, CleanReplicas(group.name, (number,)))

        self._cluster.after(GONE_MS, forget)
        self._start_again(store, GONE_MS + self._chance.uniform(100, 1_000))

    def cut_off_controller(self, _group: SimGroup) -> None:
        """All connections of the controller that leads break."""
        leading = _leading(self._cluster)
        if leading is not None:
            self._did("cut off", f"all connections of {leading[0].name} break")
            self._cluster.net.reset(leading[0].host, 1.0)

    def fail_controller(self, _group: SimGroup) -> None:
        """The disk of a controller fails, or is full, for a while. One whose disk has failed is started again afterwards; one
        that had no room takes part again by itself."""
        node = self._chance.choice(self._cluster.controllers)
        disk = node.disk
        if not node.running or node.clock.paused:
            return
        fault, value, well = self._chance.choice((("fail_syncs", True, False), ("capacity", 1, disk.capacity)))
        self._did("controller disk", f"the disk of {node.name} fails: {fault}")
        setattr(disk, fault, value)
        if fault == "fail_syncs":
            self._broken.add(node.name)

        def well_again() -> None:
            setattr(disk, fault, well)
            self._start_failed(node)

        self._cluster.after(self._chance.uniform(50, 1_500), well_again)

    def _start_failed(self, node: ControllerNode) -> None:
        """Start a controller again that takes part no more, since its disk has failed."""
        member = None if node.requests is None else node.requests.member
        if node.name in self._broken and member is not None and member.failure and not node.clock.paused:
            self._broken.discard(node.name)
            node.end(f"is started again: {member.failure}")
            node.start()


def _unread(_answer: GroupAnswer | None) -> None:
    """What became of it is seen in the group."""
