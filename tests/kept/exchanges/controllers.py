"""Requests to controllers, and their answers and notices: of other controllers, of replicas, of tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.controller_list import ControllersChanged
from domain.controller.health import Fitness, ReplicaFigures, Standing
from domain.controller.peer import ControllerGreeted
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import ControllerFound, ControllersFound, GroupChanged, ReplicaHeard, StoreGroupsListed
from domain.event import Done
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.controller import asking, peer
from protocols.remoting.controller.dispatch import READERS
from protocols.remoting.controller.sync_state import role_changed
from tests.kept.exchanges.exchange import Exchange, Exchanges, answer, frame_of, head_of, request
from tests.kept.exchanges.raft import CHANGES, GROUP, REPORTS

FIGURES = ReplicaFigures(1_200, 3_400, 5_600, 2, 1_700_000_000_000, 500, ((2, 3_400), (3, 90)))
HEARD = (
    ReplicaHeard(ReplicaWord(REPORTS[0], figures=FIGURES), 120, True, Standing(Fitness.SLOW, "its syncs take 1.2 s")),
    ReplicaHeard(ReplicaWord(REPORTS[1]), -1, False),
)
GREETING = {"node": "11", "founders": "11,12,13", "book": "10.0.2.1:9878,10.0.2.2:9878"}
HEARTBEAT = asking.heartbeat("main", "broker-a", "10.0.0.1:10912", ReplicaWord(REPORTS[0], figures=FIGURES), 3_000)
CONTROLLER = ControllerFound(
    None,
    11,
    4,
    True,
    11,
    [11, 12],
    [13],
    {11: "10.0.2.1:9878", 12: "10.0.2.2:9878"},
    "",
    ["10.0.2.1:9878"],
    "adds 10.0.2.4:9878",
)


def heard(which: int, **words: Any) -> ReplicaHeard:
    """One of HEARD that says these words, too."""
    return replace(HEARD[which], word=HEARD[which].word._replace(**words))


def asked(code: int, fields: Mapping[str, str], body: bytes = b"", oneway: bool = False) -> Callable[[], bytes]:
    """A request as a node sends it."""
    return partial(Request(code, fields, body).encoded, 7, None, oneway)


GREET = asked(codes.GREET_CONTROLLER, GREETING)
BEAT = asked(codes.BROKER_HEARTBEAT, HEARTBEAT)
LIST = asked(codes.LIST_STORE_GROUPS, {}, asking.listing("broker", ("broker-a", "broker-b")))
CHANGE = asked(codes.CHANGE_STORE_GROUP, {}, asking.changing(CHANGES["min in sync"]))  # type: ignore[arg-type]
ASK = asked(codes.GET_CONTROLLER, {})
LEADER = asked(codes.GET_CONTROLLER_METADATA, {"group": "broker-a"})
ADD = asked(codes.CHANGE_CONTROLLERS, asking.changing_controllers("10.0.2.4:9878", False))
REMOVE = asked(codes.CHANGE_CONTROLLERS, asking.changing_controllers("10.0.2.4:9878", True))
TELL = asked(codes.TELL_CONTROLLER, {"to": "12"}, b"a message of raft", True)


def fields_of(frame: Any) -> Any:
    """The ext fields of a frame."""
    return head_of(frame)[5]


def _notice(data: bytes) -> Any:
    return [*head_of(frame_of(data)), asking.notice(frame_of(data))]


def _changed(answered: GroupAnswer) -> Exchange:
    return answer(READERS, CHANGE, GroupChanged(None, answered, frozenset({1, 3})), asking.changed)


CONTROLLERS: Exchanges = {
    "greeting": request(READERS, GREET),
    "greeting of a new one": request(READERS, asked(codes.GREET_CONTROLLER, {"node": "14", "founders": "", "book": ""})),
    "answer to the greeting": answer(
        READERS,
        GREET,
        ControllerGreeted(None, 12, (11, 12, 13), ("10.0.2.1:9878",)),
        lambda frame: ControllerGreeted(None, *peer.read(fields_of(frame))),
    ),
    "message of raft": request(READERS, TELL),
    "heartbeat of a replica": request(READERS, BEAT),
    "heartbeat without figures": request(
        READERS,
        asked(codes.BROKER_HEARTBEAT, asking.heartbeat("main", "broker-a", "10.0.0.2:10912", ReplicaWord(REPORTS[1]), 3_000)),
    ),
    "answer to a heartbeat": answer(READERS, BEAT, Done(None), fields_of),
    "list": request(READERS, LIST),
    "answer to a list": answer(READERS, LIST, StoreGroupsListed(None, None, [(GROUP, HEARD)], True), asking.listed),
    "refused list": answer(READERS, LIST, StoreGroupsListed(None, GroupRefusal.NOT_LEADING, []), asking.listed),
    **{
        f"change: {name}": request(READERS, asked(codes.CHANGE_STORE_GROUP, {}, asking.changing(each)))  # type: ignore[arg-type]
        for name, each in CHANGES.items()
        if name != "controllers"
    },
    "answer to a change": _changed(GroupAnswer(None, GROUP)),
    **{f"answer to a change: {each.name}": _changed(GroupAnswer(each, GROUP)) for each in GroupRefusal},
    "refused change of an unknown group": _changed(GroupAnswer(GroupRefusal.UNKNOWN_GROUP, None)),
    "controller": request(READERS, ASK),
    "answer about a controller": answer(READERS, ASK, CONTROLLER, asking.controller_of),
    "who leads": request(READERS, LEADER),
    "answer about who leads": answer(
        READERS,
        LEADER,
        ControllersFound(None, "headgate", "n1", False, {"n0": "10.0.2.1:9878", "n1": "10.0.2.2:9878"}),
        fields_of,
    ),
    "add a controller": request(READERS, ADD),
    "remove a controller": request(READERS, REMOVE),
    "change of controllers": answer(READERS, ADD, ControllersChanged(None, None, ""), asking.controllers_changed),
    "refused change of controllers": answer(
        READERS, ADD, ControllersChanged(None, GroupRefusal.INVALID, "it is one already"), asking.controllers_changed
    ),
    "notice of a new leader": Exchange(partial(role_changed, GROUP, 9), _notice),
}
