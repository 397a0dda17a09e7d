"""The state machine as bytes: version 1 | floor 8 | number of groups 2 | the groups in their order (octets.py).

Version 2 has the book of the controllers behind the version. It is written from the first change of their number on. Version 3
has the book, and the run of each replica. It is written once a replica has reported its run.

group    cluster | name | next id | leader | leader epoch | members | set epoch | least | list of replicas
replica  id | node | address | incarnation | learner | epoch | position | continued log | run, in version 3

Raft keeps these bytes in its own snapshot and checks them there. A group takes at most 90 kB, with all limits reached.
"""

from __future__ import annotations

from typing import Final

from controller.groups import octets
from controller.groups.groups import StoreGroups
from controller.groups.octets import OctetReader
from domain.controller.group import StoreGroup, StoreReplica

VERSION: Final = 1
VERSION_WITH_BOOK: Final = 2
VERSION_WITH_RUNS: Final = 3


def snapshot(groups: StoreGroups) -> bytes:
    """The whole state."""
    runs = any(replica.run for group in groups for replica in group.replicas)
    found = [_group(each, runs) for each in groups]
    version = VERSION_WITH_RUNS if runs else VERSION_WITH_BOOK if groups.book.number else VERSION
    book = b"" if version == VERSION else octets.book(groups.book)
    return b"".join((bytes((version,)), book, octets.number(groups.floor), len(found).to_bytes(2, "big"), *found))


def restore(data: bytes) -> StoreGroups:
    """The state that `snapshot` wrote; an empty one for no bytes, with which a new raft group begins.

    Raises ValueError for other bytes, and for those of a later version.
    """
    if not data:
        return StoreGroups()
    if data[0] not in (VERSION, VERSION_WITH_BOOK, VERSION_WITH_RUNS):
        raise ValueError(f"a snapshot of version {data[0]}")
    reader = OctetReader(data, 1)
    book = None if data[0] == VERSION else reader.book()
    floor = reader.number()
    found = reader.list_of(lambda: _read_group(reader, data[0] == VERSION_WITH_RUNS))
    reader.finish()
    return StoreGroups(iter(found), floor, book)


def _group(group: StoreGroup, runs: bool) -> bytes:
    return b"".join(
        (
            octets.text(group.cluster),
            octets.text(group.name),
            octets.number(group.next_id),
            octets.number(group.leader),
            octets.number(group.leader_epoch),
            octets.members(group.members),
            octets.number(group.set_epoch),
            octets.number(group.least),
            len(group.replicas).to_bytes(2, "big"),
            *(_replica(each, runs) for each in group.replicas),
        )
    )


def _replica(replica: StoreReplica, runs: bool) -> bytes:
    return b"".join(
        (
            octets.number(replica.id),
            octets.text(replica.node),
            octets.text(replica.address),
            octets.text(replica.incarnation),
            octets.flag(replica.learner),
            octets.number(replica.epoch),
            octets.number(replica.position),
            octets.text(replica.continues_log),
            octets.text(replica.run) if runs else b"",
        )
    )


def _read_group(reader: OctetReader, runs: bool) -> StoreGroup:
    cluster, name = reader.text(), reader.text()
    next_id, leader, leader_epoch = reader.number(), reader.number(), reader.number()
    members = reader.members()
    set_epoch, least = reader.number(), reader.number()
    replicas = reader.list_of(lambda: _read_replica(reader, runs))
    return StoreGroup(cluster, name, next_id, replicas, leader, leader_epoch, members, set_epoch, least)


def _read_replica(reader: OctetReader, runs: bool) -> StoreReplica:
    replica_id, node, address, incarnation = reader.number(), reader.text(), reader.text(), reader.text()
    learner, epoch, position, continues_log = reader.flag(), reader.number(), reader.number(), reader.text()
    run = reader.text() if runs else ""
    return StoreReplica(replica_id, node, address, incarnation, learner, epoch, position, continues_log, run)
