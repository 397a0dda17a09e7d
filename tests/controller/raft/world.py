"""A group in one process under a seed: virtual time, and a network, disks and clocks that fail.

Time is counted in steps; a node's tick takes 8 to 12 of them, by its own clock.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
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

TICK_STEPS = 10
SETTINGS = (
    RaftSettings(election_ticks=6, heartbeat_ticks=2, append_bytes_max=1, inflight_messages_max=2),
    RaftSettings(election_ticks=6, heartbeat_ticks=1, append_bytes_max=100, inflight_messages_max=4),
    RaftSettings(election_ticks=6, heartbeat_ticks=2, append_bytes_max=10_000, inflight_bytes_max=500),
)


@dataclass
class Weather:
    """How bad the network and the disks are.

    lost      chance that a message is lost
    doubled   chance that it arrives twice
    late      chance that it takes up to 300 steps, so that others overtake it; else 1 to 5
    slow      chance that a sync takes up to 60 steps; else 0 to 3
    """

    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    slow: float = 0.0


class Fate(Enum):
    """What happens to a group most."""

    ANY = "anything"
    LEADERS_DIE = "leaders stop soon after their election, and come back; each message has one entry"
    LEADERS_CUT = "leaders are cut off, and some believe for long that they lead"
    MEMBERS_CHANGE = "members change while leaders stop and the network is cut"


class Chance:
    """The `Entropy` port under the seed."""

    def __init__(self, lot: random.Random) -> None:
        self._lot = lot

    def random(self) -> float:
        """0 <= x < 1."""
        return self._lot.random()

    def token(self, size: int) -> bytes:
        """`size` bytes."""
        return self._lot.randbytes(size)


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
    now        the step
    seats      node -> its seat
    blocked    (sender, to) of messages that do not arrive
    weather    how bad it is now
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
        self.now = 0
        self.seats: dict[int, Seat] = {}
        self.blocked: set[tuple[int, int]] = set()
        self.weather = Weather()
        self.trace = trace
        first = frozenset(range(1, voters + 1))
        self.checker = Checker(first)
        self.on_apply: Callable[[int, LogEntry], None] = lambda node, entry: None
        self.on_reads: Callable[[Member, tuple[ReadConfirmed, ...], tuple[int, ...]], None] = lambda *_: None
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        for node in sorted(first):
            self.add(node, founder(first))

    def say(self, line: str) -> None:
        """One line of the trace."""
        if self.trace is not None:
            self.trace(f"{self.now:5} {line}")

    def after(self, steps: int, call: Callable[[], None]) -> None:
        """Call `call` so many steps from now."""
        self._count += 1
        heapq.heappush(self._due, (self.now + steps, self._count, call))

    def run(self, until: int) -> None:
        """Let the time pass."""
        while self._due and self._due[0][0] <= until:
            self.now, _, call = heapq.heappop(self._due)
            call()
        self.now = until

    def running(self) -> list[Member]:
        """The members that are up, damaged ones too."""
        return [seat.member for seat in self.seats.values() if seat.member is not None]

    def leader(self) -> Raft | None:
        """The leader of the highest term, as an onlooker sees it."""
        leaders = [member.raft for member in self.running() if member.raft.role is RaftRole.LEADER]
        return max(leaders, key=lambda raft: raft.term, default=None)

    def add(self, node: int, persisted: Persisted) -> None:
        """A node is set up."""
        self.seats[node] = Seat(MemoryStorage(persisted), TICK_STEPS + self.lot.randint(-2, 2))
        self.start(node)

    def start(self, node: int) -> None:
        """Start a node that is down."""
        seat = self.seats[node]
        seat.life += 1
        settings = replace(self._settings, election_ticks=self._election_ticks[node % len(self._election_ticks)])
        member = Member(node, settings, seat.storage, Chance(self.lot), self._applied)
        seat.member = member
        self.say(f"{node} starts at term {member.raft.term}, last {member.raft.last}, snapshot {member.applied}")
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
            steps = self.lot.randint(0, 60) if self.lot.random() < self.weather.slow else self.lot.randint(0, 3)
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
        lot, weather = self.lot, self.weather
        self.checker.sends(message)
        if lot.random() < weather.lost:
            return
        for _ in range(2 if lot.random() < weather.doubled else 1):
            steps = lot.randint(1, 300) if lot.random() < weather.late else lot.randint(1, 5)
            self.after(steps, partial(self._deliver, message))

    def _deliver(self, message: RaftMessage) -> None:
        seat = self.seats.get(message.to)
        if seat is None or seat.member is None or (message.sender, message.to) in self.blocked:
            return
        if seat.paused > self.now:
            self.after(seat.paused - self.now + self.lot.randint(0, 5), partial(self._deliver, message))
            return
        if self.trace is not None:
            self.say(f"   {wording.message(message)}")
        self.touch(message.to, lambda raft: raft.receive(message))

    def _applied(self, node: int, entry: LogEntry) -> None:
        member = self.seats[node].member
        assert member is not None
        self.checker.applies(member.raft, entry)
        self.on_apply(node, entry)
