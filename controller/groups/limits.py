"""The limits of a change (domain/controller/group.py)."""

from __future__ import annotations

from dataclasses import fields

from domain.controller.change import AlterSet, ApplyId, GroupChange, RegisterReplica, SetAcks, SetMinInSync
from domain.controller.group import FIRST_ID, NUMBER_MAX, REPLICAS_MAX, TEXT_BYTES_MAX, UNKNOWN, ReplicaReport


def is_within(change: GroupChange) -> bool:
    """True when every value of a change is within its limits, which bound the state and the log."""
    if not all(_is_small(getattr(change, each.name)) for each in fields(change)) or not change.group:
        return False
    if isinstance(change, ApplyId):
        return change.id >= FIRST_ID and bool(change.node)
    if isinstance(change, RegisterReplica):
        return bool(change.incarnation)
    if isinstance(change, SetMinInSync):
        return 0 <= change.least <= REPLICAS_MAX
    if isinstance(change, SetAcks):
        return 0 <= change.wanted <= REPLICAS_MAX
    if isinstance(change, AlterSet) and not 0 <= change.acks <= REPLICAS_MAX:
        return False
    return not isinstance(change, AlterSet) or all(each.incarnation for each in change.members)


def _is_small(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= TEXT_BYTES_MAX and _utf8_bytes(value) <= TEXT_BYTES_MAX
    if isinstance(value, int):
        return UNKNOWN <= value <= NUMBER_MAX
    if isinstance(value, ReplicaReport):
        return all(_is_small(getattr(value, each.name)) for each in fields(value))
    return isinstance(value, tuple) and len(value) <= REPLICAS_MAX and all(_is_small(each) for each in value)


def _utf8_bytes(text: str) -> int:
    """Bytes of a text; more than any limit when it has no form in UTF-8."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return TEXT_BYTES_MAX + 1
