"""Restoring of controllers that do not know the newest election of a store group: an operator says whose log it goes on with.

So it is when all of them have lost their folders, when they have an older copy of these, and when a node that went on alone is
to begin a group.
"""

from __future__ import annotations

from collections.abc import Sequence

from domain.admin.text_table import aligned
from domain.controller.answer import GroupRefusal
from domain.controller.change import FoundGroup
from domain.controller.group import StoreGroup
from domain.controller.request import ReplicaHeard
from domain.errors import ConfigError
from gateway.cluster.operator.next_steps import next_step
from gateway.cluster.operator.orders import DONE, GroupOrders, Say, ends_of, made, replica_of, said
from gateway.cluster.operator.status import REPLICA_TITLES, headline, replica_rows


def restore(controllers: GroupOrders, name: str, replica: int, replicas: int, accept_loss: bool, say: Say) -> int:
    """Show the logs of the replicas of a group, and let it go on with one of them. Raises ConfigError when it is refused.

    replica      whose log it is; 0: the longest one, or none while `replicas` is 0
    replicas     number of replicas that the group had, without learners: with fewer nothing is changed; 0: not said
    accept_loss  True: a log that is not the longest one may be named
    """
    group, heard = controllers.group(name)
    for line in logs(group, heard):
        say(line)
    if group.members and not group.lacks_election([each.report for each in heard]):
        raise ConfigError(f"nothing was changed: {GroupRefusal.HAS_MEMBERS.value}")
    ends = {each.id: ends_of(group, heard)[each.id] for each in group.replicas if not each.learner}
    longest = max(ends, key=lambda each: ends[each], default=0)
    if len(ends) < replicas:
        raise ConfigError(
            f"nothing was changed: {len(ends)} of {replicas} replicas have registered, and the longest log may be that of one "
            "that is away. Start the others; without one whose disk is lost, give the number of those that are left"
        )
    if not replica and not replicas:
        say(
            f"nothing was changed: start all replicas, then headgate cluster restore-controllers {name} --replicas N restores "
            "from the longest log when N of them have registered"
        )
        return DONE
    chosen = replica or longest
    replica_of(group, chosen)
    if ends.get(chosen, (0, 0)) < ends.get(longest, (0, 0)) and not accept_loss:
        raise ConfigError(
            f"nothing was changed: the log of replica {chosen} lacks what replica {longest} has. Name {longest}, or give "
            "--accept-loss; what the others have besides is set aside at each of them"
        )
    answer = controllers.change(FoundGroup(name, chosen))
    members = () if answer.group is None else answer.group.in_sync
    after = made(None if members == (chosen,) else answer.refusal, answer.group)
    say(f"replica {after.leader} leads {name} from epoch {after.leader_epoch} on; the others follow it from here")
    say(next_step(after))
    say("headgate cluster status shows what was set aside")
    return DONE


def logs(group: StoreGroup, heard: Sequence[ReplicaHeard]) -> list[str]:
    """The logs of all replicas that have registered, which is the longest, and whether they are of several groups."""
    lines = [headline(group), *aligned([REPLICA_TITLES, *replica_rows(group, heard)])]
    ends = ends_of(group, heard)
    longest = max((each.id for each in group.replicas if not each.learner), key=lambda each: ends[each], default=0)
    if longest:
        lines.append(
            f"the longest log is that of replica {longest}: epoch {said(ends[longest][0])}, end {said(ends[longest][1])}"
        )
    kinds = {each.identity for each in group.replicas if each.identity}
    if len(kinds) > 1:
        for identity in sorted(kinds):
            ids = ", ".join(str(each.id) for each in group.replicas if each.identity == identity)
            lines.append(f"! the logs of replicas {ids} are of their own store group ({identity}), and follow no other one")
    return lines
