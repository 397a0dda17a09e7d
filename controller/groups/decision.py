"""Decision of a rule about a change of one store group."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from domain.controller.answer import GroupRefusal
from domain.controller.group import NOBODY_LEADS, StoreGroup


class Decision(NamedTuple):
    """The result of a rule.

    group     the new state of the group; None: it is removed
    refusal   None: the change was made
    """

    group: StoreGroup | None
    refusal: GroupRefusal | None = None


def without_leader(group: StoreGroup) -> StoreGroup:
    """Group after its leader was deposed. The epoch rises, so that pollers see the change."""
    return replace(group, leader=NOBODY_LEADS, leader_epoch=group.leader_epoch + 1)


def named(group: StoreGroup, replica: int, fresh: str) -> StoreGroup:
    """Group with an identity, from the log of `replica` on: its own, that of the log, or `fresh`. Without `fresh` it stays as
    it is: a controller of a version before gives none."""
    if group.identity or not fresh:
        return group
    known = group.replica(replica)
    return replace(group, identity=(known.identity if known is not None else "") or fresh)
