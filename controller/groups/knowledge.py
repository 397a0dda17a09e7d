"""What the controller that leads adds to a change before it is replicated: who is alive."""

from __future__ import annotations

from dataclasses import replace

from controller.groups.heartbeats import Heartbeats
from domain.controller.change import AlterSet, CleanReplicas, ElectLeader, GroupChange, RecoverGroup
from domain.controller.group import StoreGroup


def informed(change: GroupChange, group: StoreGroup | None, heartbeats: Heartbeats, now_ms: int) -> GroupChange:
    """The change with what is known of the replicas of its group; what a client said of that does not count."""
    if group is None:
        return change
    if isinstance(change, ElectLeader | RecoverGroup):
        return replace(change, live=heartbeats.live(group, now_ms))
    if isinstance(change, AlterSet):
        return replace(change, dead=heartbeats.dead(group, now_ms))
    if isinstance(change, CleanReplicas):
        return replace(change, live=tuple(each.id for each in heartbeats.live(group, now_ms)))
    return change
