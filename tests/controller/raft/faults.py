"""What happens to a group: crashes, pauses, partitions, bad weather, changes of members, snapshots, transfers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from controller.raft.configuration import Configuration
from controller.raft.persisted import Persisted
from controller.raft.raft import Raft
from tests.controller.raft.world import Fate, World
from tests.simulation.kit.network import Weather, between

NODES_MAX = 7
"""Nodes of one world, those that left the group too."""


class Faults:
    """Decides every few steps what goes wrong, until `end`."""

    def __init__(self, world: World, fate: Fate = Fate.ANY) -> None:
        """`fate`: what happens most."""
        self._world = world
        self._ended = False
        self._whole_until = 0
        lot = world.lot
        # Each seed has faults of its own that are frequent, and others that it does not have.
        choices: list[Callable[[], None]] = [
            self._crash, self._crash, self._crash_leader, self._crash_all, self._pause, self._cut_one, self._cut_leader,
            self._cut_leader, self._cut_halves, self._cut_one_way, self._change_weather, self._change_members,
            self._change_members, self._change_members, self._transfer, self._compact, self._compact, self._campaign,
            self._damage,
        ]  # fmt: skip
        self._choices = [each for each in choices if lot.random() < 0.7] or choices
        if fate is Fate.LEADERS_DIE:
            self._choices = [self._crash_leader, self._campaign]
            world.net.weather, world.slow = Weather(late=0.1), 0.3
        elif fate is Fate.LEADERS_PART:
            self._choices = [self._part_leader, self._part_leader, self._cut_leader, self._pause]
        elif fate is Fate.LEADERS_CUT:
            self._choices = [self._cut_leader, self._transfer]
        elif fate is Fate.MEMBERS_CHANGE:
            self._choices = [self._change_members] * 3 + [self._cut_leader, self._cut_halves, self._crash_leader, self._damage]
        self._pace = 15 if fate in (Fate.LEADERS_DIE, Fate.MEMBERS_CHANGE) else lot.choice((30, 60, 120))
        self._next()

    def end(self) -> None:
        """Everything works from now on: nodes are up, the network carries all, nobody changes anything."""
        world = self._world
        self._ended = True
        world.net.blocked = set()
        world.net.weather, world.slow = Weather(), 0.0
        for node, seat in world.seats.items():
            seat.paused = 0
            if seat.member is None:
                world.start(node)

    def _next(self) -> None:
        if not self._ended:
            self._world.lot.choice(self._choices)()
            self._world.after(self._world.lot.randint(1, 2 * self._pace), self._next)

    def _crash(self) -> None:
        self._stop(self._world.lot.choice(sorted(self._world.seats)))

    def _crash_leader(self) -> None:
        leader = self._world.leader()
        if leader is not None:
            self._stop(leader.node)

    def _part_leader(self) -> None:
        leader = self._world.leader()
        if leader is not None:
            if self._world.lot.random() < 0.7:
                self._stop(leader.node)
            self._world.part(leader.node)

    def _crash_all(self) -> None:
        if self._world.lot.random() < 0.3:
            for node in sorted(self._world.seats):
                self._stop(node)

    def _stop(self, node: int, damaged: bool = False) -> None:
        world = self._world
        if world.seats[node].member is not None:
            world.crash(node, damaged)
            world.after(world.lot.choice((1, 10, 50, 200)), partial(self._start, node))

    def _start(self, node: int) -> None:
        if self._world.seats[node].member is None:
            self._world.start(node)

    def _damage(self) -> None:
        """One node of a world, at most: two of three would be the end of the group, and rightly."""
        world = self._world
        if world.lot.random() < 0.2 and not any(seat.is_damaged for seat in world.seats.values()):
            leader = world.leader()
            voters = leader.replica.configuration if leader is not None else Configuration()
            if len(voters.voters) >= 3 and not voters.is_joint:
                self._stop(world.lot.choice(sorted(voters.voters)), damaged=True)

    def _pause(self) -> None:
        world = self._world
        node = world.lot.choice(sorted(world.seats))
        world.seats[node].paused = world.now + world.lot.choice((20, 100, 200))
        world.say(f"{node} pauses until {world.seats[node].paused}")

    def _cut_one(self) -> None:
        self._cut({self._world.lot.choice(sorted(self._world.seats))})

    def _cut_leader(self) -> None:
        leader = self._world.leader()
        if leader is not None:
            self._cut({leader.node})

    def _cut_halves(self) -> None:
        self._cut({node for node in sorted(self._world.seats) if self._world.lot.random() < 0.5})

    def _cut(self, side: set[int]) -> None:
        """Cut the network in two."""
        self._block(between(side, self._world.seats.keys() - side))

    def _cut_one_way(self) -> None:
        nodes, lot = sorted(self._world.seats), self._world.lot
        self._block({(lot.choice(nodes), lot.choice(nodes)) for _ in range(3)})

    def _block(self, blocked: set[tuple[int, int]]) -> None:
        """One cut at a time, long enough for another leader, or not; then time for the group to come together."""
        world = self._world
        if world.now >= self._whole_until:
            steps = world.lot.choice((50, 150, 300))
            self._whole_until = world.now + steps + world.lot.choice((50, 200))
            world.net.blocked = blocked
            world.say(f"cut for {steps} steps: {sorted(blocked)}")
            world.after(steps, blocked.clear)

    def _change_weather(self) -> None:
        lot = self._world.lot
        bad = Weather(lot.choice((0, 0.05, 0.2)), lot.choice((0, 0.1)), lot.choice((0, 0.05, 0.2)))
        slow = lot.choice((0, 0.1, 0.3))
        world = self._world
        world.net.weather, world.slow = lot.choice(((Weather(), 0.0), (bad, slow)))
        world.say(f"{world.net.weather}, slow syncs {world.slow}")

    def _campaign(self) -> None:
        """A node's patience ends early."""
        running = [member.raft.node for member in self._world.running()]
        if running:
            self._world.touch(self._world.lot.choice(running), Raft.campaign)

    def _transfer(self) -> None:
        leader = self._world.leader()
        if leader is not None:
            to = self._world.lot.choice(leader.replica.configuration.nodes)
            self._world.touch(leader.node, lambda raft: raft.transfer(to))

    def _compact(self) -> None:
        running = [member for member in self._world.running() if member.ready is None and member.applied]
        if running:
            member = self._world.lot.choice(running)
            self._world.touch(member.raft.node, lambda raft: raft.compact(member.applied, member.snapshot()))

    def _change_members(self) -> None:
        """Ask a leader, not always the newest, for other members: three voters at least, and none that is damaged."""
        world, lot = self._world, self._world.lot
        leaders = [member.raft for member in world.running() if member.raft.replica.leader == member.raft.node]
        if not leaders:
            return
        leader = lot.choice(leaders)
        usable = [node for node, seat in sorted(world.seats.items()) if not seat.is_damaged]
        if len(world.seats) < NODES_MAX and lot.random() < 0.4:
            node = max(world.seats) + 1
            world.add(node, Persisted())
            usable.append(node)
        now = leader.replica.configuration
        learners = {node for node in usable if node not in now.voters and lot.random() < 0.6}
        voters = {node for node in now.voters if node in usable}
        if lot.random() < 0.6:
            known = sorted(node for node in {*now.voters, *now.learners} if node in usable)
            voters = set(lot.sample(known, min(len(known), lot.choice((3, 3, 4, 5)))))
        if len(voters) >= 3:
            world.say(f"{leader.node} is asked for voters {sorted(voters)}, learners {sorted(learners - voters)}")
            world.touch(leader.node, lambda raft: raft.change(frozenset(voters), frozenset(learners - voters)))
