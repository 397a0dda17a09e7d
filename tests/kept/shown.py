"""Values as JSON, to be kept and compared."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

from domain.controller.answer import GroupRefusal

LEFT_OUT: Final = frozenset({"ticket", "principal"})
"""Attributes that are each node's own."""
ADDED: Final[dict[tuple[str, str], object]] = {
    ("Era", "writer"): 0,
    ("Follow", "run"): "",
    ("Follow", "gates"): "",
    ("Follow", "identity"): "",
    ("FollowAccepted", "common"): -1,
    ("FollowAccepted", "last"): -1,
    ("FollowAccepted", "checksum"): 0,
    ("FollowAccepted", "gates"): "",
    ("LogBytes", "question"): 0,
    ("LogHeld", "answers"): 0,
    ("ApplyId", "dead"): [],
    ("RegisterReplica", "run"): "",
    ("RegisterReplica", "runs_before"): [],
    ("RegisterReplica", "identity"): "",
    ("RegisterReplica", "fresh"): "",
    ("ElectLeader", "fresh"): "",
    ("FoundGroup", "fresh"): "",
    ("StoreGroup", "identity"): "",
    ("AlterSet", "acks"): 0,
    ("ElectLeader", "fenced"): [],
    ("ElectLeader", "keeps_dead"): False,
    ("ReplicaReport", "fence"): -1,
    ("StoreGroup", "acks"): 0,
    ("StoreGroup", "wanted_acks"): 0,
    ("StoreReplica", "run"): "",
    ("StoreReplica", "identity"): "",
    ("StoreGroup", "order"): 0,
    ("HearReplica", "run"): "",
    ("HearReplica", "refuses"): "",
    ("HearReplica", "remote"): {"of": "RemoteWord", "place": "", "lag_bytes": 0, "quiet_ms": 0},
    ("ReplicaHeard", "remote"): {"of": "RemoteWord", "place": "", "lag_bytes": 0, "quiet_ms": 0},
    ("HearReplica", "left_out"): [],
    ("ReplicaHeard", "left_out"): [],
    ("ReplicaReport", "seen"): {"of": "StateSeen", "leader_epoch": 0, "set_epoch": 0},
    ("HearReplica", "identity"): "",
    ("HearReplica", "aside"): {"of": "KeptAside", "folders": 0, "size": 0},
    ("ReplicaHeard", "aside"): {"of": "KeptAside", "folders": 0, "size": 0},
    ("HearReplica", "parted"): 0,
    ("HearReplica", "serving"): {"of": "ServingWord", "epoch": -1, "unready": "", "gateways": []},
    ("ReplicaHeard", "serving"): {"of": "ServingWord", "epoch": -1, "unready": "", "gateways": []},
    ("ListStoreGroups", "identity"): "",
    ("ControllerFound", "strangers"): [],
    ("ControllerFound", "gateways"): [],
    ("ControllerFound", "searching"): [],
    ("ReplicaHeard", "refuses"): "",
    ("ReplicaHeard", "run"): "",  # this one and the next two go with a heartbeat alone
    ("ReplicaHeard", "identity"): "",
    ("ReplicaHeard", "parted"): 0,
    ("Welcome", "epoch"): 0,
    ("GreetController", "level"): 0,
    ("ControllerGreeted", "level"): 0,
    ("ClientItem", "ends_at"): 0,
    ("Attach", "ends_at"): "EndsAt.NONE",  # goes with the client
    ("Will", "host"): "",  # this one and the next are set by the gate of the node that has the client
    ("Will", "registered"): False,
    ("ListGroups", "after"): "",
    ("ListGroups", "limit"): 0,
    ("ConfirmDeliveries", "alone"): False,  # between a connection and its pump: never sent
}
"""(class, attribute) that 44998bdc does not have -> its value when it is read from bytes of 44998bdc."""

GATHERED: Final = {"HearReplica": "word", "ReplicaHeard": "word"}
"""Class today -> its attribute that is a record of attributes which 44998bdc has in that class."""

RENAMED: Final[dict[str, str]] = {"ControllerList": "ControllerBook", "continues_log": "heir_of"}
"""Name of a class, of a member of an enumeration (`Class.MEMBER`) or of an attribute today -> its name at 44998bdc."""
REWORDED: Final = {
    GroupRefusal.FORGOTTEN.value: (
        "these controllers know of no election of the store group, and a replica has a log that was in one: they have lost "
        "their folders, or are those of another cluster. An operator says with whose log the group goes on: headgate cluster "
        "found"
    )
}
"""A text for people today -> the text when it was kept."""


def shown(value: Any) -> Any:
    """A value as JSON. An object is its class and its attributes, a mapping is a list of pairs."""
    if isinstance(value, enum.Enum):
        return _name(f"{_name(type(value).__name__)}.{value.name}")
    if isinstance(value, str):
        return REWORDED.get(value, value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, dict):
        return {"pairs": [[shown(key), shown(each)] for key, each in value.items()]}
    if isinstance(value, set | frozenset):
        return sorted(shown(each) for each in value)
    if hasattr(value, "expression") and hasattr(value, "matches"):
        return {"filter": list(value.expression)}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [shown(each) for each in value]
    found = {"of": _name(type(value).__name__), **{_name(name): shown(getattr(value, name)) for name in _names(value)}}
    if gathered := found.pop(GATHERED.get(type(value).__name__, ""), None):
        found = {**gathered, **found}
    return found


def _name(name: str) -> str:
    return RENAMED.get(name, name)


def _names(value: Any) -> list[str]:
    if hasattr(value, "_fields"):
        return list(value._fields)
    if is_dataclass(value):
        return [each.name for each in fields(value) if each.name not in LEFT_OUT]
    # A compiled class has its attributes under another name.
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", getattr(kind, "__mypyc_attrs__", ()))]
    return sorted({name for name in slots if name not in LEFT_OUT and not name.startswith("_")})


def differences(kept: Any, now: Any, where: str = "") -> Iterator[str]:
    """What of a value of today is not as it was kept. Attributes of ADDED may be there, with the values given there."""
    if isinstance(kept, dict) and isinstance(now, dict):
        kind = now.get("of", "")
        for name in {**kept, **now}:
            at = f"{where}.{name}"
            if name not in now:
                yield f"{at} is gone"
            elif name in kept:
                yield from differences(kept[name], now[name], at)
            elif (kind, name) not in ADDED or ADDED[kind, name] != now[name]:
                yield f"{at} is new: {now[name]!r}"
    elif isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        for number, (one, other) in enumerate(zip(kept, now, strict=True)):
            yield from differences(one, other, f"{where}[{number}]")
    elif type(kept) is not type(now) or kept != now:
        yield f"{where} was {kept!r}, and is {now!r}"
