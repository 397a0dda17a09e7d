"""Known bugs of raft implementations, put back one at a time: the checker has to find each within a stated number of seeds.

python -m tests.controller.raft.bugs NAME [SEEDS]    the first seed that finds it, and what is said; -1 when none does
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest

from controller.raft import following, quorum
from controller.raft.configuration import NOBODY, Configuration
from controller.raft.configurations import Configurations
from controller.raft.election import Election
from controller.raft.leadership import Leadership
from controller.raft.log import RaftLog
from controller.raft.message import AppendAnswer, AppendRequest, LeaderHeartbeat, SnapshotRequest
from controller.raft.persisted import HardState, Persisted, RaftSnapshot
from controller.raft.refusal import RaftRefusal, SafetyError
from controller.raft.replica import Replica
from controller.raft.replication import Replication
from tests.controller.raft.checker import ViolationError
from tests.controller.raft.memory_storage import MemoryStorage
from tests.controller.raft.run import run
from tests.controller.raft.world import Fate, World

Patch = pytest.MonkeyPatch


def _older_term_by_count(patch: Patch) -> None:
    patch.setattr(Replication, "may_commit", lambda self, index: True)


def _vote_not_persisted(patch: Patch) -> None:
    patch.setattr(Replica, "hard_state", property(lambda self: HardState(self.term, 0)))


def _vote_for_a_shorter_log(patch: Patch) -> None:
    patch.setattr(RaftLog, "is_up_to_date", lambda self, last_index, last_term: last_term >= self.last_term)


def _two_votes_in_a_term(patch: Patch) -> None:
    def may_vote(self: Any, request: Any) -> bool:
        return bool(self._replica.log.is_up_to_date(request.last_index, request.last_term))

    patch.setattr(Election, "may_vote", may_vote)


def _cut_without_check(patch: Patch) -> None:
    own = RaftLog.truncate

    def truncate(self: Any, index: int) -> None:
        self.committed = min(self.committed, index - 1)
        own(self, index)

    patch.setattr(RaftLog, "truncate", truncate)


def _append_cuts_what_follows(patch: Patch) -> None:
    """What is behind an old, short message is cut, also when it is committed."""
    _cut_without_check(patch)

    def take(replica: Replica, request: AppendRequest) -> None:
        end = request.previous_index
        if end < replica.log.last:
            replica.log.truncate(end + 1)
            replica.configurations.truncate(end + 1)
        for entry in request.entries:
            replica.append(entry)

    patch.setattr(following, "_take", take)


def _sent_before_the_sync(patch: Patch) -> None:
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


def _change_in_one_step(patch: Patch) -> None:
    patch.setattr(Configuration, "joint", lambda self, voters, learners: Configuration(voters, frozenset(), learners))


def _new_majority_alone(patch: Patch) -> None:
    patch.setattr(quorum, "_sets", lambda configuration: (configuration.voters,))


def _change_during_a_change(patch: Patch) -> None:
    own = Leadership._refuse_change

    def refuse(self: Any, voters: frozenset[int], learners: frozenset[int]) -> RaftRefusal | None:
        refusal = own(self, voters, learners)
        return None if refusal is RaftRefusal.CHANGE_UNDER_WAY and len(voters) else refusal

    patch.setattr(Leadership, "_refuse_change", refuse)


def _learners_counted(patch: Patch) -> None:
    own = quorum._sets
    patch.setattr(quorum, "_sets", lambda configuration: tuple(each | configuration.learners for each in own(configuration)))


def _snapshot_loses_the_members(patch: Patch) -> None:
    own = RaftLog.compact
    patch.setattr(RaftLog, "compact", lambda self, snapshot: own(self, replace(snapshot, configuration=NOBODY)))


def _snapshot_installed_without_members(patch: Patch) -> None:
    def install(replica: Replica, request: SnapshotRequest) -> None:
        known = replica.configurations
        own(replica, request)
        if replica.log.restored:
            replica.configurations = known

    own = following.install
    patch.setattr(following, "install", install)


def _old_snapshot_installed(patch: Patch) -> None:
    def install(replica: Replica, request: SnapshotRequest) -> None:
        snapshot = request.snapshot
        replica.log.restore(snapshot)
        replica.configurations = Configurations(snapshot.index, snapshot.configuration)
        replica.send(AppendAnswer(replica.node, request.sender, replica.term, snapshot.index))

    patch.setattr(following, "install", install)


def _read_without_a_round(patch: Patch) -> None:
    patch.setattr(Leadership, "_agreed", lambda self, number: True)


def _read_before_an_entry_of_the_term(patch: Patch) -> None:
    patch.setattr(Leadership, "has_committed", property(lambda self: True))


def _commit_behind_the_equal_part(patch: Patch) -> None:
    own = following.append

    def append(replica: Replica, request: AppendRequest) -> None:
        own(replica, request)
        replica.log.commit(min(request.commit, replica.log.last))

    patch.setattr(following, "append", append)


def _heartbeat_commits_behind_the_equal_part(patch: Patch) -> None:
    own = following.heartbeat

    def heartbeat(self: Any, read_round: int) -> None:
        replica = self._replica
        for node in self.followers:
            replica.send(LeaderHeartbeat(replica.node, node, replica.term, replica.log.committed, read_round))

    def follow(replica: Replica, request: LeaderHeartbeat) -> None:
        own(replica, replace(request, commit=min(request.commit, replica.log.last)))

    patch.setattr(Replication, "heartbeat", heartbeat)
    patch.setattr(following, "heartbeat", follow)


def _damaged_node_takes_part(patch: Patch) -> None:
    own = MemoryStorage.load

    def load(self: MemoryStorage) -> Persisted:
        return own(self)._replace(damage="")

    patch.setattr(MemoryStorage, "load", load)


def _joins_without_the_first_members(patch: Patch) -> None:
    def restore(self: Any, snapshot: RaftSnapshot) -> None:
        own(self, replace(snapshot, configuration=NOBODY))

    own = RaftLog.restore
    patch.setattr(RaftLog, "restore", restore)


class RaftBug(NamedTuple):
    """A bug that can be put back.

    what    what is wrong
    seeds   number of seeds, from 0 on, within which it is found
    put     puts it back
    fate    what happens most in these seeds
    """

    what: str
    seeds: int
    put: Callable[[Patch], None]
    fate: Fate = Fate.ANY


BUGS: Final = {
    "older-term": RaftBug(
        "an entry of an older term is committed because a majority has it", 20, _older_term_by_count, Fate.LEADERS_DIE
    ),
    "vote": RaftBug("the vote is not persisted", 60, _vote_not_persisted, Fate.LEADERS_DIE),
    "two-votes": RaftBug("a node votes twice in a term", 20, _two_votes_in_a_term),
    "shorter-log": RaftBug("a vote goes to a log that is shorter", 30, _vote_for_a_shorter_log),
    "cut": RaftBug("an old append cuts what follows it", 5, _append_cuts_what_follows),
    "early-answer": RaftBug("messages leave before the sync", 30, _sent_before_the_sync),
    "one-step": RaftBug("voters change in one step", 20, _change_in_one_step),
    "new-majority": RaftBug("a joint change needs the new majority alone", 60, _new_majority_alone, Fate.MEMBERS_CHANGE),
    "second-change": RaftBug("a change begins during another", 80, _change_during_a_change, Fate.MEMBERS_CHANGE),
    "learners": RaftBug("learners are counted", 5, _learners_counted, Fate.MEMBERS_CHANGE),
    "snapshot-members": RaftBug("a snapshot loses the members", 5, _snapshot_loses_the_members),
    "installed-members": RaftBug("a snapshot is installed without its members", 10, _snapshot_installed_without_members),
    "joined-members": RaftBug("a node that joins is not told the first members", 10, _joins_without_the_first_members),
    "old-snapshot": RaftBug("a snapshot that is late takes the place of a longer log", 20, _old_snapshot_installed),
    "read-round": RaftBug("a read is answered without a round of heartbeats", 10, _read_without_a_round, Fate.LEADERS_CUT),
    "read-term": RaftBug("a read is answered before an entry of the term is committed", 10, _read_before_an_entry_of_the_term),
    "commit": RaftBug("a follower commits entries that were not compared", 20, _commit_behind_the_equal_part),
    "heartbeat": RaftBug("a heartbeat commits entries that were not compared", 5, _heartbeat_commits_behind_the_equal_part),
    "damaged": RaftBug("a node whose log is damaged takes part", 5, _damaged_node_takes_part),
}


def found(name: str, seeds: int) -> tuple[int, str]:
    """(first seed that finds it, what was said); (-1, "") when none of `seeds` does."""
    with Patch.context() as patch:
        BUGS[name].put(patch)
        for seed in range(seeds):
            try:
                run(seed, fate=BUGS[name].fate)
            except (ViolationError, SafetyError, AssertionError) as error:
                return seed, f"{type(error).__name__}: {error}"
    return -1, ""


if __name__ == "__main__":
    print(*found(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else BUGS[sys.argv[1]].seeds))
