"""Values as bytes, by their types: text 2 + n UTF-8 | number 8, signed | flag 1 | list 2 + its elements | record: its fields.

All numbers are big-endian. A type is named as in the annotation of a field; a tuple of any length is a list.
"""

from __future__ import annotations

import struct
from typing import Any, Final, final

from domain.controller.controller_list import ControllerList, ControllerPlace
from domain.controller.group import ReplicaReport, SetMember, StoreGroup, StoreReplica

_COUNT: Final = struct.Struct(">H")
_NUMBER: Final = struct.Struct(">q")
_LIST: Final = ("tuple[", ", ...]")

_REPLICA: Final = {
    "id": "int",
    "node": "str",
    "address": "str",
    "incarnation": "str",
    "learner": "bool",
    "epoch": "int",
    "position": "int",
    "continues_log": "str",
}
_GROUP: Final = {
    "cluster": "str",
    "name": "str",
    "next_id": "int",
    "leader": "int",
    "leader_epoch": "int",
    "members": "tuple[SetMember, ...]",
    "set_epoch": "int",
    "least": "int",
}
_NAMED: Final = {**_GROUP, "replicas": "tuple[StoreReplica, ...]", "identity": "str"}
RECORDS: Final[dict[str, tuple[type, dict[str, str]]]] = {
    "SetMember": (SetMember, {"id": "int", "incarnation": "str"}),
    "ReplicaReport": (
        ReplicaReport,
        {"id": "int", "incarnation": "str", "epoch": "int", "position": "int", "priority": "int"},
    ),
    "ControllerPlace": (ControllerPlace, {"address": "str", "node": "int"}),
    "ControllerList": (ControllerList, {"number": "int", "places": "tuple[ControllerPlace, ...]"}),
    "RunlessReplica": (StoreReplica, _REPLICA),
    "RunlessGroup": (StoreGroup, {**_GROUP, "replicas": "tuple[RunlessReplica, ...]"}),
    "NamelessReplica": (StoreReplica, {**_REPLICA, "run": "str"}),
    "NamelessGroup": (StoreGroup, {**_GROUP, "replicas": "tuple[NamelessReplica, ...]"}),
    "StoreReplica": (StoreReplica, {**_REPLICA, "run": "str", "identity": "str"}),
    "AcklessGroup": (StoreGroup, _NAMED),
    "StoreGroup": (StoreGroup, {**_NAMED, "acks": "int", "wanted_acks": "int"}),
}
"""Records: the class, and the fields in the order of their bytes, with their types. Runless: before snapshots of version 3;
nameless: those of version 3; ackless: those of version 4."""


def encode(form: str, value: Any) -> bytes:
    """Encode a value of the type that `form` names.

    A text has at most 65,535 bytes, a list as many elements, a number 64 bits.
    """
    if form == "int":
        return _NUMBER.pack(value)
    if form == "bool":
        return b"\1" if value else b"\0"
    if form == "str":
        data: bytes = value.encode()
        return _COUNT.pack(len(data)) + data
    if form.startswith(_LIST[0]):
        element = _element(form)
        return _COUNT.pack(len(value)) + b"".join([encode(element, each) for each in value])
    return b"".join([encode(each, getattr(value, name)) for name, each in RECORDS[form][1].items()])


def _element(form: str) -> str:
    return form.removeprefix(_LIST[0]).removesuffix(_LIST[1])


@final
class OctetReader:
    """Reader of the encodings of this file. Every method raises ValueError for other bytes."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def finish(self) -> None:
        """Nothing may follow."""
        if self._at != len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes follow the last value")

    def value(self, form: str) -> Any:
        """Read a value of the type that `form` names."""
        if form == "int":
            return _NUMBER.unpack(self._take(_NUMBER.size))[0]
        if form == "bool":
            found = self._take(1)[0]
            if found > 1:
                raise ValueError(f"{found} is no truth value")
            return found == 1
        if form == "str":
            return self._take(self._count()).decode()
        if form.startswith(_LIST[0]):
            element = _element(form)
            return tuple(self.value(element) for _ in range(self._count()))
        made, fields = RECORDS[form]
        return made(**{name: self.value(each) for name, each in fields.items()})

    def _count(self) -> int:
        found: int = _COUNT.unpack(self._take(_COUNT.size))[0]
        return found

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise ValueError(f"the bytes end at {len(self._data)}, within a value")
        found = self._data[self._at : end]
        self._at = end
        return found
