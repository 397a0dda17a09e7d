"""A change of a store group as JSON: {"change": name of its class, and its fields} (domain/controller/change.py)."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Final

from domain.controller.change import (
    AlterSet,
    ApplyId,
    CleanReplicas,
    ElectLeader,
    FoundGroup,
    GroupChange,
    PromoteLearner,
    RecoverGroup,
    RegisterReplica,
    SetAcks,
    SetMinInSync,
)
from domain.controller.group import REPLICAS_MAX, SetMember
from protocols.remoting import codes
from protocols.remoting.ticket import Arguments, RequestError
from protocols.remoting.wire.bean import Bean

CHANGES: Final[dict[str, type[GroupChange]]] = {
    each.__name__: each
    for each in (
        ApplyId,
        RegisterReplica,
        AlterSet,
        ElectLeader,
        CleanReplicas,
        SetMinInSync,
        RecoverGroup,
        FoundGroup,
        SetAcks,
        PromoteLearner,
    )
}
APART: Final = frozenset({"run", "runs_before", "identity", "acks"})
"""Fields that are ext fields of the request (`process_fields`): versions before refuse an object that has them."""
UNSAID: Final = frozenset({"live", "dead", "fenced", "fresh", "keeps_dead"}) | APART
"""Fields that an object does not have: the controller takes `live`, `dead` and `fenced` from heartbeats, draws `fresh`,
and sets `keeps_dead` where all controllers read it."""
_IDENTITY: Final = "groupIdentity"


def process_fields(change: GroupChange) -> dict[str, str]:
    """The ext fields of a change: the process that asks for it, the store group of its log, and `acks` of a set."""
    if isinstance(change, AlterSet) and change.acks:
        return {"acks": str(change.acks)}
    if not isinstance(change, RegisterReplica):
        return {}
    run = {"run": change.run, "runsBefore": ",".join(change.runs_before)} if change.run else {}
    return {**run, **({_IDENTITY: change.identity} if change.identity else {})}


def with_process(change: GroupChange, args: Arguments) -> GroupChange:
    """The change with these fields. Raises RequestError."""
    if isinstance(change, AlterSet):
        return replace(change, acks=args.number("acks", 0))
    if not isinstance(change, RegisterReplica):
        return change
    before = tuple(each for each in args.text("runsBefore", "").split(",") if each)
    if len(before) > REPLICAS_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"{len(before)} runs before this one, at most {REPLICAS_MAX} are possible")
    return replace(change, run=args.text("run", ""), runs_before=before, identity=args.text(_IDENTITY, ""))


def write(change: GroupChange) -> dict[str, object]:
    """The change as an object, without the fields that are UNSAID."""
    found: dict[str, object] = {"change": type(change).__name__}
    for each in fields(change):
        if each.name not in UNSAID:
            value = getattr(change, each.name)
            found[each.name] = (
                [list(one) if isinstance(one, tuple) else one for one in value] if type(value) is tuple else value
            )
    return found


def read(found: Bean) -> GroupChange:
    """The change. Raises RequestError for an unknown change, and for a field that is missing, unknown or of another type."""
    name = found.get("change")
    form: Any = CHANGES.get(name) if isinstance(name, str) else None
    if form is None:
        raise RequestError(codes.INVALID_PARAMETER, f"change is one of {', '.join(CHANGES)}")
    types = {each.name: str(each.type) for each in fields(form) if each.name not in UNSAID}
    given = {key: _value(key, types.get(key, ""), value) for key, value in found.items() if key != "change"}
    try:
        made: GroupChange = form(**given)
    except TypeError as error:
        raise RequestError(codes.INVALID_PARAMETER, f"{name} lacks a field: {error}") from error
    return made


def _value(name: str, wanted: str, value: object) -> object:
    if wanted == "bool" and isinstance(value, bool):
        return value
    if wanted == "int" and _is_number(value):
        return value
    if wanted == "str" and isinstance(value, str):
        return value
    if isinstance(value, list) and len(value) <= REPLICAS_MAX:
        if wanted == "tuple[int, ...]" and all(map(_is_number, value)):
            return tuple(value)
        if wanted == "tuple[SetMember, ...]" and all(map(_is_member, value)):
            return tuple(SetMember(*each) for each in value)
    raise RequestError(
        codes.INVALID_PARAMETER, f"{name[:100]!r} is no field of the change, or its value is no {wanted or 'value'}"
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63


def _is_member(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and _is_number(value[0]) and isinstance(value[1], str)
