"""One seed: faults for a while, then none, and within a bounded time everything has to work.

python -m tests.controller.raft.run SEED    prints what happens
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import NamedTuple

from controller.raft.refusal import SafetyError
from tests.controller.raft.clients import Clients
from tests.controller.raft.faults import Faults
from tests.controller.raft.world import Fate, World
from tests.simulation.kit.bugs import HistoryError

FAULTS_STEPS = 3000
CALM_STEPS = 1500
"""Steps after the faults, within which a leader is there, clients are served and all nodes are equal."""


class Course(NamedTuple):
    """What a seed has seen, for tests of the simulation itself.

    writes, reads   operations of clients that were answered and checked
    terms           terms that had a leader
    entries         entries that were applied
    """

    writes: int
    reads: int
    terms: int
    entries: int


def run(seed: int, trace: Callable[[str], None] | None = None, fate: Fate = Fate.ANY) -> Course:
    """Run one seed. Raises HistoryError, and what an `assert` of a node raises."""
    world = World(seed, random.Random(~seed).choice((3, 3, 5)), trace, fate)
    try:
        _run(world, fate)
    except SafetyError as error:
        raise HistoryError(f"SafetyError: {error}") from error
    checker = world.checker
    return Course(checker.writes, checker.reads, checker.terms, len(checker.applied))


def _run(world: World, fate: Fate) -> None:
    clients = Clients(world, 3)
    faults = Faults(world, fate)
    world.run(FAULTS_STEPS)
    faults.end()
    world.say("the faults end")
    world.run(FAULTS_STEPS + CALM_STEPS // 2)
    done = clients.done
    world.run(FAULTS_STEPS + CALM_STEPS)
    check_calm(world, clients.done - done)


def check_calm(world: World, done: int) -> None:
    """The group works: a leader, no change under way, clients that are served, nodes that do not stay behind."""
    leader = world.leader()
    if leader is None:
        raise HistoryError("nobody leads")
    if leader.replica.configuration.is_joint:
        raise HistoryError(f"a change of members does not end: {leader.replica.configuration}")
    if done < 5:
        raise HistoryError(f"clients got {done} answers")
    for node in leader.replica.configuration.nodes:
        member = world.seats[node].member
        assert member is not None
        if not world.seats[node].is_damaged and member.applied < leader.replica.log.committed - 20:
            raise HistoryError(f"{node} has applied {member.applied}, and {leader.replica.log.committed} is committed")


if __name__ == "__main__":
    print(run(int(sys.argv[1]), print))
