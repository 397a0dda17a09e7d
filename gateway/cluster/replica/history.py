"""History check: a replica follows a leader only if both logs have the same history; equal epochs alone do not prove that."""

from __future__ import annotations

from typing import Final

from domain.controller.answer import GroupRefusal
from domain.controller.group import StoreGroup
from domain.replication.ports import FollowerLog
from gateway.cluster.replica.registering_state import incarnation_text

_OTHER: Final = (
    "this replica does not follow replica {leader}, which leads in epoch {led}: its own log is of epoch {own}, and of another "
    "history. If the controllers have lost their folders: stop replica {leader}, and let the complete log lead by headgate "
    'cluster recover (docs/controllers.md, "When the controllers have lost their log"). If this node is of another cluster: '
    "stop it, and correct replication.controllers"
)


def refusal_of(group: StoreGroup, own: int, log: FollowerLog, is_learner: bool) -> str:
    """The reason why replica `own` may neither follow the leader nor request an election, text for people; "": it may.

    - the controllers know no election, but a replica has a log of an earlier epoch: a new leader would overwrite that log
    - the leader's epoch is lower than that of `log`, or equal and written by another log: the histories differ
    """
    if group.is_forgotten:
        return "" if is_learner else f"{GroupRefusal.FORGOTTEN.value} {group.name}"
    leader, eras = group.replica(group.leader), log.eras()
    if leader is None or leader.id == own or not eras or not eras[-1].epoch:
        return ""
    epoch, writer = eras[-1].epoch, incarnation_text(log.writer)
    is_same = epoch == group.leader_epoch and (not writer or leader.incarnation in ("", writer))
    if epoch < group.leader_epoch or is_same:
        return ""
    return _OTHER.format(own=epoch, leader=leader.id, led=group.leader_epoch)
