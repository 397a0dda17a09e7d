"""Orders of an operator to the controllers: remove replicas, set numbers, give up a SyncStateSet, wait for full strength."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import CleanReplicas, GroupChange, PromoteLearner, RecoverGroup, SetAcks, SetMinInSync
from domain.controller.group import UNKNOWN, StoreGroup, StoreReplica
from domain.controller.request import ReplicaHeard
from domain.errors import ConfigError
from gateway.cluster.operator.controllers import ClusterControllers
from gateway.cluster.operator.next_steps import next_step
from gateway.cluster.operator.status import end_of_leader, headline, replica_rows
from protocols.remoting.controller.asking import Heard

DONE: Final = 0
NOT_YET: Final = 1
POLL_S: Final = 1.0
JUST_STOPPED_S: Final = 4.0
"""Seconds for which a removal is asked for again: a replica that was stopped just now counts as alive for a while."""

Say = Callable[[str], None]


class GroupOrders(Protocol):
    """Questions and changes of a store group, as ClusterControllers has them."""

    def group(self, name: str) -> Heard:
        """The group, with the last reports of its replicas. Raises ConfigError when there is none."""

    def change(self, change: GroupChange) -> GroupAnswer:
        """Make a change."""


def remove(controllers: ClusterControllers, name: str, replicas: Sequence[int], even_living: bool, say: Say) -> int:
    """Remove replicas of a group; all of them with none named: then the group goes. Raises ConfigError when it is refused."""
    group, _ = controllers.group(name)
    for each in replicas:
        replica_of(group, each)
    end = time.monotonic() + JUST_STOPPED_S
    while True:
        answer = controllers.change(CleanReplicas(name, tuple(replicas), even_living=even_living))
        if answer.refusal is not GroupRefusal.ALIVE or time.monotonic() >= end:
            break
        time.sleep(POLL_S)
    if answer.refusal is GroupRefusal.ALIVE:
        raise ConfigError(f"{GroupRefusal.ALIVE.value}: stop it first, or give --even-living")
    if answer.refusal is GroupRefusal.LAST_MEMBER:
        raise ConfigError(f"{GroupRefusal.LAST_MEMBER.value}: in sync are {ids_text(group.in_sync)}. Wait until another one is")
    if answer.refusal is not None:
        raise ConfigError(answer.refusal.value)
    if answer.group is None:
        say(f"store group {name} is removed")
        return DONE
    say(headline(answer.group))
    say(next_step(answer.group))
    return DONE


def set_least(controllers: ClusterControllers, name: str, least: int, say: Say) -> int:
    """Change `min_in_sync` of a group; 0: as follows from its replicas. Raises ConfigError for more than it has replicas."""
    group, _ = controllers.group(name)
    full = group.strength
    if least > full:
        raise ConfigError(
            f"store group {name} has {full} replicas that can be in sync: with {least} wanted sends above flushed are refused"
        )
    answer = controllers.change(SetMinInSync(name, least))
    after = made(answer.refusal, answer.group)
    say(headline(after))
    say(next_step(after))
    return DONE


def set_acks(controllers: ClusterControllers, name: str, acks: int, say: Say) -> int:
    """Change how many members of the SyncStateSet confirm a record; 0: all. Raises ConfigError for a number that cannot be."""
    group, _ = controllers.group(name)
    full = group.strength
    if acks and not group.min_in_sync <= acks <= full:
        raise ConfigError(
            f"acks of store group {name} is {group.min_in_sync} (min_in_sync) to {full} (its replicas that can be in sync), or "
            f"0 for all: {acks} is not possible"
        )
    answer = controllers.change(SetAcks(name, acks))
    after = made(answer.refusal, answer.group)
    say(headline(after))
    if acks:
        say(
            f"the leader applies it as soon as it is safe. From then on an election needs {full - acks + 1} of {full} members "
            "that are alive with their logs"
        )
    return DONE


def recover(controllers: GroupOrders, name: str, replica: int, accept_loss: bool, ask: Callable[[], str], say: Say) -> int:
    """Give up the SyncStateSet, and make a replica lead that is not in it. Raises ConfigError when it is refused.

    accept_loss   False: only report the loss
    ask           asks for the name of the group, once more
    """
    group, heard = controllers.group(name)
    if replica_of(group, replica).learner:
        raise ConfigError(f"replica {replica} is a learner: headgate cluster promote {name} {replica}")
    _give_up(controllers, (group, heard), RecoverGroup(name, replica, group.set_epoch, ""), accept_loss, ask, say)
    return DONE


def _give_up(
    controllers: GroupOrders, found: Heard, change: RecoverGroup | PromoteLearner, accept_loss: bool,
    ask: Callable[[], str], say: Say,
) -> None:  # fmt: skip
    """Say what `change` loses, ask for the name of the group, and make it."""
    group, heard = found
    name, replica = change.group, change.replica
    say(headline(group))
    for line in (*loss(group, heard, replica), *remote_lines(heard, replica)):
        say(line)
    if not accept_loss:
        raise ConfigError("nothing was changed: give --accept-loss to go on")
    typed = ask()
    if typed != name:
        raise ConfigError(f"nothing was changed: {typed!r} is not the name of the store group")
    answer = controllers.change(dataclasses.replace(change, typed=typed))
    if answer.refusal is GroupRefusal.MEMBER_COMES_BACK:
        raise ConfigError(f"nothing was changed: {answer.refusal.value} (headgate cluster status shows it)")
    members = () if answer.group is None else answer.group.in_sync
    after = made(None if members == (replica,) else answer.refusal, answer.group)
    say(
        f"replica {after.leader} leads {name} from epoch {after.leader_epoch} on, alone in sync; the others follow it from here"
    )
    say(next_step(after))


def promote(controllers: GroupOrders, name: str, replica: int, accept_loss: bool, ask: Callable[[], str], say: Say) -> int:
    """Let a learner lead, since the place of the others is lost. Raises ConfigError when it is refused. The flags as in
    `recover`."""
    group, heard = controllers.group(name)
    if not replica_of(group, replica).learner:
        raise ConfigError(f"replica {replica} is no learner: headgate cluster move {name} {replica}, or recover")
    _give_up(controllers, (group, heard), PromoteLearner(name, replica, group.set_epoch, ""), accept_loss, ask, say)
    say(
        f"now take learner and remote out of the table [replication] of replica {replica}: it is no learner any more. Replicas "
        "of the lost place that come back follow it, and set aside what it lacks"
    )
    return DONE


def remote_lines(heard: Sequence[ReplicaHeard], replica: int) -> list[str]:
    """What a remote replica has said that it lacks."""
    return [
        f"  replica {replica} is in {remote.place}: the last word of its leader came {remote.quiet_ms / 1_000:,.1f} s ago; of "
        f"what was confirmed then it lacks {remote.lag_bytes:,} bytes, and it lacks all that was acknowledged since"
        for remote in [each.word.remote for each in heard if each.report.id == replica]
        if remote.place
    ]


def ends_of(group: StoreGroup, heard: Sequence[ReplicaHeard]) -> dict[int, tuple[int, int]]:
    """Replica -> (epoch of its newest record, end of its log), as last reported."""
    ends = {each.id: (each.epoch, each.position) for each in group.replicas}
    for word in heard:
        known = group.replica(word.report.id)
        if word.report.position != UNKNOWN and known is not None and known.incarnation == word.report.incarnation:
            ends[word.report.id] = max(ends[word.report.id], (word.report.epoch, word.report.position))
    return ends


def loss(group: StoreGroup, heard: Sequence[ReplicaHeard], replica: int) -> list[str]:
    """The known loss if `replica` leads although it is not in the SyncStateSet."""
    ends = ends_of(group, heard)
    own = ends[replica]
    out = [f"  replica {replica} has records up to epoch {said(own[0])}, end of log {said(own[1])}"]
    for member in group.members:
        known = group.replica(member.id)
        if known is None or known.incarnation != member.incarnation:
            out.append(f"  replica {member.id} of the set has lost its log {member.incarnation}: how far it went is not known")
            continue
        epoch, end = ends[member.id]
        more = f"{end - own[1]:,} bytes more" if UNKNOWN not in (end, own[1]) and end > own[1] else "how many more is not known"
        out.append(f"  replica {member.id} of the set had records up to epoch {said(epoch)}, end of log {said(end)}: {more}")
    out.append(
        "  what only the set had is lost, acknowledged or not: a replica that comes back later sets it aside. If one of its "
        "replicas can come back, let it come back first"
    )
    return out


def await_strength(controllers: ClusterControllers, names: Sequence[str], wanted: int, seconds: float, say: Say) -> int:
    """Show the progress of replicas out of sync until all are in sync, for at most `seconds` -> DONE or NOT_YET.

    wanted   replicas that each group has to have, those that have not registered yet too; 0: those that it has
    """
    end = time.monotonic() + seconds
    before: list[str] = []
    while True:
        lacking: list[str] = []
        groups = controllers.groups(names)
        for group, heard in groups:
            if group.strength < wanted:
                lacking.append(f"{group.name}: {wanted - group.strength} of {wanted} replicas have not registered yet")
            if group.leader and not group.is_below_strength:
                continue
            goal = end_of_leader(group, heard)
            rows = replica_rows(group, heard)
            for row, replica in zip(rows, group.replicas, strict=True):
                if not replica.learner and not group.is_in_sync(replica):
                    share = _share(row[6], goal)
                    lacking.append(f"{group.name}: replica {replica.id} is {row[2]}, {row[7]} behind{share}")
            if not group.leader:
                lacking.append(f"{group.name}: nobody leads")
        lacking += [f"{name}: there is no such store group" for name in set(names) - {group.name for group, _ in groups}]
        if not lacking:
            _say_whole(groups, wanted, say)
            return DONE
        if lacking != before:
            for line in lacking:
                say(line)
            before = lacking
        if time.monotonic() >= end:
            say("not all replicas are in sync: a damaged one comes back by itself once its process starts; see its log")
            say("next: headgate cluster status says what each of them waits for")
            return NOT_YET
        time.sleep(POLL_S)


def _say_whole(groups: Sequence[Heard], wanted: int, say: Say) -> None:
    """Say which replicas are in sync: one that was started just now is not among them before it has registered."""
    for group, _ in groups:
        say(f"{group.name}: all {len(group.members)} replicas are in sync: {ids_text(group.in_sync)}")
    if not wanted:
        say("a replica that has not registered yet was not waited for: --replicas N waits until there are N")


def _share(position: str, goal: int) -> str:
    digits = position.replace(",", "")
    return f", {min(100 * int(digits) // goal, 100)} %" if digits.isdigit() and goal > 0 else ""


def made(refusal: GroupRefusal | None, group: StoreGroup | None) -> StoreGroup:
    if refusal is not None or group is None:
        raise ConfigError(f"nothing was changed: {(refusal or GroupRefusal.UNKNOWN_GROUP).value}")
    return group


def replica_of(group: StoreGroup, replica: int) -> StoreReplica:
    """The replica of a group. Raises ConfigError when there is none."""
    found = group.replica(replica)
    if found is None:
        raise ConfigError(
            f"store group {group.name} has no replica {replica}: it has {ids_text([each.id for each in group.replicas])}"
        )
    return found


def ids_text(found: Sequence[int]) -> str:
    """Ids of replicas, text for people."""
    return ", ".join(map(str, found)) or "none"


def said(value: int) -> str:
    return "unknown" if value == UNKNOWN else f"{value:,}"
