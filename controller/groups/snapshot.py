"""The state machine as bytes: version 1 | floor 8 | number of groups 2 | the groups in their order (octets.py).

Version 2 has the book of the controllers behind the version. It is written from the first change of their number on. Version 3
has the book, and the run of each replica. It is written once a replica has reported its run. Version 4 has the identities of
groups and replicas too. It is written once one of them has an identity. Version 5 has `acks` of each group besides, and is
written once an operator has set it.

group    cluster | name | next id | leader | leader epoch | members | set epoch | least | list of replicas | identity, from
         version 4 on | acks and wanted acks, in version 5
replica  id | node | address | incarnation | learner | epoch | position | continued log | run, from version 3 on | identity,
         from version 4 on

Raft keeps these bytes in its own snapshot and checks them there. A group takes at most 90 kB, with all limits reached.
"""

from __future__ import annotations

from typing import Final

from controller.groups import octets
from controller.groups.groups import StoreGroups
from controller.groups.octets import OctetReader
from controller.raft.refusal import LaterVersionError

VERSION: Final = 1
VERSION_WITH_BOOK: Final = 2
VERSION_WITH_RUNS: Final = 3
VERSION_WITH_IDENTITY: Final = 4
VERSION_WITH_ACKS: Final = 5
GROUPS: Final = {
    VERSION: "tuple[RunlessGroup, ...]",
    VERSION_WITH_BOOK: "tuple[RunlessGroup, ...]",
    VERSION_WITH_RUNS: "tuple[NamelessGroup, ...]",
    VERSION_WITH_IDENTITY: "tuple[AcklessGroup, ...]",
    VERSION_WITH_ACKS: "tuple[StoreGroup, ...]",
}
"""Version -> the type of its groups (octets.py)."""


def snapshot(groups: StoreGroups) -> bytes:
    """The whole state."""
    version = _version(groups)
    book = b"" if version == VERSION else octets.encode("ControllerList", groups.book)
    found = octets.encode(GROUPS[version], tuple(groups))
    return b"".join((bytes((version,)), book, octets.encode("int", groups.floor), found))


def _version(groups: StoreGroups) -> int:
    """The lowest version that has all of the state."""
    replicas = [replica for group in groups for replica in group.replicas]
    if any(each.acks or each.wanted_acks for each in groups):
        return VERSION_WITH_ACKS
    if any(each.identity for each in (*groups, *replicas)):
        return VERSION_WITH_IDENTITY
    if any(each.run for each in replicas):
        return VERSION_WITH_RUNS
    return VERSION_WITH_BOOK if groups.book.number else VERSION


def restore(data: bytes) -> StoreGroups:
    """The state that `snapshot` wrote; an empty one for no bytes, with which a new raft group begins.

    Raises ValueError for other bytes, LaterVersionError for those of a later version.
    """
    if not data:
        return StoreGroups()
    if data[0] not in GROUPS:
        raise LaterVersionError(f"the snapshot of the store groups has version {data[0]}")
    reader = OctetReader(data, 1)
    book = None if data[0] == VERSION else reader.value("ControllerList")
    floor = reader.value("int")
    found = reader.value(GROUPS[data[0]])
    reader.finish()
    return StoreGroups(iter(found), floor, book)
