"""Raft between controllers: messages, and the commands and snapshots that messages and files carry."""

from __future__ import annotations

from functools import partial
from typing import Any

from controller.groups import command as group_command
from controller.groups import snapshot as group_snapshot
from controller.groups.groups import StoreGroups
from controller.peers import message_bytes
from controller.raft import configuration as raft_configuration
from controller.raft.configuration import Configuration
from controller.raft.entry import EntryKind, LogEntry
from controller.raft.message import (
    AppendAnswer,
    AppendRequest,
    HeartbeatAnswer,
    LeaderHeartbeat,
    PreVoteAnswer,
    PreVoteRequest,
    RaftMessage,
    SnapshotRequest,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from controller.raft.persisted import RaftSnapshot
from domain.controller.change import (
    AlterSet,
    ApplyId,
    CleanReplicas,
    ElectLeader,
    RecoverGroup,
    RegisterReplica,
    SetMinInSync,
)
from domain.controller.controller_list import ControllerList, ControllerPlace, SetControllers
from domain.controller.group import ReplicaReport, SetMember, StoreGroup, StoreReplica
from tests.kept.exchanges.exchange import Exchange, Exchanges

NODES = (11, 12, 1 << 62)
JOINT = Configuration(frozenset({11, 12}), frozenset({11, 13}), frozenset({1 << 62}))
REPORTS = (ReplicaReport(1, "log-1", 4, 700, 5), ReplicaReport(2, "lög-2"))
MEMBERS = (SetMember(1, "log-1"), SetMember(3, "log-3"))
BOOK = ControllerList(4, (ControllerPlace("10.0.2.1:9878", 11), ControllerPlace("[::1]:9878", 0)))
GROUP = StoreGroup(
    "main", "broker-a", 4,
    (
        StoreReplica(1, "proof-1", "10.0.0.1:10912", "log-1", False, 4, 700, "log-0"),
        StoreReplica(2, "proof-2", "10.0.0.2:10912", "lög-2", True),
        StoreReplica(3, "proof-3", "10.0.0.3:10912", "log-3", False, 3, 650),
    ),
    1, 4, MEMBERS, 9, 2,
)  # fmt: skip
CHANGES: dict[str, group_command.LogChange] = {
    "apply id": ApplyId("broker-a", "main", 3, "10.0.0.3:10912;9", "10.0.0.3:10912"),
    "register": RegisterReplica("broker-a", "main", 1, "10.0.0.1:10912", "log-1", False, 4, 700, "log-0"),
    "register learner": RegisterReplica("broker-a", "main", 2, "10.0.0.2:10912", "lög-2", True),
    "alter set": AlterSet("broker-a", 1, 4, 8, MEMBERS, (2,)),
    "elect": ElectLeader("broker-a", REPORTS, 2, 0, 4),
    "elect designated": ElectLeader("broker-a", REPORTS, 0, 3),
    "clean": CleanReplicas("broker-a", (2, 3), (1,), True),
    "min in sync": SetMinInSync("broker-a", 2),
    "recover": RecoverGroup("broker-a", 2, 9, "broker-a", REPORTS),
    "controllers": SetControllers(BOOK),
}
ENTRIES = (
    LogEntry(3, 8, EntryKind.EMPTY),
    LogEntry(4, 9, EntryKind.COMMAND, b"\x01\x06what a command is"),
    LogEntry(4, 10, EntryKind.CONFIGURATION, JOINT.encode()),
)
FACTS: dict[str, Any] = {"sender": 11, "to": 1 << 62, "term": 4}
MESSAGES: dict[str, RaftMessage] = {
    "pre-vote request": PreVoteRequest(**FACTS, last_index=9, last_term=3),
    "pre-vote answer": PreVoteAnswer(**FACTS, election=5, granted=True),
    "vote request": VoteRequest(**FACTS, last_index=9, last_term=3),
    "vote request of a transfer": VoteRequest(**FACTS, last_index=9, last_term=3, transfer=True),
    "vote answer": VoteAnswer(**FACTS, granted=False),
    "append request": AppendRequest(**FACTS, previous_index=7, previous_term=3, entries=ENTRIES, commit=6),
    "append request without entries": AppendRequest(**FACTS, previous_index=7, previous_term=3, entries=(), commit=7),
    "append answer": AppendAnswer(**FACTS, index=10),
    "append answer that rejects": AppendAnswer(**FACTS, index=7, rejected=True, hint_index=5, hint_term=2),
    "heartbeat": LeaderHeartbeat(**FACTS, commit=7, round=3),
    "heartbeat answer": HeartbeatAnswer(**FACTS, round=3),
    "snapshot request": SnapshotRequest(**FACTS, snapshot=RaftSnapshot(9, 4, JOINT, b"the state machine")),
    "timeout now": TimeoutNow(**FACTS),
}


def state(*groups: StoreGroup, book: ControllerList | None = None) -> StoreGroups:
    """A state machine."""
    return StoreGroups(iter(groups), 17, book)


def facts_of(groups: StoreGroups) -> Any:
    """All that a state machine has."""
    return [groups.floor, groups.book, list(groups)]


def snapshot_exchange(made: StoreGroups) -> Exchange:
    """A snapshot of the state machine."""
    return Exchange(partial(group_snapshot.snapshot, made), lambda data: facts_of(group_snapshot.restore(data)))


RAFT: Exchanges = {
    **{
        f"message: {name}": Exchange(partial(message_bytes.encode, each), message_bytes.decode)
        for name, each in MESSAGES.items()
    },
    **{
        f"command: {name}": Exchange(partial(group_command.encode, each), group_command.decode)
        for name, each in CHANGES.items()
    },
    "configuration": Exchange(JOINT.encode, raft_configuration.decode),
    "snapshot version 1": snapshot_exchange(state(GROUP, StoreGroup("main", "broker-b"))),
    "snapshot version 2": snapshot_exchange(state(GROUP, book=BOOK)),
}
