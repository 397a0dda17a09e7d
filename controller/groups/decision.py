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
