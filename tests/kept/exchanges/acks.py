"""Frames of groups in which fewer than all members confirm a record (decision 115), and what a wiped replica needs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from controller.groups import command as group_command
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import AlterSet, ApplyId, ElectLeader, SetAcks
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import GroupChanged, StoreGroupsListed
from protocols.remoting import codes
from protocols.remoting.controller import asking, change_form
from protocols.remoting.controller.dispatch import READERS
from tests.kept.exchanges.controllers import HEARD, LIST, asked
from tests.kept.exchanges.exchange import Exchange, Exchanges, answer, request
from tests.kept.exchanges.identities import IDENTITY, NAMED
from tests.kept.exchanges.raft import BOOK, MEMBERS, REPORTS, snapshot_exchange, state

CONFIRMED = replace(NAMED, acks=2, wanted_acks=3)
ALTER = AlterSet("broker-a", 1, 4, 8, MEMBERS, (), 2)
SET = SetAcks("broker-a", 2)
REFUSALS = (GroupRefusal.TOO_FEW_FENCED, GroupRefusal.BAD_ACKS, GroupRefusal.OLD_VERSION, GroupRefusal.ACKS_IN_FORCE)
_CHANGE = asked(codes.CHANGE_STORE_GROUP, {}, asking.changing(SET))


def _heartbeat(fence: int) -> Exchange:
    report = replace(REPORTS[0], fence=fence)
    return request(
        READERS,
        asked(
            codes.BROKER_HEARTBEAT,
            asking.heartbeat("main", "broker-a", "10.0.0.1:10912", ReplicaWord(report, run="run-2"), 3_000),
        ),
    )


def _answer(refusal: GroupRefusal | None) -> Exchange:
    return answer(READERS, _CHANGE, GroupChanged(None, GroupAnswer(refusal, CONFIRMED), frozenset({1})), asking.changed)


def _change(change: AlterSet | SetAcks) -> Exchange:
    return request(READERS, asked(codes.CHANGE_STORE_GROUP, change_form.process_fields(change), asking.changing(change)))


def _command(change: group_command.LogChange) -> Exchange:
    return Exchange(partial(group_command.encode, change), group_command.decode)


ACKS: Exchanges = {
    "heartbeat of one that follows or leads": _heartbeat(0),
    "heartbeat with a fence": _heartbeat(6),
    "change: alter set with acks": _change(ALTER),
    "change: set acks": _change(SET),
    "answer with acks": _answer(None),
    **{f"answer with acks: {each.name}": _answer(each) for each in REFUSALS},
    "list with acks": answer(READERS, LIST, StoreGroupsListed(None, None, [(CONFIRMED, HEARD)]), asking.listed),
    "command: set acks": _command(SET),
    "command: alter set with acks": _command(ALTER),
    "command: elect among the fenced": _command(ElectLeader("broker-a", REPORTS, 1, 2, 5, IDENTITY, (1, 2))),
    "command: apply id of the dead": _command(ApplyId("broker-a", "main", 3, "10.0.0.3:10912;9", "10.0.0.3:10912", (3, 4))),
    "snapshot version 5": snapshot_exchange(state(CONFIRMED, book=BOOK)),
}
