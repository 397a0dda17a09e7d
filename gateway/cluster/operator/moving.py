"""Move of a leadership to a replica that an operator names.

in sync: elected
not in sync: the leader takes it in, once it has all that is confirmed --> elected
             the leader does not reach it: another member is elected, and takes it in --> elected
             neither: the reason, within seconds

Each election is one of a member of the SyncStateSet, so nothing is lost, whatever becomes of the move.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from domain.controller.answer import GroupRefusal
from domain.controller.change import ElectLeader
from domain.controller.group import StoreGroup
from domain.controller.health import Fitness
from domain.controller.left_out import MemberLack
from domain.controller.request import ReplicaHeard
from domain.errors import ConfigError
from gateway.cluster.operator.next_steps import next_step
from gateway.cluster.operator.orders import DONE, GroupOrders, Say, ids_text, made, replica_of

POLL_S: Final = 0.5
UNREACHED_S: Final = 3.0
"""Seconds for which a replica that the controllers or the leader do not reach is waited for: it may just have come back."""


class _Obstacle(NamedTuple):
    """Reason why a replica is not in sync.

    seconds     how long it is waited for
    unreached   True: the leader does not reach it, so that another member may
    """

    why: str
    seconds: float
    unreached: bool = False


def move(
    controllers: GroupOrders, name: str, replica: int, seconds: float, say: Say, sleep: Callable[[float], None] = time.sleep
) -> int:
    """Make a replica lead. Raises ConfigError with the reason when it cannot.

    seconds   longest time for which a replica that is not in sync is waited for
    """
    group, _ = controllers.group(name)
    before = group.leader
    replica_of(group, replica)
    if before == replica:
        say(f"replica {replica} leads {name} already, in epoch {group.leader_epoch}")
        return DONE
    if not group.is_in_sync(replica_of(group, replica)):
        _await_member(controllers, name, replica, seconds, say, sleep)
    after = _elect(controllers, name, replica)
    say(f"replica {after.leader} leads {name} from epoch {after.leader_epoch} on; replica {before or 'none'} led before")
    say(next_step(after))
    return DONE


def _elect(controllers: GroupOrders, name: str, replica: int) -> StoreGroup:
    """Elect a member. Raises ConfigError when it is refused."""
    answer = controllers.change(ElectLeader(name, designated=replica))
    if answer.refusal is GroupRefusal.ELECTION_FAILED:
        alive = ids_text([each.report.id for each in controllers.group(name)[1] if each.alive])
        raise ConfigError(f"replica {replica} is not alive with the log that it has in the set: alive are {alive}")
    leads = answer.group is not None and answer.group.leader == replica  # an answer was lost, and the question repeated
    return made(None if leads else answer.refusal, answer.group)


def _await_member(
    controllers: GroupOrders, name: str, replica: int, seconds: float, say: Say, sleep: Callable[[float], None]
) -> None:
    """Wait until a replica is in sync, and let another member lead when the leader does not reach it."""
    waited_s, said, instead = 0.0, "", 0
    while True:
        group, heard = controllers.group(name)
        if group.is_in_sync(replica_of(group, replica)):
            return
        found = _obstacle(group, heard, replica, seconds)
        if waited_s >= found.seconds:
            other = _other_member(group, heard, replica) if found.unreached and not instead else 0
            if not other:
                led = f"replica {instead} leads now, and " if instead else "nothing was changed: "
                raise ConfigError(
                    f"{led}replica {replica} is not in sync, and would lack records ({found.why}); in sync are "
                    f"{ids_text(group.in_sync)}"
                )
            say(f"replica {group.leader} does not reach replica {replica}: replica {other} leads meanwhile, and takes it in")
            _elect(controllers, name, other)
            waited_s, instead = 0.0, other
        elif found.why != said:
            said = found.why
            say(f"replica {replica} is not in sync yet: {said}")
        sleep(POLL_S)
        waited_s += POLL_S


def _obstacle(group: StoreGroup, heard: Sequence[ReplicaHeard], replica: int, seconds: float) -> _Obstacle:
    words = {each.report.id: each for each in heard}
    last, leader = words.get(replica), words.get(group.leader)
    known = replica_of(group, replica)
    if known.learner:
        return _Obstacle("it is a learner: start it without learner and remote, then move", 0)
    if last is None or not last.alive or last.report.member != known.member:
        return _Obstacle("the controllers do not hear it", min(UNREACHED_S, seconds))
    if last.word.refuses:
        return _Obstacle(last.word.refuses, 0)
    if last.standing.fitness is Fitness.SLOW:
        return _Obstacle(f"it is passed over, since it is slow: {last.standing.why}", 0)
    if leader is None or not leader.alive:
        return _Obstacle("there is no leader that could take it in", seconds)
    said = next((each for each in leader.word.left_out if each.replica == replica), None)
    if said is None:
        return _Obstacle(f"replica {group.leader}, which leads, has not taken it in yet", seconds)
    if said.lack in (MemberLack.CONNECTION, MemberLack.PROGRESS):
        return _Obstacle(said.why, min(UNREACHED_S, seconds), True)
    return _Obstacle(said.why, seconds)


def _other_member(group: StoreGroup, heard: Sequence[ReplicaHeard], replica: int) -> int:
    """The live member with the longest log that is neither `replica` nor the leader; 0: there is none that is fit to lead."""
    found = [
        (each.report.epoch, each.report.position, -each.report.id)
        for each in heard
        if each.alive and each.report.member in group.members and each.report.id not in (replica, group.leader)
        and each.standing.fitness is Fitness.FIT and not each.word.refuses
    ]  # fmt: skip
    return -max(found)[2] if found else 0
