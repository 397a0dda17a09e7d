"""Changes as the commands of the raft log: version 1 | kind 1 | the fields of the change, in their order (octets.py).

Version 1 ends before the fields of LATER. Version 2 has all, and is written when one of them has a value.

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
    RecoverGroup,
    RegisterReplica,
    SetMinInSync,
)
from domain.controller.controller_list import SetControllers

VERSION: Final = 1
VERSION_WHOLE: Final = 2
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
}
"""Numbers in the log: a number that was used is never another kind's."""
LATER: Final = frozenset({"run", "runs_before"})
"""Fields that version 1 does not have; they are the last ones of their change."""
_KIND_OF: Final = {change: kind for kind, change in KINDS.items()}


def encode(change: LogChange) -> bytes:
    """A change within its limits (limits.py) -> a command."""
    whole = any(getattr(change, each.name) for each in fields(change) if each.name in LATER)
    version = VERSION_WHOLE if whole else VERSION
    return bytes((version, _KIND_OF[type(change)])) + b"".join(
        octets.encode(str(each.type), getattr(change, each.name)) for each in _fields_of(type(change), version)
    )


def decode(data: bytes) -> LogChange:
    """A command -> the change. Raises LaterVersionError for one of a later version, ValueError for other bytes."""
    if len(data) >= 2 and (data[0] > VERSION_WHOLE or data[1] > max(KINDS)):
        raise LaterVersionError(f"a command in the log has version {data[0]} and kind {data[1]}")
    if len(data) < 2 or data[0] not in (VERSION, VERSION_WHOLE) or data[1] not in KINDS:
        raise ValueError(f"no command of version {VERSION} or {VERSION_WHOLE}: {data[:2].hex()}")
    if data[0] == VERSION_WHOLE and not any(each.name in LATER for each in fields(KINDS[data[1]])):
        raise ValueError(f"no command of kind {data[1]} has version {VERSION_WHOLE}")
    reader = OctetReader(data, 2)
    form: Callable[..., LogChange] = KINDS[data[1]]
    change = form(*(reader.value(str(each.type)) for each in _fields_of(KINDS[data[1]], data[0])))
    reader.finish()
    return change


def _fields_of(kind: type[LogChange], version: int) -> list[Field[Any]]:
    return [each for each in fields(kind) if version == VERSION_WHOLE or each.name not in LATER]
