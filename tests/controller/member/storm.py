"""Three controllers under a seed: kills, restarts, partitions, lost, late and repeated messages, while brokers ask for changes.

Raft, its storage, the store groups and their elections are the real ones; clock, network and disk are those of the stage.
What is checked: nothing that was answered is lost, a leader epoch of a store group has one leader, a term has one leading
controller, all members apply the same, and reads see what was answered before them.
"""

from __future__ import annotations

from functools import partial

from controller.groups.groups import StoreGroups
from controller.groups.snapshot import snapshot
from controller.member.member import ControllerMember
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import AlterSet, ApplyId, ElectLeader, GroupChange, RegisterReplica
from tests.controller.groups.sample import CLUSTER, NAME, incarnation, says
from tests.controller.groups.sample import members as in_sync
from tests.controller.member.stage import Node, Stage
from tests.simulation.kit.network import Weather

REPLICAS = (1, 2, 3)
ENTRIES_KEPT = 16
"""Entries between two snapshots: few, so that members often come back by one."""


class Storm(Stage):
    """One run: `blow` lets it storm, `calm` ends the faults and checks that all agree.

    promised    groups whose creation was answered
    led         (store group, leader epoch) -> leader
    terms       term -> the controller that led in it
    """

    def __init__(self, seed: int) -> None:
        self.led: dict[tuple[str, int], int] = {}
        self.terms: dict[int, int] = {}
        self.promised: set[str] = set()
        self.answers = self.reads = self.unknown = self.made = self.restarts = self.failovers = 0
        self.silent: set[int] = set()
        super().__init__(seed=seed, entries_kept=ENTRIES_KEPT)

    def applied(self, number: int, change: GroupChange, answer: GroupAnswer) -> None:
        group = answer.group
        if group is not None and group.leader:
            before = self.led.setdefault((group.name, group.leader_epoch), group.leader)
            assert before == group.leader, f"{before} and {group.leader} lead {group.name} in epoch {group.leader_epoch}"
            if group.leader_epoch > 1 and isinstance(change, ElectLeader) and answer.refusal is None:
                self.failovers += 1

    def up(self) -> list[Node]:
        """The controllers that run."""
        return [node for node in self.nodes.values() if node.member is not None]

    def check(self) -> None:
        """One controller leads in a term."""
        for node in self.up():
            assert node.member is not None
            assert not node.member.failure, node.member.failure
            if node.member.leads:
                assert self.terms.setdefault(node.member.term, node.number) == node.number, f"term {node.member.term}"

    def blow(self, steps: int) -> None:
        """Let it storm."""
        self.net.weather = Weather(lost=0.12, doubled=0.12, late=0.1)
        for _ in range(steps):
            self.clock.run_for(self.random.choice((10, 50, 200, 700)))
            self.check()
            choice = self.random.randrange(100)
            self.hear(*(says(each) for each in REPLICAS if each not in self.silent))
            if choice < 80:
                self.ask_somebody()
            elif choice < 88:
                self.silent = set(self.random.sample(REPLICAS, self.random.randrange(3)))
            else:
                self.disturb()

    def disturb(self) -> None:
        """A fault, or the end of one."""
        node = self.random.choice(list(self.nodes.values()))
        choice = self.random.randrange(8)
        if choice == 0 and node.member is not None:
            node.kill()
        elif choice in (1, 2):
            down = [each for each in self.nodes.values() if each.member is None]
            for each in down[: self.random.randrange(1, 4)]:
                self.begin(each)
        elif choice == 3:
            self.isolate(node.number)
        elif choice == 4:
            self.net.blocked.add((node.number, self.random.choice(self.numbers)))
        else:
            self.net.blocked.clear()

    def begin(self, node: Node) -> None:
        """Start a controller again."""
        self.restarts += 1
        node.start()

    def ask_somebody(self) -> None:
        """A broker asks a controller for something; which one leads it may not know."""
        if not self.up():
            return
        leading = [each for each in self.up() if each.member is not None and each.member.leads]
        member = self.random.choice(leading if leading and self.random.random() < 0.8 else self.up()).member
        assert member is not None
        choice = self.random.randrange(10)
        if choice < 4:
            self.made += 1
            name = f"g{self.made}"
            member.change(ApplyId(name, CLUSTER, 1, f"node-{self.made}", "h:1"), partial(self.created, name))
        elif choice < 7:
            member.read(partial(self.read, member, frozenset(self.promised)))
        else:
            member.change(self.change_of(member), self.answered)

    def change_of(self, member: ControllerMember) -> GroupChange:
        """A change of the group that has replicas, by what this member knows of it."""
        group = member.groups.group(NAME)
        if group is None or len(group.replicas) < len(REPLICAS):
            number = member.groups.next_id(NAME)
            return ApplyId(NAME, CLUSTER, number, f"node-{number}", f"h{number}:1")
        missing = [each.id for each in group.replicas if not each.incarnation]
        if missing or self.random.random() < 0.1:
            number = (missing or self.random.choices(REPLICAS))[0]
            return RegisterReplica(NAME, CLUSTER, number, f"h{number}:1", incarnation(number))
        if not group.members:
            return ElectLeader(NAME, asker=self.random.choice(REPLICAS))
        wanted = {group.leader, *self.random.sample(REPLICAS, 2)} - {0}
        return AlterSet(NAME, group.leader, group.leader_epoch, group.set_epoch, in_sync(*sorted(wanted)))

    def created(self, name: str, answer: GroupAnswer | None) -> None:
        self.answered(answer)
        if answer is not None and answer.refusal is None:
            self.promised.add(name)

    def answered(self, answer: GroupAnswer | None) -> None:
        self.unknown += answer is None
        self.answers += answer is not None and answer.refusal is not GroupRefusal.NOT_LEADING

    def read(self, member: ControllerMember, promised: frozenset[str], refusal: GroupRefusal | None) -> None:
        if refusal is None:
            self.reads += 1
            self.holds(member.groups, promised)

    def holds(self, groups: StoreGroups, promised: frozenset[str]) -> None:
        """All that was answered is there."""
        lost = {name for name in promised if groups.group(name) is None}
        assert not lost, f"lost: {sorted(lost)}"

    def calm(self) -> None:
        """The faults end: within a bounded time a change is answered, and all members have the same state."""
        self.net.weather = Weather()
        self.net.blocked.clear()
        self.clock.run_for(1_000)
        for node in self.nodes.values():
            if node.member is None:
                self.begin(node)
        self.clock.run_for(5_000)
        assert self.change(ApplyId("last", CLUSTER, 1, "node", "h:1")).refusal is None
        self.clock.run_for(2_000)
        self.check()
        found = [node.member.groups for node in self.nodes.values() if node.member is not None]
        assert len({snapshot(each) for each in found}) == 1, "the members differ"
        self.holds(found[0], frozenset(self.promised))


def storm(seed: int, steps: int = 120) -> Storm:
    """A run under a seed. AssertionError when something does not hold."""
    run = Storm(seed)
    run.blow(steps)
    run.calm()
    return run
