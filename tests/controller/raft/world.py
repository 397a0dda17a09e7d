"""A group in one process under a seed: virtual time, and a network, disks and clocks that fail.

Time is counted in steps; a node's tick takes 8 to 12 of them, by its own clock.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from functools import partial

from controller.raft.entry import LogEntry
from controller.raft.message import RaftMessage
from controller.raft.persisted import Persisted, founder
from controller.raft.raft import Raft
from controller.raft.ready import ReadConfirmed
from controller.raft.replica import RaftRole
from controller.raft.settings import RaftSettings
from tests.controller.raft import wording
from tests.controller.raft.checker import Checker
from tests.controller.raft.member import Member
from tests.controller.raft.memory_storage import MemoryStorage
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.entropy import SeededEntropy
from tests.simulation.kit.network import Messages

TICK_STEPS = 10
SETTINGS = (
    RaftSettings(election_ticks=6, heartbeat_ticks=2, append_bytes_max=1, inflight_messages_max=2),
    RaftSettings(election_ticks=6, heartbeat_ticks=1, append_bytes_max=100, inflight_messages_max=4),
    RaftSettings(election_ticks=6, heartbeat_ticks=2, append_bytes_max=10_000, inflight_bytes_max=500),
)


class Fate(Enum):
    """What happens to a group most."""

    ANY = "anything"
    LEADERS_DIE = "leaders stop soon after their election, and come back; each message has one entry"
    LEADERS_PART = "connections of leaders end: of those that stop, and of others, which go on"
    LEADERS_CUT = "leaders are cut off, and some believe for long that they lead"
    MEMBERS_CHANGE = "members change while leaders stop and the network is cut"


class Seat:
    """One node and its storage, running or not.

    member   None while it is down
    life     counts its starts: what was under way in an earlier life has no effect
    paused   it does nothing until this step
    drift    steps of its tick
    """

    def __init__(self, storage: MemoryStorage, drift: int) -> None:
        self.storage = storage
        self.drift = drift
        self.member: Member | None = None
        self.life = 0
        self.paused = 0

    @property
    def is_damaged(self) -> bool:
        """True when what it has persisted is damaged."""
        return bool(self.storage.durable.damage)


class World:
    """All nodes, the network, and the time.

    lot        the seed's
    seats      node -> its seat
    net        carries the messages
    slow       chance that a sync takes up to 60 steps; else 0 to 3
    on_apply   told of (node, entry) after the checker
    on_reads   told of (member, reads, lost reads)
    trace      told of each line of what happens, None for nobody
    """

    def __init__(self, seed: int, voters: int, trace: Callable[[str], None] | None = None, fate: Fate = Fate.ANY) -> None:
        self.lot = random.Random(seed)
        self._settings = self.lot.choice(SETTINGS)
        self._election_ticks = self.lot.choice(((6,), (4, 6, 15)))
        if fate is Fate.LEADERS_DIE:
            self._settings, self._election_ticks = SETTINGS[0], (3,)
        elif fate is Fate.LEADERS_CUT:
            self._election_ticks = (4, 6, 15)
        self._clock = VirtualClock()
        self.seats: dict[int, Seat] = {}
        self.net: Messages[RaftMessage] = Messages(self.lot, self.after, self._deliver)
        self.slow = 0.0
        self.trace = trace
        first = frozenset(range(1, voters + 1))
        self.checker = Checker(first)
        self.on_apply: Callable[[int, LogEntry], None] = lambda node, entry: None
        self.on_reads: Callable[[Member, tuple[ReadConfirmed, ...], tuple[int, ...]], None] = lambda *_: None
        for node in sorted(first):
            self.add(node, founder(first))

    def say(self, line: str) -> None:
        """One line of the trace."""
        if self.trace is not None:
            self.trace(f"{self.now:5} {line}")

    @property
    def now(self) -> int:
        """The step: a nanosecond of the clock."""
        return self._clock.now_ns

    def after(self, steps: int, call: Callable[[], None]) -> None:
        """Call `call` so many steps from now."""
        self._clock.call_at(self._clock.now_ns + steps, call)

    def run(self, until: int) -> None:
        """Let the time pass."""
        self._clock.run_ns(until - self.now)

    def running(self) -> list[Member]:
        """The members that are up, damaged ones too."""
        return [seat.member for seat in self.seats.values() if seat.member is not None]

    def leader(self) -> Raft | None:
        """The leader of the highest term, as an onlooker sees it."""
        leaders = [member.raft for member in self.running() if member.raft.replica.role is RaftRole.LEADER]
        return max(leaders, key=lambda raft: raft.replica.term, default=None)

    def add(self, node: int, persisted: Persisted) -> None:
        """A node is set up."""
        self.seats[node] = Seat(MemoryStorage(persisted), TICK_STEPS + self.lot.randint(-2, 2))
        self.start(node)

    def start(self, node: int) -> None:
        """Start a node that is down."""
        seat = self.seats[node]
        seat.life += 1
        settings = replace(self._settings, election_ticks=self._election_ticks[node % len(self._election_ticks)])
        member = Member(node, settings, seat.storage, SeededEntropy(self.lot), self._applied)
        seat.member = member
        self.say(
            f"{node} starts at term {member.raft.replica.term}, last {member.raft.replica.log.last}, snapshot {member.applied}"
        )
        self.after(self.lot.randint(1, TICK_STEPS), partial(self._tick, node, seat.life))

    def crash(self, node: int, damaged: bool = False) -> None:
        """Stop a node. What it has not synced is lost, from some write on; `damaged`: it forgets all, and knows that."""
        seat = self.seats[node]
        if seat.member is None:
            return
        kept = self.lot.randint(0, len(seat.storage.pending))
        self.say(f"{node} crashes, {len(seat.storage.pending)} writes not synced, {kept} kept")
        seat.storage.crash(kept)
        seat.member = None
        if damaged:
            self.say(f"{node} is damaged")
            seat.storage.durable = Persisted(damage="the log is damaged")

    def part(self, node: int) -> None:
        """The connections of a node end, and the others get to know it."""
        self.say(f"the connections of {node} end")
        for each in sorted(self.seats):
            if each != node:
                self.touch(each, lambda raft: raft.parted(node))

    def touch(self, node: int, call: Callable[[Raft], object]) -> None:
        """Hand something to a node that is up, and see to what comes out."""
        member = self.seats[node].member
        if member is not None:
            call(member.raft)
            self.checker.stepped(member.raft)
            self._pump(node)

    def _tick(self, node: int, life: int) -> None:
        seat = self.seats[node]
        if seat.life != life or seat.member is None:
            return
        if seat.paused > self.now:
            self.after(seat.paused - self.now, partial(self._tick, node, life))
            return
        self.touch(node, Raft.tick)
        self.after(seat.drift, partial(self._tick, node, life))

    def _pump(self, node: int) -> None:
        seat = self.seats[node]
        assert seat.member is not None
        ready = seat.member.begin()
        if ready is None:
            return
        if self.trace is not None:
            for line in wording.ready(ready):
                self.say(f"{node}: {line}")
        self.checker.persists(seat.member.raft, ready)
        steps = 0
        if ready.must_sync:
            steps = self.lot.randint(0, 60) if self.lot.random() < self.slow else self.lot.randint(0, 3)
        self.after(steps, partial(self._finish, node, seat.life))

    def _finish(self, node: int, life: int) -> None:
        seat = self.seats[node]
        member = seat.member
        if seat.life != life or member is None:
            return
        if seat.paused > self.now:
            self.after(seat.paused - self.now, partial(self._finish, node, life))
            return
        messages, reads, lost = member.finish()
        self.checker.stepped(member.raft)
        for message in messages:
            self._send(message)
        self.on_reads(member, reads, lost)
        self._pump(node)

    def _send(self, message: RaftMessage) -> None:
        self.checker.sends(message)
        self.net.send(message.sender, message.to, message)

    def _deliver(self, to: int, message: RaftMessage) -> None:
        seat = self.seats.get(to)
        if seat is None or seat.member is None:
            return
        if seat.paused > self.now:
            again = partial(self.net.arrive, message.sender, to, message)
            self.after(seat.paused - self.now + self.lot.randint(0, 5), again)
            return
        if self.trace is not None:
            self.say(f"   {wording.message(message)}")
        self.touch(to, lambda raft: raft.receive(message))

    def _applied(self, node: int, entry: LogEntry) -> None:
        member = self.seats[node].member
        assert member is not None
        self.checker.applies(member.raft, entry)
        self.on_apply(node, entry)
