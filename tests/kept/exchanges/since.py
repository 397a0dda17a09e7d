"""Frames that commit 9b7b43c7 writes otherwise than 44998bdc, or that are new there: they say which process a replica is."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from controller.groups import command as group_command
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import FoundGroup, RegisterReplica
from domain.controller.peer import ControllerGreeted
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import GroupChanged, StoreGroupsListed
from domain.replication.message import FollowAccepted, FollowRefusal, FollowRefused
from protocols.remoting import codes
from protocols.remoting.controller import asking, change_form, peer
from protocols.remoting.controller.dispatch import READERS
from protocols.remoting.nodes.replication.dispatch import READERS as REPLICA_READERS
from tests.kept.exchanges.controllers import CONTROLLERS, FIGURES, GREET, LIST, asked, fields_of, heard
from tests.kept.exchanges.exchange import Exchange, Exchanges, answer, request
from tests.kept.exchanges.raft import BOOK, GROUP, REPORTS, snapshot_exchange, state
from tests.kept.exchanges.replication import FOLLOW, answered, follow

LONGER = ("answer to the greeting", "answer to a list", "answer to a change", "notice of a new leader")
"""Begins of the names of exchanges whose frames have more fields than 44998bdc writes: the level of a controller, and the run
of a replica. 44998bdc ignores fields that it does not know, as the tests with nodes of both versions show."""
REGISTER = RegisterReplica(
    "broker-a", "main", 1, "10.0.0.1:10912", "log-1", False, 4, 700, "log-0", "run-2", ("run-0", "run-1")
)
FOUND = FoundGroup("broker-a", 2, REPORTS)
RUNNING = replace(GROUP, replicas=(replace(GROUP.replicas[0], run="run-2"), *GROUP.replicas[1:]))
WORD = ReplicaWord(REPORTS[0], FIGURES, "run-2", "another history")
REFUSES = (heard(0, refuses="its log is of another history"),)


def _change(change: RegisterReplica | FoundGroup) -> Exchange:
    return request(READERS, asked(codes.CHANGE_STORE_GROUP, change_form.process_fields(change), asking.changing(change)))


SINCE: Exchanges = {
    **{name: CONTROLLERS[name] for name in CONTROLLERS if name.startswith(LONGER)},
    "greeting with a level": request(
        READERS, asked(codes.GREET_CONTROLLER, peer.fields(11, (11, 12, 13), ("10.0.2.1:9878", "10.0.2.2:9878"), 1))
    ),
    "answer with a level": answer(
        READERS, GREET, ControllerGreeted(None, 12, (11, 12, 13), ("10.0.2.1:9878",), 1),
        lambda frame: ControllerGreeted(None, *peer.read(fields_of(frame))),
    ),
    "heartbeat with a run": request(
        READERS,
        asked(codes.BROKER_HEARTBEAT, asking.heartbeat("main", "broker-a", "10.0.0.1:10912", WORD, 3_000)),
    ),
    "change: register with a run": _change(REGISTER),
    "change: found": _change(FOUND),
    "answer with a run": answer(
        READERS, asked(codes.CHANGE_STORE_GROUP, {}, asking.changing(FOUND)),
        GroupChanged(None, GroupAnswer(GroupRefusal.COPIED, RUNNING), frozenset({1})), asking.changed,
    ),
    "list with a run": answer(READERS, LIST, StoreGroupsListed(None, None, [(RUNNING, REFUSES)]), asking.listed),
    "command: register with a run": Exchange(partial(group_command.encode, REGISTER), group_command.decode),
    "command: found": Exchange(partial(group_command.encode, FOUND), group_command.decode),
    "snapshot version 3": snapshot_exchange(state(RUNNING, book=BOOK)),
    "snapshot version 3 without a book": snapshot_exchange(state(RUNNING)),
    "follow with a run": request(
        REPLICA_READERS, partial(follow, replace(FOLLOW, run="run-2"))
    ),
    "accepted, common": answered(FollowAccepted(None, 5, -1, 100, 90)),
    "refused: OTHER_PROCESS": answered(FollowRefused(None, FollowRefusal.OTHER_PROCESS, 6)),
}  # fmt: skip
