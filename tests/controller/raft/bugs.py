"""Known bugs of raft implementations, which the checker has to find when they are put back."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final

from controller.raft import following, quorum
from controller.raft.configuration import NOBODY, Configuration
from controller.raft.configurations import Configurations
from controller.raft.election import Election
from controller.raft.leadership import Leadership
from controller.raft.log import RaftLog
from controller.raft.message import AppendAnswer, AppendRequest, LeaderHeartbeat, SnapshotRequest
from controller.raft.persisted import HardState, Persisted, RaftSnapshot
from controller.raft.refusal import RaftRefusal
from controller.raft.replica import Replica
from controller.raft.replication import Replication
from tests.controller.raft.memory_storage import MemoryStorage
from tests.controller.raft.run import run
from tests.controller.raft.world import Fate, World
from tests.simulation.kit.bugs import Bugs, Patch

BUGS: Final = Bugs()


@BUGS.found_by(partial(run, fate=Fate.LEADERS_DIE), 20)
def older_term(patch: Patch) -> None:
    """An entry of an older term is committed because a majority has it."""
    patch.setattr(Replication, "may_commit", lambda self, index: True)


@BUGS.found_by(partial(run, fate=Fate.LEADERS_DIE), 60)
def vote(patch: Patch) -> None:
    """The vote is not persisted."""
    patch.setattr(Replica, "hard_state", property(lambda self: HardState(self.term, 0)))


@BUGS.found_by(run, 30)
def shorter_log(patch: Patch) -> None:
    """A vote goes to a log that is shorter."""
    patch.setattr(RaftLog, "is_up_to_date", lambda self, last_index, last_term: last_term >= self.last_term)


@BUGS.found_by(run, 20)
def two_votes(patch: Patch) -> None:
    """A node votes twice in a term."""

    def may_vote(self: Any, request: Any) -> bool:
        return bool(self._replica.log.is_up_to_date(request.last_index, request.last_term))

    patch.setattr(Election, "may_vote", may_vote)


def _cut_without_check(patch: Patch) -> None:
    own = RaftLog.truncate

    def truncate(self: Any, index: int) -> None:
        self.committed = min(self.committed, index - 1)
        own(self, index)

    patch.setattr(RaftLog, "truncate", truncate)


@BUGS.found_by(run, 5)
def cut(patch: Patch) -> None:
    """An old append cuts what follows it."""
    _cut_without_check(patch)

    def take(replica: Replica, request: AppendRequest) -> None:
        end = request.previous_index
        if end < replica.log.last:
            replica.log.truncate(end + 1)
            replica.configurations.truncate(end + 1)
        for entry in request.entries:
            replica.append(entry)

    patch.setattr(following, "_take", take)


@BUGS.found_by(run, 30)
def early_answer(patch: Patch) -> None:
    """Messages leave before the sync."""
    own = World._pump

    def pump(self: Any, node: int) -> None:
        seat = self.seats[node]
        before = seat.member.ready
        own(self, node)
        ready = seat.member.ready
        if ready is not None and ready is not before:
            seat.member.ready = ready._replace(messages=())
            for message in ready.messages:
                self._send(message)

    patch.setattr(World, "_pump", pump)


@BUGS.found_by(run, 20)
def one_step(patch: Patch) -> None:
    """Voters change in one step."""
    patch.setattr(Configuration, "joint", lambda self, voters, learners: Configuration(voters, frozenset(), learners))


@BUGS.found_by(partial(run, fate=Fate.MEMBERS_CHANGE), 60)
def new_majority(patch: Patch) -> None:
    """A joint change needs the new majority alone."""
    patch.setattr(quorum, "_sets", lambda configuration: (configuration.voters,))


@BUGS.found_by(partial(run, fate=Fate.MEMBERS_CHANGE), 80)
def second_change(patch: Patch) -> None:
    """A change begins during another."""
    own = Leadership._refuse_change

    def refuse(self: Any, voters: frozenset[int], learners: frozenset[int]) -> RaftRefusal | None:
        refusal = own(self, voters, learners)
        return None if refusal is RaftRefusal.CHANGE_UNDER_WAY and len(voters) else refusal

    patch.setattr(Leadership, "_refuse_change", refuse)


@BUGS.found_by(partial(run, fate=Fate.MEMBERS_CHANGE), 5)
def learners(patch: Patch) -> None:
    """Learners are counted."""
    own = quorum._sets
    patch.setattr(quorum, "_sets", lambda configuration: tuple(each | configuration.learners for each in own(configuration)))


@BUGS.found_by(run, 5)
def snapshot_members(patch: Patch) -> None:
    """A snapshot loses the members."""
    own = RaftLog.compact
    patch.setattr(RaftLog, "compact", lambda self, snapshot: own(self, replace(snapshot, configuration=NOBODY)))


@BUGS.found_by(run, 10)
def installed_members(patch: Patch) -> None:
    """A snapshot is installed without its members."""

    def install(replica: Replica, request: SnapshotRequest) -> None:
        known = replica.configurations
        own(replica, request)
        if replica.log.restored:
            replica.configurations = known

    own = following.install
    patch.setattr(following, "install", install)


@BUGS.found_by(run, 20)
def old_snapshot(patch: Patch) -> None:
    """A snapshot that is late takes the place of a longer log."""

    def install(replica: Replica, request: SnapshotRequest) -> None:
        snapshot = request.snapshot
        replica.log.restore(snapshot)
        replica.configurations = Configurations(snapshot.index, snapshot.configuration)
        replica.send(AppendAnswer(replica.node, request.sender, replica.term, snapshot.index))

    patch.setattr(following, "install", install)


@BUGS.found_by(partial(run, fate=Fate.LEADERS_CUT), 10)
def read_round(patch: Patch) -> None:
    """A read is answered without a round of heartbeats."""
    patch.setattr(Leadership, "_agreed", lambda self, number: True)


@BUGS.found_by(run, 10)
def read_term(patch: Patch) -> None:
    """A read is answered before an entry of the term is committed."""
    patch.setattr(Leadership, "has_committed", property(lambda self: True))


@BUGS.found_by(run, 20)
def commit(patch: Patch) -> None:
    """A follower commits entries that were not compared."""
    own = following.append

    def append(replica: Replica, request: AppendRequest) -> None:
        own(replica, request)
        replica.log.commit(min(request.commit, replica.log.last))

    patch.setattr(following, "append", append)


@BUGS.found_by(run, 5)
def heartbeat(patch: Patch) -> None:
    """A heartbeat commits entries that were not compared."""
    own = following.heartbeat

    def heartbeat(self: Any, read_round: int) -> None:
        replica = self._replica
        for node in self.followers:
            replica.send(LeaderHeartbeat(replica.node, node, replica.term, replica.log.committed, read_round))

    def follow(replica: Replica, request: LeaderHeartbeat) -> None:
        own(replica, replace(request, commit=min(request.commit, replica.log.last)))

    patch.setattr(Replication, "heartbeat", heartbeat)
    patch.setattr(following, "heartbeat", follow)


@BUGS.found_by(run, 5)
def damaged(patch: Patch) -> None:
    """A node whose log is damaged takes part."""
    own = MemoryStorage.load

    def load(self: MemoryStorage) -> Persisted:
        return own(self)._replace(damage="")

    patch.setattr(MemoryStorage, "load", load)


@BUGS.found_by(run, 10)
def joined_members(patch: Patch) -> None:
    """A node that joins is not told the first members."""

    def restore(self: Any, snapshot: RaftSnapshot) -> None:
        own(self, replace(snapshot, configuration=NOBODY))

    own = RaftLog.restore
    patch.setattr(RaftLog, "restore", restore)
