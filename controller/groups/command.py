"""Changes as the commands of the raft log: version 1 | kind 1 | the fields of the change, in their order (octets.py).

A version ends before the fields that LATER gives to later ones. The lowest version is written that has all fields with a value.

A controller that does not know the version or the kind stops: it must not continue without a change that others have made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields
from typing import Any, Final

from controller.groups import octets
from controller.groups.octets import OctetReader
from controller.raft.refusal import LaterVersionError
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
from domain.controller.controller_list import SetControllers

VERSION: Final = 1
VERSION_WITH_RUNS: Final = 2
VERSION_WITH_IDENTITY: Final = 3
VERSION_WITH_ACKS: Final = 4
VERSION_KEEPING_DEAD: Final = 5
LogChange = GroupChange | SetControllers
KINDS: Final[dict[int, type[LogChange]]] = {
    1: ApplyId,
    2: RegisterReplica,
    3: AlterSet,
    4: ElectLeader,
    5: CleanReplicas,
    6: SetMinInSync,
    7: RecoverGroup,
    8: SetControllers,
    9: FoundGroup,
    10: SetAcks,
    11: PromoteLearner,
}
"""Numbers in the log: a number that was used is never another kind's."""
LATER: Final = {
    (RegisterReplica, "run"): VERSION_WITH_RUNS,
    (RegisterReplica, "runs_before"): VERSION_WITH_RUNS,
    (RegisterReplica, "identity"): VERSION_WITH_IDENTITY,
    (RegisterReplica, "fresh"): VERSION_WITH_IDENTITY,
    (ElectLeader, "fresh"): VERSION_WITH_IDENTITY,
    (FoundGroup, "fresh"): VERSION_WITH_IDENTITY,
    (ApplyId, "dead"): VERSION_WITH_ACKS,
    (AlterSet, "acks"): VERSION_WITH_ACKS,
    (ElectLeader, "fenced"): VERSION_WITH_ACKS,
    (ElectLeader, "keeps_dead"): VERSION_KEEPING_DEAD,
}
"""Fields that version 1 does not have, with the first version that does; they are the last ones of their change."""
_KIND_OF: Final = {change: kind for kind, change in KINDS.items()}


def encode(change: LogChange) -> bytes:
    """A change within its limits (limits.py) -> a command."""
    kind = type(change)
    version = max(_since(kind, each) if getattr(change, each.name) else VERSION for each in fields(change))
    return bytes((version, _KIND_OF[kind])) + b"".join(
        octets.encode(str(each.type), getattr(change, each.name)) for each in _fields_of(kind, version)
    )


def decode(data: bytes) -> LogChange:
    """A command -> the change. Raises LaterVersionError for one of a later version, ValueError for other bytes."""
    if len(data) >= 2 and (data[0] > VERSION_KEEPING_DEAD or data[1] > max(KINDS)):
        raise LaterVersionError(f"a command in the log has version {data[0]} and kind {data[1]}")
    if len(data) < 2 or not data[0] >= VERSION or data[1] not in KINDS:
        raise ValueError(f"no command of version {VERSION} to {VERSION_KEEPING_DEAD}: {data[:2].hex()}")
    version, kind = data[0], KINDS[data[1]]
    if version != VERSION and all(_since(kind, each) != version for each in fields(kind)):
        raise ValueError(f"no command of kind {data[1]} has version {version}")
    reader = OctetReader(data, 2)
    form: Callable[..., LogChange] = kind
    change = form(*(reader.value(str(each.type)) for each in _fields_of(kind, version)))
    reader.finish()
    return change


def _since(kind: type[LogChange], field: Field[Any]) -> int:
    """First version that has a field."""
    return LATER.get((kind, field.name), VERSION)


def _fields_of(kind: type[LogChange], version: int) -> list[Field[Any]]:
    return [each for each in fields(kind) if _since(kind, each) <= version]
