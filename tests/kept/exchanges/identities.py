"""Frames with what tells store groups and histories apart: identities of groups, writers of eras, marks of batches."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from controller.groups import command as group_command
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import ElectLeader
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import GroupChanged, StoreGroupsListed
from domain.replication.message import Era, FollowAccepted, FollowRefusal, FollowRefused
from protocols.remoting import codes
from protocols.remoting.controller import asking, change_form
from protocols.remoting.controller.dispatch import READERS
from protocols.remoting.nodes.replication.dispatch import READERS as REPLICA_READERS
from tests.kept.exchanges.controllers import FIGURES, LIST, asked
from tests.kept.exchanges.exchange import Exchange, Exchanges, answer, request
from tests.kept.exchanges.raft import BOOK, REPORTS, snapshot_exchange, state
from tests.kept.exchanges.replication import FOLLOW, answered, follow
from tests.kept.exchanges.since import FOUND, REFUSES, REGISTER, RUNNING

IDENTITY = "00112233445566778899aabbccddeeff"
NAMED = replace(RUNNING, identity=IDENTITY, replicas=(replace(RUNNING.replicas[0], identity=IDENTITY), *RUNNING.replicas[1:]))
REGISTER_NAMED = replace(REGISTER, identity=IDENTITY)
WORD = ReplicaWord(REPORTS[0], FIGURES, "run-2", identity=IDENTITY)
ERAS = (Era(3, 0), Era(5, 700, 77), Era(6, 800, (1 << 63) - 1))

IDENTITIES: Exchanges = {
    "heartbeat with an identity": request(
        READERS,
        asked(codes.BROKER_HEARTBEAT, asking.heartbeat("main", "broker-a", "10.0.0.1:10912", WORD, 3_000)),
    ),
    "change: register with an identity": request(
        READERS,
        asked(codes.CHANGE_STORE_GROUP, change_form.process_fields(REGISTER_NAMED), asking.changing(REGISTER_NAMED)),
    ),
    "answer with an identity": answer(
        READERS, asked(codes.CHANGE_STORE_GROUP, {}, asking.changing(FOUND)),
        GroupChanged(None, GroupAnswer(GroupRefusal.OTHER_GROUP, NAMED), frozenset({1})), asking.changed,
    ),
    "list with an identity": answer(READERS, LIST, StoreGroupsListed(None, None, [(NAMED, REFUSES)]), asking.listed),
    "command: register with an identity": Exchange(
        partial(group_command.encode, replace(REGISTER_NAMED, fresh="fresh")), group_command.decode
    ),
    "command: elect with an identity": Exchange(
        partial(group_command.encode, ElectLeader("broker-a", REPORTS, 2, 0, 4, IDENTITY)), group_command.decode
    ),
    "command: found with an identity": Exchange(
        partial(group_command.encode, replace(FOUND, fresh=IDENTITY)), group_command.decode
    ),
    "snapshot version 4": snapshot_exchange(state(NAMED, book=BOOK)),
    "follow with writers": request(
        REPLICA_READERS, partial(follow, replace(FOLLOW, eras=ERAS, identity=IDENTITY, run="run-2"))
    ),
    "accepted, with a batch": answered(FollowAccepted(None, 5, 900, 100, -1, 850, 0xFFEEDDCC)),
    "refused: OTHER_GROUP": answered(FollowRefused(None, FollowRefusal.OTHER_GROUP, 6)),
    "refused: OTHER_HISTORY": answered(FollowRefused(None, FollowRefusal.OTHER_HISTORY, 6)),
}  # fmt: skip
