"""Clients of a group: each writes or reads, one thing at a time, at the node that it takes for the leader."""

from __future__ import annotations

from functools import partial

from controller.raft.entry import LogEntry
from controller.raft.raft import Raft
from controller.raft.ready import ReadConfirmed
from controller.raft.refusal import RaftRefusal
from tests.controller.raft.member import Member
from tests.controller.raft.world import World

PATIENCE_STEPS = 400


class Clients:
    """All clients of one world.

    done   operations that were answered
    """

    def __init__(self, world: World, count: int) -> None:
        self._world = world
        self._number = 0
        self._floors: dict[int, int] = {}
        self._writes: dict[tuple[int, int, int], int] = {}
        self._reads: dict[int, int] = {}
        self._waiting: dict[int, int] = {}
        self.done = 0
        world.on_apply = self._applied
        world.on_reads = self._answered
        for client in range(count):
            self._begin(client)

    def _begin(self, client: int) -> None:
        """Begin an operation; what was seen by now is what it must see."""
        self._number += 1
        self._waiting[client] = self._number
        self._floors[self._number] = self._world.checker.floor
        self._try(client, self._number)
        self._world.after(PATIENCE_STEPS, partial(self._give_up, client, self._number))

    def _try(self, client: int, number: int) -> None:
        """Ask a node; another one a little later when it refuses."""
        world = self._world
        if self._waiting[client] != number:
            return
        running = [member.raft for member in world.running()]
        leaders = [raft for raft in running if raft.replica.leader == raft.node]
        candidates = leaders if leaders and world.lot.random() < 0.9 else running
        if candidates:
            raft = world.lot.choice(candidates)
            # A node that pauses handles the request when it goes on, before it has heard what happened meanwhile.
            world.after(max(0, world.seats[raft.node].paused - world.now), partial(self._ask, raft, client, number))
        else:
            world.after(world.lot.randint(5, 40), partial(self._try, client, number))

    def _ask(self, raft: Raft, client: int, number: int) -> None:
        world, refused = self._world, False
        member = world.seats[raft.node].member
        if member is None or member.raft is not raft:
            return  # it has stopped: the client waits in vain

        def ask(raft: Raft) -> None:
            nonlocal refused
            if number % 3:
                entry = raft.propose(b"%d-%d" % (client, number))
                refused = isinstance(entry, RaftRefusal)
                if isinstance(entry, LogEntry):
                    self._writes[raft.node, entry.term, entry.index] = number
            else:
                refused = raft.read(number) is not None
                self._reads[number] = client

        world.touch(raft.node, ask)
        if refused:
            world.after(world.lot.randint(5, 40), partial(self._try, client, number))

    def _give_up(self, client: int, number: int) -> None:
        """Whether the operation will have an effect is not known; go on with another."""
        if self._waiting[client] == number:
            self._begin(client)

    def _applied(self, node: int, entry: LogEntry) -> None:
        number = self._writes.pop((node, entry.term, entry.index), 0)
        if number:
            self._world.checker.wrote(entry.index, self._floors[number])
            self._finished(int(entry.data.partition(b"-")[0]), number)

    def _answered(self, member: Member, reads: tuple[ReadConfirmed, ...], lost: tuple[int, ...]) -> None:
        for read in reads:
            self._world.checker.read(member.applied, member.state, self._floors[read.ticket])
            self._finished(self._reads[read.ticket], read.ticket)
        for number in lost:
            client = self._reads[number]
            self._world.after(self._world.lot.randint(5, 40), partial(self._try, client, number))

    def _finished(self, client: int, number: int) -> None:
        self.done += 1
        if self._waiting[client] == number:
            self._waiting[client] = 0
            self._world.after(self._world.lot.randint(1, 30), partial(self._begin, client))
