"""A group that a script moves step by step: nothing happens that the script does not say.

group 1 2 3                    the first voters, as running nodes
join 4                         a node that nobody knows yet
tick N [COUNT]                 hand ticks to a node
campaign N                     its patience ends
propose N TEXT                 propose a command
read N TICKET                  ask for a read
change N 1 2 3 [learners 4]    change the members
transfer N TO                  hand the leadership over
compact N INDEX                put a snapshot in place of the log up to INDEX
take N                         take a Ready and write it, without a sync
finish N                       sync, send, apply: the rest of the Ready that `take` began
ready N                        both
deliver N [FROM]               hand a node the messages that wait for it, of all or of one sender
round A B [COUNT]              A's Ready goes to B, and B's to A
again A B                      hand B once more all messages that A has ever sent to it
drop N [FROM]                  lose the messages that wait for a node
cut N ...                      lose what these nodes send to the others, and what others send to them, until `heal`
heal                           end of `cut`
crash N [KEPT]                 stop a node; of its writes that were not synced the first KEPT are durable
damage N                       what a stopped node has persisted is damaged
start N                        start a stopped node
stabilize [N ...]              take and deliver among these nodes, or all, until nothing is left to do
quiet COMMAND                  do it and show nothing
status                         one line for each node
log N                          the entries of a node
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.raft.entry import LogEntry
from controller.raft.message import RaftMessage
from controller.raft.persisted import Persisted, founder
from controller.raft.refusal import RaftRefusal
from controller.raft.settings import RaftSettings
from tests.controller.raft import wording
from tests.controller.raft.member import Member
from tests.controller.raft.memory_storage import MemoryStorage
from tests.simulation.kit.entropy import FixedEntropy

SETTINGS = RaftSettings(
    election_ticks=3, inflight_messages_max=3, append_bytes_max=100, entry_bytes_max=200, uncommitted_bytes_max=2000
)
STEPS_MAX = 1000
PATIENCE = 0.9
"""After three ticks a node no longer counts on its leader, after five it stands."""


class Scene:
    """The state of one script."""

    def __init__(self) -> None:
        self.storage: dict[int, MemoryStorage] = {}
        self.members: dict[int, Member] = {}
        self.waiting: list[RaftMessage] = []
        self.history: list[RaftMessage] = []
        self.cut: frozenset[int] = frozenset()

    def run(self, line: str) -> list[str]:
        """Do one command. Returns what there is to see."""
        name, *words = line.split()
        if name == "quiet":
            self.run(" ".join(words))
            return []
        return list(getattr(self, f"do_{name}")(*words))

    def do_group(self, *words: str) -> Iterator[str]:
        """`group 1 2 3`."""
        nodes = [int(word) for word in words]
        for node in nodes:
            self.storage[node] = MemoryStorage(founder(frozenset(nodes)))
            yield from self.do_start(str(node))

    def do_join(self, word: str) -> Iterator[str]:
        """`join 4`."""
        self.storage[int(word)] = MemoryStorage(Persisted())
        yield from self.do_start(word)

    def do_start(self, word: str) -> Iterator[str]:
        """`start 1`."""
        node = int(word)
        self.members[node] = Member(node, SETTINGS, self.storage[node], FixedEntropy(PATIENCE))
        yield self._line(node)

    def do_tick(self, word: str, count: str = "1") -> Iterator[str]:
        """`tick 1 3`."""
        for _ in range(int(count)):
            self.members[int(word)].raft.tick()
        yield self._line(int(word))

    def do_campaign(self, word: str) -> Iterator[str]:
        """`campaign 1`."""
        self.members[int(word)].raft.campaign()
        yield self._line(int(word))

    def do_propose(self, word: str, text: str) -> Iterator[str]:
        """`propose 1 x`."""
        yield self._said(self.members[int(word)].raft.propose(text.encode()))

    def do_read(self, word: str, ticket: str) -> Iterator[str]:
        """`read 1 7`."""
        yield self._said(self.members[int(word)].raft.read(int(ticket)))

    def do_change(self, word: str, *words: str) -> Iterator[str]:
        """`change 1 1 2 3 learners 4`."""
        at = words.index("learners") if "learners" in words else len(words)
        voters, learners = frozenset(map(int, words[:at])), frozenset(map(int, words[at + 1 :]))
        yield self._said(self.members[int(word)].raft.change(voters, learners))

    def do_transfer(self, word: str, to: str) -> Iterator[str]:
        """`transfer 1 2`."""
        yield self._said(self.members[int(word)].raft.transfer(int(to)))

    def do_compact(self, word: str, index: str) -> Iterator[str]:
        """`compact 1 5`."""
        member = self.members[int(word)]
        yield "compacted" if member.raft.compact(int(index), member.snapshot()) else "nothing to compact"

    def do_take(self, word: str) -> Iterator[str]:
        """`take 1`."""
        ready = self.members[int(word)].begin()
        yield from wording.ready(ready) if ready is not None else ["nothing"]

    def do_finish(self, word: str) -> Iterator[str]:
        """`finish 1`."""
        messages, _, _ = self.members[int(word)].finish()
        self.history += messages
        self.waiting += [message for message in messages if not self._is_cut(message)]
        yield self._line(int(word))

    def do_ready(self, word: str) -> Iterator[str]:
        """`ready 1`."""
        yield from self.do_take(word)
        if self.members[int(word)].ready is not None:
            list(self.do_finish(word))

    def do_deliver(self, word: str, sender: str = "") -> Iterator[str]:
        """`deliver 2 1`."""
        for message in self._taken(int(word), sender):
            yield wording.message(message)
            if message.to in self.members:
                self.members[message.to].raft.receive(message)

    def do_round(self, first: str, second: str, count: str = "1") -> Iterator[str]:
        """`round 1 2`."""
        for _ in range(int(count)):
            for sender, to in ((first, second), (second, first)):
                list(self.do_ready(sender))
                yield from self.do_deliver(to, sender)

    def do_again(self, sender: str, to: str) -> Iterator[str]:
        """`again 1 2`."""
        for message in self.history:
            if (message.sender, message.to) == (int(sender), int(to)):
                yield wording.message(message)
                self.members[message.to].raft.receive(message)

    def do_drop(self, word: str, sender: str = "") -> Iterator[str]:
        """`drop 2 1`."""
        for message in self._taken(int(word), sender):
            yield wording.message(message)

    def do_cut(self, *words: str) -> Iterator[str]:
        """`cut 3`."""
        self.cut = frozenset(map(int, words))
        self.waiting = [message for message in self.waiting if not self._is_cut(message)]
        yield from ()

    def do_heal(self) -> Iterator[str]:
        """`heal`."""
        self.cut = frozenset()
        yield from ()

    def do_crash(self, word: str, kept: str = "0") -> Iterator[str]:
        """`crash 1 2`."""
        member = self.members.pop(int(word))
        member.storage.crash(int(kept))
        yield from ()

    def do_damage(self, word: str) -> Iterator[str]:
        """`damage 1`."""
        storage = self.storage[int(word)]
        storage.durable = Persisted(damage="the log is damaged")
        yield from ()

    def do_stabilize(self, *words: str) -> Iterator[str]:
        """`stabilize 1 2`."""
        nodes = [int(word) for word in words] or sorted(self.members)
        for _ in range(STEPS_MAX):
            before = len(self.history)
            moved = False
            for node in nodes:
                if node in self.members:
                    shown = list(self.do_ready(str(node)))
                    if shown != ["nothing"]:
                        moved = True
                        yield from (f"{node}: {line}" for line in shown)
            for node in nodes:
                moved |= bool(list(self.do_deliver(str(node))))
            if not moved and before == len(self.history):
                return
        raise AssertionError(f"not stable after {STEPS_MAX} steps")

    def do_status(self) -> Iterator[str]:
        """`status`."""
        yield from (self._line(node) for node in sorted(self.members))

    def do_log(self, word: str) -> Iterator[str]:
        """`log 1`."""
        member = self.members[int(word)]
        yield wording.entries(member.raft.entries())
        yield f"state: {b' '.join(member.state).decode()}"

    def _line(self, node: int) -> str:
        raft = self.members[node].raft
        members = wording.configuration(raft.replica.configuration)
        place = f"last {raft.replica.log.last} committed {raft.replica.log.committed}"
        return f"{node}: {raft.replica.role.value} term {raft.replica.term} leader {raft.replica.leader} {place} ({members})"

    def _said(self, answer: LogEntry | RaftRefusal | None) -> str:
        if isinstance(answer, RaftRefusal):
            return f"refused: {answer.name}"
        return "taken" if answer is None else wording.entry(answer)

    def _is_cut(self, message: RaftMessage) -> bool:
        return (message.sender in self.cut) != (message.to in self.cut)

    def _taken(self, to: int, sender: str) -> list[RaftMessage]:
        taken = [each for each in self.waiting if each.to == to and (not sender or each.sender == int(sender))]
        self.waiting = [each for each in self.waiting if each not in taken]
        return taken
