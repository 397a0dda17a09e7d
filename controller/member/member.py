"""One member of the controllers: drives a raft node, and applies committed changes to the store groups."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, Protocol, final

from controller.groups import command
from controller.groups.limits import is_within
from controller.groups.snapshot import restore, snapshot
from controller.member.log_writer import RaftLogWriter
from controller.member.proposals import ChangeDone, PendingReads, Proposals, ReadDone
from controller.member.replacement import MemberChange, replacement
from controller.member.reshaping import begun, reshaped, settled, unfinished, with_controller, without_controller
from controller.peers import message_bytes
from controller.raft.entry import EntryKind, LogEntry
from controller.raft.persisted import Persisted, RaftStorage
from controller.raft.raft import Raft
from controller.raft.ready import Ready
from controller.raft.refusal import LaterVersionError, RaftRefusal, SafetyError
from controller.raft.replica import RaftRole
from controller.raft.settings import RaftSettings
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import ElectLeader, GroupChange
from domain.controller.controller_list import ControllerList, SetControllers
from domain.controller.peer import KEEPING_LEVEL
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Entropy, Timer

TICK_MS: Final = 100
"""A tick of raft: with its default settings an election begins one to two seconds after the last word of a leader."""
ANSWER_MS: Final = 3_000
"""Longest wait of a change for its commit, and of a read for its confirmation."""
ENTRIES_KEPT: Final = 4_096
"""Entries behind the newest snapshot, after which a new one is made."""

_REFUSALS: Final = {RaftRefusal.TOO_LARGE: GroupRefusal.INVALID, RaftRefusal.TOO_MANY: GroupRefusal.TOO_MANY}
"""Refusals of raft with an answer other than NOT_LEADING."""


class MemberEvents(NamedTuple):
    """Calls of a member to its controller.

    applied   called for each change that is applied, on every member, with its answer
    led       called once in each term that this member leads, when it has applied all that was committed before
    """

    applied: Callable[[GroupChange, GroupAnswer], None]
    led: Callable[[], None]


log = logging.getLogger("headgate.controller")


class Peers(Protocol):
    """Carries messages to the other members. They may be lost, repeated, delayed and reordered."""

    def send(self, to: int, data: bytes) -> None:
        """Send a message to the member whose log has the identity `to`. Dropped when its address is unknown."""

    def all_read(self, level: int) -> bool:
        """True when all members read changes of this level (domain/controller/peer.py), as far as it is known."""


@final
class ControllerMember:
    """One member. It begins with `start`, and ends with `stop`, or by itself with a reason in `failure`.

    groups    the store groups as this member knows them; those of the leader are the newest after a `read`
    failure   why the member has ended by itself, or takes part in nothing, perhaps for a while; "": it takes part
    unread    messages of others that could not be read
    applied_index   index of the last entry of the log that `groups` contain
    """

    def __init__(
        self, node: int, persisted: Persisted, storage: RaftStorage, peers: Peers, clock: Clock, entropy: Entropy,
        events: MemberEvents, entries_kept: int = ENTRIES_KEPT,
    ) -> None:  # fmt: skip
        """Create the member at its start.

        node          identity of its log, above 0; a new log has another one
        persisted     state that `storage` has loaded
        entries_kept  entries behind the newest snapshot, after which a new one is made
        Raises SafetyError for a log with a hole, ValueError for an unreadable configuration or snapshot.
        """
        self.groups = restore(persisted.snapshot.data)
        self._events = events
        self._entries_kept = entries_kept
        self._failure = persisted.damage
        self.unread = 0
        self._unread_why = ""
        self.node = node
        self._raft = Raft(node, RaftSettings(), persisted, entropy)
        self._writer = RaftLogWriter(storage, clock, self._fail)
        self._peers = peers
        self._clock = clock
        self._proposals = Proposals()
        self._reads = PendingReads()
        self._compacted = self.applied_index = persisted.snapshot.index
        self._timer: Timer | None = None
        self._marked = False
        self._stopped = False

    @property
    def failure(self) -> str:
        """Why the member takes part in nothing, now or for good; "": it takes part."""
        return self._failure or self._writer.waits

    @property
    def _is_out(self) -> bool:
        """True while the member takes part in nothing: it has ended, or its log finds no room, which is like a pause."""
        return self._stopped or bool(self._writer.waits)

    @property
    def leads(self) -> bool:
        """True while this member leads, as far as it knows."""
        return self._raft.replica.role is RaftRole.LEADER and not self._is_out

    @property
    def leader(self) -> int:
        """The leader's identity as far as it is known, else 0."""
        return 0 if self._is_out else self._raft.replica.leader

    @property
    def term(self) -> int:
        """The newest term that it knows."""
        return self._raft.replica.term

    @property
    def members(self) -> tuple[int, ...]:
        """Identities of all members that the log goes to, ascending."""
        return self._raft.replica.configuration.nodes

    @property
    def voters(self) -> tuple[int, ...]:
        """Identities of the voters, ascending; during a change of members those before and those after it."""
        found = self._raft.replica.configuration
        return tuple(sorted(found.voters | found.outgoing))

    @property
    def learners(self) -> tuple[int, ...]:
        """Identities of the learners, ascending."""
        found = self._raft.replica.configuration
        return tuple(sorted(found.learners - found.outgoing))

    @property
    def changing(self) -> str:
        """The change of members that is under way, for people; "": none is."""
        book, configuration = self.groups.book, self._raft.replica.configuration
        if book.number:
            return unfinished(book, configuration)
        return "a controller is taken in" if configuration.is_joint or configuration.learners else ""

    def start(self) -> None:
        """Begin to take part."""
        self._tick()

    def stop(self) -> None:
        """Stop taking part. Waiting proposals are answered with an unknown outcome."""
        self._stopped = True
        self._writer.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._proposals.passed(self._raft.replica.log.last)
        self._reads.lose()

    def receive(self, data: bytes) -> None:
        """Take a message of another member. Bytes that cannot be read are counted and dropped."""
        if self._is_out:
            return
        try:
            message = message_bytes.decode(data)
        except ValueError as error:
            self.unread += 1
            if str(error) != self._unread_why:  # a leader repeats what is not acknowledged
                log.warning("a message of another controller cannot be read: %s", error)
            self._unread_why = str(error)
            return
        self._do(lambda: self._raft.receive(message))

    def parted(self, node: int) -> None:
        """Note that the process of another member has ended its connection to this one."""
        self._raft.parted(node)

    def change(self, change: GroupChange, done: ChangeDone) -> None:
        """Make a change. `done` gets its answer once a majority has it on their disks.

        At once it gets INVALID for a change beyond its limits, and NOT_LEADING on a member that does not lead.
        """
        if self._is_out:
            done(GroupAnswer(GroupRefusal.NOT_LEADING, None))
            return
        if not is_within(change):
            done(GroupAnswer(GroupRefusal.INVALID, self.groups.group(change.group)))
            return
        if isinstance(change, ElectLeader) and not self._peers.all_read(KEEPING_LEVEL):
            change = replace(change, keeps_dead=False)  # a controller of a version before would stop at it
        self._propose(change, done)

    def add_controller(self, address: str, seeds: Sequence[str], heard: Mapping[str, int], done: ChangeDone) -> None:
        """Take one more controller into the book; `follow_book` makes it a voter. Raises ValueError with the reason.

        `seeds` are the addresses of the settings; the mapping is address -> identity that answers there.
        """
        book = begun(self.groups.book, seeds, heard, self._raft.replica.configuration)
        self._put_book(with_controller(book, address, self._raft.replica.configuration), done)

    def remove_controller(self, address: str, seeds: Sequence[str], heard: Mapping[str, int], done: ChangeDone) -> None:
        """Take a controller out of the book, as `add_controller`; it votes no more when `follow_book` is through."""
        book = begun(self.groups.book, seeds, heard, self._raft.replica.configuration)
        self._put_book(without_controller(book, address, heard, self._raft.replica.configuration), done)

    def _put_book(self, book: ControllerList, done: ChangeDone) -> None:
        if book.number == self.groups.book.number:
            done(GroupAnswer(None, None))  # it is so already
        else:
            self._propose(SetControllers(book), done)

    def _propose(self, change: command.LogChange, done: ChangeDone) -> None:
        entry = self._raft.propose(command.encode(change))
        if isinstance(entry, RaftRefusal):
            done(GroupAnswer(_REFUSALS.get(entry, GroupRefusal.NOT_LEADING), None))
            return
        self._proposals.add(entry, self._clock.monotonic_ns() + ANSWER_MS * MILLISECOND_NS, done)
        self._mark()

    def read(self, done: ReadDone) -> None:
        """Call `done` with None when `groups` has all that was answered before this call; NOT_LEADING: ask the leader."""
        if self._is_out:
            done(GroupRefusal.NOT_LEADING)
            return
        ticket = self._reads.ticket()
        if self._raft.read(ticket) is not None:
            done(GroupRefusal.NOT_LEADING)
            return
        self._reads.add(ticket, self._clock.monotonic_ns() + ANSWER_MS * MILLISECOND_NS, done)
        self._mark()

    def revise(self, there: Set[int], complete: bool) -> None:
        """Take newcomers in, as in `controller.member.replacement`. Does nothing on a member that does not lead."""
        if not self.leads:
            return
        wanted = replacement(self._raft.replica.configuration, there, complete)
        if wanted is not None:
            self._change_members(wanted)

    def follow_book(self, heard: Mapping[str, int]) -> None:
        """Change the members by one step towards the book. Does nothing on a member that does not lead.

        The mapping is address -> identity that answers there. A leader that has to leave hands the leadership over first.
        """
        book, configuration = self.groups.book, self._raft.replica.configuration
        if not self.leads or not book.number:
            return
        places = {heard.get(each.address, each.node) for each in book.places}
        if self.node not in places:
            heirs = sorted(places & configuration.voters & set(heard.values()))
            if heirs and not configuration.is_joint:
                self._do(lambda: self._hand_over(heirs[0]))
            return
        found = settled(configuration, book, heard)
        if found is not None:
            self._put_book(found, lambda _: None)  # the list itself shows whether it has taken an identity
            return
        wanted = reshaped(configuration, book, heard)
        if wanted is not None:
            self._change_members(wanted)

    def _hand_over(self, successor: int) -> None:
        if self._raft.transfer(successor) is None:
            log.warning("controllers: this one is to go, and hands the leadership over to %s", successor)

    def _change_members(self, wanted: MemberChange) -> None:
        refusal = self._raft.change(wanted.voters, wanted.learners)
        if isinstance(refusal, LogEntry):
            log.warning("controllers: voters %s, learners %s", sorted(wanted.voters), sorted(wanted.learners))
            self._mark()

    def _tick(self) -> None:
        if self._stopped:
            return
        now = self._clock.monotonic_ns()
        self._timer = self._clock.call_at(now + TICK_MS * MILLISECOND_NS, self._tick)
        self._proposals.expire(now)
        self._reads.expire(now)
        if not self._is_out:
            self._do(self._raft.tick)

    def _do(self, step: Callable[[], None]) -> None:
        """Give raft an input, and process its output at the end of this turn."""
        try:
            step()
        except SafetyError as error:
            self._fail(f"a rule of raft is broken: {error}")
            return
        self._mark()

    def _mark(self) -> None:
        if not self._marked:
            self._marked = True
            self._clock.call_soon(self._work)

    def _work(self) -> None:
        """Process the output of raft, in the order that `controller.raft.ready` requires. The turn does not wait for the disk:
        raft takes further inputs meanwhile, and their output is processed after the flush."""
        self._marked = False
        while not self._stopped and not self._writer.is_busy and (ready := self._raft.take()) is not None:
            if ready.must_sync:
                self._writer.write(ready, partial(self._flushed, ready))
            else:
                self._go_on(ready)

    def _flushed(self, ready: Ready) -> None:
        self._go_on(ready)
        self._mark()

    def _go_on(self, ready: Ready) -> None:
        """Continue after the persisted output is durable."""
        try:
            for message in ready.messages:
                self._peers.send(message.to, message_bytes.encode(message))
            self._apply(ready)
            self._raft.persisted()
        except SafetyError as error:
            self._fail(f"a rule of raft is broken: {error}")
        except LaterVersionError as error:
            self._fail(error.remedy)
        except ValueError as error:
            self._fail(f"what the controllers have decided cannot be read: {error}")

    def _apply(self, ready: Ready) -> None:
        if ready.restore and ready.snapshot is not None:
            self.groups = restore(ready.snapshot.data)
            self._compacted = self.applied_index = ready.snapshot.index
            self._proposals.passed(ready.snapshot.index)
        for entry in ready.committed:
            self._apply_entry(entry)
        self._reads.answer([read.ticket for read in ready.reads], None)
        self._reads.answer(ready.lost_reads, GroupRefusal.NOT_LEADING)
        if ready.committed and ready.committed[-1].index - self._compacted >= self._entries_kept:
            self._compacted = ready.committed[-1].index
            self._raft.compact(self._compacted, snapshot(self.groups))

    def _apply_entry(self, entry: LogEntry) -> None:
        answer: GroupAnswer | None = None
        self.applied_index = entry.index
        if entry.kind is EntryKind.COMMAND:
            change = command.decode(entry.data)
            if isinstance(change, SetControllers):
                answer = self.groups.set_controllers(change)
                log.warning("controllers: from now on they are %s", ", ".join(self.groups.book.addresses))
            else:
                answer = self.groups.apply(change)
                self._events.applied(change, answer)
        elif entry.kind is EntryKind.EMPTY and entry.term == self.term and self.leads:
            self._events.led()
        self._proposals.committed(entry, answer)

    def _fail(self, reason: str) -> None:
        log.error("this controller takes part no more: %s", reason)
        self._failure = reason
        self.stop()
