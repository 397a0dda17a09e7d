"""Requests of a node or a tool of Headgate to a controller: bodies of 30022 to 30024 and of heartbeats, and their answers.

Any controller answers 30024, and 1005, which names the leader; one that does not lead answers NOT_LEADING to all else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import GroupChange
from domain.controller.gateway_search import GatewaySearch
from domain.controller.group import NOTHING_SEEN, UNKNOWN, StoreGroup
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import ControllerFound, GatewayMissed, ReplicaHeard, StrangerSeen
from protocols.remoting import codes
from protocols.remoting.controller import change_form, group_form
from protocols.remoting.controller.heartbeat import (
    FENCE,
    FIGURES,
    LEFT_OUT,
    PATHS,
    REMOTE,
    SEEN,
    left_out_text,
    paths_text,
    serving_fields,
)
from protocols.remoting.ticket import RequestError
from protocols.remoting.wire import bean, fastjson
from protocols.remoting.wire.frame import Frame

Heard = tuple[StoreGroup, tuple[ReplicaHeard, ...]]


def listing(after: str = "", names: Sequence[str] = (), identity: str = "") -> bytes:
    """Body of 30022: groups with these names, or all, behind `after`. `identity` as in ListStoreGroups."""
    return fastjson.dumps({"after": after, "names": list(names), **({"groupIdentity": identity} if identity else {})})


def listed(frame: Frame) -> tuple[list[Heard], bool] | GroupRefusal:
    """(groups, whether there are more) of an answer to 30022. Raises RequestError for an answer that is none."""
    if frame.code == codes.CONTROLLER_NOT_LEADER:
        return GroupRefusal.NOT_LEADING
    found = _body(frame)
    return [group_form.read(each) for each in bean.beans(found, "groups")], bean.flag(found, "more")


def changing(change: GroupChange) -> bytes:
    """Body of 30023."""
    return fastjson.dumps(change_form.write(change))


def changed(frame: Frame) -> GroupAnswer | None:
    """The answer to 30023. None: it is not known whether the change is made, ask again."""
    group = None
    if frame.body:
        found = bean.read(frame.body)
        group = group_form.read(bean.table(found, "group"))[0]
    if frame.code == codes.SUCCESS:
        return GroupAnswer(None, group)
    name = (frame.fields() or {}).get("refusal", "")
    return GroupAnswer(GroupRefusal[name], group) if name in GroupRefusal.__members__ else None


def controller_of(frame: Frame) -> ControllerFound:
    """The answer to 30024. Raises RequestError for an answer that is none."""
    found = _body(frame)
    places = {_identity(node): str(where) for node, where in bean.table(found, "places").items()}
    return ControllerFound(
        None,
        _identity(bean.text(found, "node")),
        bean.number(found, "term"),
        bean.flag(found, "leads"),
        _identity(bean.text(found, "leader")),
        [_identity(each) for each in bean.texts(found, "voters")],
        [_identity(each) for each in bean.texts(found, "learners")],
        places,
        bean.text(found, "failure"),
        bean.texts(found, "book"),
        bean.text(found, "changing"),
        tuple(
            StrangerSeen(bean.text(each, "group"), bean.text(each, "where"), bean.text(each, "why"), bean.number(each, "ageMs"))
            for each in bean.beans(found, "strangers")
        ),
        tuple(
            GatewayMissed(bean.text(each, "group"), bean.text(each, "name"), bean.number(each, "ageMs"))
            for each in bean.beans(found, "gateways")
        ),
        tuple(
            GatewaySearch(
                bean.text(each, "name"), bean.text(each, "seeks"), bean.text(each, "why"), bean.number(each, "waitsMs")
            )
            for each in bean.beans(found, "searching")
        ),
    )


def searching(life: str, search: GatewaySearch) -> Mapping[str, str]:
    """Ext fields of 30029, which goes to every controller."""
    return {"life": life, "name": search.name, "seeks": search.seeks, "why": search.why, "waitsMs": str(search.waits_ms)}


def changing_controllers(address: str, remove: bool) -> Mapping[str, str]:
    """Ext fields of 30028."""
    return {"address": address, "remove": "true" if remove else "false"}


def controllers_changed(frame: Frame) -> GroupRefusal | str | None:
    """The answer to 30028: "" when it is made, else why not; NOT_LEADING: ask another one. None: it is not known, ask again."""
    if frame.code == codes.SUCCESS:
        return ""
    name = (frame.fields() or {}).get("refusal", "")
    if name == GroupRefusal.NOT_LEADING.name:
        return GroupRefusal.NOT_LEADING
    return frame.remark or name if name else None


def heartbeat(cluster: str, group: str, address: str, word: ReplicaWord, timeout_ms: int) -> Mapping[str, str]:
    """Ext fields of 904, the heartbeat of a replica. It goes to every controller, over one connection each."""
    report, figures, run, refuses, identity, aside, parted, remote, left_out, serving = word
    measured: dict[str, str] = {}
    if figures is not None:
        measured = dict(zip(FIGURES, map(str, figures[: len(FIGURES)]), strict=True))
        if figures.paths:
            measured[PATHS] = paths_text(figures.paths)
    return {
        **measured,
        **({"run": run} if run else {}),
        **({"refuses": refuses} if refuses else {}),
        **({"groupIdentity": identity} if identity else {}),
        **({FENCE: str(report.fence)} if report.fence != UNKNOWN else {}),
        **({"setAside": f"{aside.folders}:{aside.size}"} if aside.folders else {}),
        **({"parted": str(parted)} if parted else {}),
        **({REMOTE: f"{remote.lag_bytes}:{remote.quiet_ms}:{remote.place}"} if remote.place else {}),
        **({SEEN: f"{report.seen.leader_epoch}:{report.seen.set_epoch}"} if report.seen != NOTHING_SEEN else {}),
        **({LEFT_OUT: left_out_text(left_out)} if left_out else {}),
        **serving_fields(serving),
        "clusterName": cluster,
        "brokerName": group,
        "brokerAddr": address,
        "brokerId": str(report.id),
        "incarnation": report.incarnation,
        "epoch": str(report.epoch),
        "maxOffset": str(report.position),
        "electionPriority": str(report.priority),
        "heartbeatTimeoutMills": str(timeout_ms),
    }


def notice(frame: Frame) -> StoreGroup | None:
    """The group that a notice of a new leader (1008), or an answer with a SyncStateSet, is about; None: it names none."""
    found = bean.table(bean.read(frame.body), "group") if frame.body else {}
    return group_form.read(found)[0] if found else None


def _body(frame: Frame) -> bean.Bean:
    if frame.code != codes.SUCCESS:
        raise RequestError(frame.code, frame.remark or f"response code {frame.code}")
    return bean.read(frame.body)


def _identity(text: str) -> int:
    if not text.isdigit() or len(text) > 19:
        raise RequestError(codes.INVALID_PARAMETER, f"{text[:40]!r} is no identity of a controller")
    return int(text)
