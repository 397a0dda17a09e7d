"""The controllers, as simulated replicas ask them: the real rules of store groups, behind questions that are lost or late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from controller.groups.groups import StoreGroups
from controller.groups.heartbeats import Heartbeats
from controller.groups.replica_reports import informed, refused
from controller.member.grey_moves import GreyMoves
from controller.slow_replicas.ports import ReplicaJudge
from controller.slow_replicas.record import FiguresRecord
from domain.controller.answer import GroupAnswer
from domain.controller.change import AlterSet, ElectLeader, GroupChange, RegisterReplica
from domain.controller.group import StoreGroup
from domain.controller.health import Fitness
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import ReplicaHeard
from domain.limits import MILLISECOND_NS
from gateway.cluster.replica.controllers import GroupListener, GroupWord
from tests.simulation.kit.clock import PausableClock

if TYPE_CHECKING:
    from tests.gateway.cluster.replica.world import World

GROUP = "broker-a"
IDENTITY = "6f757273"
"""Identity of the group from its first election on."""
ANSWER_MS = 2_000


class Service:
    """One controller that is always right, and sometimes not there."""

    def __init__(self, world: World) -> None:
        self.groups = StoreGroups()
        self.up = True
        self.leaders: dict[int, int] = {}
        self._world = world
        self._heartbeats = Heartbeats(0)
        self.grey: GreyMoves | None = None
        self._elect()

    @property
    def leads(self) -> bool:
        """ControllerMember.leads."""
        return self.up

    def change(self, change: GroupChange, done: Callable[[GroupAnswer | None], None]) -> None:
        """ControllerMember.change."""
        done(self.apply(change))

    def judge(self, judge: ReplicaJudge, record: FiguresRecord) -> GreyMoves:
        """From now on look at the figures of replicas."""
        self.grey = GreyMoves(cast(Any, self), self._heartbeats, self._world.clock, judge, record)
        self.grey.start()
        return self.grey

    def now_ms(self) -> int:
        """Virtual milliseconds."""
        return self._world.clock.monotonic_ns() // MILLISECOND_NS

    def group(self) -> StoreGroup | None:
        """The group as it is."""
        return self.groups.group(GROUP)

    def words(self, group: StoreGroup) -> tuple[ReplicaHeard, ...]:
        """The last heartbeats of the replicas."""
        return self._heartbeats.words(group, self.now_ms())

    def heard(self, word: ReplicaWord, token: object) -> None:
        """A heartbeat."""
        if self.grey is not None and word.figures is not None:
            self.grey.heard(GROUP, word.report.id, word.figures)
        self._heartbeats.heard(GROUP, word, 2_500, token, self.now_ms())
        if word.parted:
            self._world.clock.call_soon(self._poll)

    def closed(self, token: object) -> None:
        """A life has ended."""
        self._heartbeats.closed(token, self.now_ms())
        self._world.clock.call_soon(self._poll)

    def apply(self, change: GroupChange) -> GroupAnswer:
        """Make a change, as the controller that leads does."""
        refusal = refused(change, self.group(), self._heartbeats, self.now_ms())
        if refusal is not None:
            return GroupAnswer(refusal, self.group())
        change = informed(change, self.group(), self._heartbeats, self.now_ms())
        if isinstance(change, ElectLeader):
            change = replace(change, fresh=IDENTITY)
        if self.grey is not None and isinstance(change, ElectLeader):
            change = self.grey.preferring(change)
        answer = self.groups.apply(change)
        group = answer.group
        if group is not None and group.leader and group.leader_epoch not in self.leaders:
            self.leaders[group.leader_epoch] = group.leader
        if group is not None and group.leader:
            assert self.leaders[group.leader_epoch] == group.leader, "two leaders in one epoch"
        if answer.refusal is None and group is not None:
            if isinstance(change, ElectLeader):
                for replica in self._world.replicas.values():
                    replica.controllers.notified(group)
            elif not group.leader:
                self._world.clock.call_soon(self._poll)
        return answer

    def _elect(self) -> None:
        self._world.clock.call_at(self._world.clock.monotonic_ns() + 500 * MILLISECOND_NS, self._elect)
        self._poll()

    def _poll(self) -> None:
        if self.up:
            for group in self._heartbeats.due(list(self.groups), self.now_ms()):
                self.apply(ElectLeader(group.name, leader_epoch=group.leader_epoch))


class SimControllers:
    """`gateway.cluster.replica.controllers.GroupControllers` of one life of a replica."""

    silence = "no controller answers"

    def __init__(self, world: World, clock: PausableClock, number: int) -> None:
        self._listener: GroupListener
        self.refuses = self.identity = ""
        self.where = "10.0.0.0:9878"
        self._run = ""
        self._parted = 0
        self.newest = GroupWord(clock.monotonic_ns(), ())
        self._world = world
        self._clock = clock
        self._number = number
        self._begun = False
        self._closed = False

    def attach(self, listener: GroupListener) -> None:
        """GroupControllers.attach."""
        self._listener = listener

    def begin(self, address: str) -> None:
        """GroupControllers.begin."""
        self._begun = True
        self._beat()
        self._poll()

    def part(self, leader: int) -> None:
        """GroupControllers.part."""
        self._parted = leader
        if leader and self._begun:
            self._say()

    def _say(self) -> None:
        if self._reaches:
            self._world.service.heard(self._listener.word()._replace(run=self._run, parted=self._parted), self)

    def close(self) -> None:
        """GroupControllers.close."""
        self._closed = True
        self._world.service.closed(self)

    @property
    def _reaches(self) -> bool:
        return self._world.service.up and frozenset((0, self._number)) not in self._world.parted

    def _after(self, wait_ns: int, step: Callable[[], None]) -> None:
        self._clock.call_at(self._clock.monotonic_ns() + wait_ns, step)

    def _beat(self) -> None:
        if not self._closed:
            self._after(250 * MILLISECOND_NS, self._beat)
            self._say()

    def _poll(self) -> None:
        if not self._closed:
            self._after(1_000 * MILLISECOND_NS, self._poll)
            self.ask(lambda group, _known: None if group is None else self._listener.changed(group))

    def notified(self, group: StoreGroup) -> None:
        """A controller tells of a new leader; it may be lost."""
        if self._reaches and not self._world.loses():
            self._after(self._world.delay_ns(), lambda: None if self._closed else self._listener.changed(group))

    def ask(self, done: Callable[[StoreGroup | None, bool], None]) -> None:
        """GroupControllers.ask."""
        if not self._reaches or self._world.loses():
            self._after(ANSWER_MS * MILLISECOND_NS, lambda: done(None, False))
            return
        world, asked_ns = self._world, self._clock.monotonic_ns()

        def read() -> None:
            group, grey = world.service.group(), world.service.grey
            self.newest = GroupWord(asked_ns, () if group is None else world.service.words(group))
            if grey is not None and group is not None:
                slow = [each.id for each in group.replicas if grey.standing(GROUP, each.id).fitness is Fitness.SLOW]
                self._after(world.delay_ns(), lambda: self._listener.slow(frozenset(slow)))
            self._after(world.delay_ns(), lambda: done(group, True))

        world.clock.call_at(world.clock.monotonic_ns() + world.delay_ns(), read)

    def change(self, change: GroupChange, done: Callable[[GroupAnswer | None], None]) -> None:
        """GroupControllers.change: a question that is lost or late is not known to be made."""
        world = self._world
        if isinstance(change, RegisterReplica):
            self._run = change.run
        if not self._reaches or world.loses():
            self._after(ANSWER_MS * MILLISECOND_NS, lambda: done(None))
            return
        late = world.faulty and world.chance.random() < 0.1
        wait_ns = world.chance.randrange(4_000) * MILLISECOND_NS if late else world.delay_ns()
        answered: list[int] = []

        def give(answer: GroupAnswer | None) -> None:
            if not answered:
                answered.append(1)
                done(answer)

        def make() -> None:
            if world.faulty and isinstance(change, AlterSet):
                world.tempt(change)
            answer = world.service.apply(change)
            if not world.loses():
                self._after(world.delay_ns(), lambda: give(answer))

        world.clock.call_at(world.clock.monotonic_ns() + wait_ns, make)
        self._after(ANSWER_MS * MILLISECOND_NS, lambda: give(None))
