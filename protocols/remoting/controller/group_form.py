"""A store group as JSON, for nodes and tools of Headgate (docs/protocols/remoting-extensions.md, 30022)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from domain.controller.group import (
    FIRST_ID,
    NOBODY_LEADS,
    NOTHING_SEEN,
    PRIORITY_LAST,
    REPLICAS_MAX,
    UNKNOWN,
    ReplicaReport,
    SetMember,
    StateSeen,
    StoreGroup,
    StoreReplica,
)
from domain.controller.health import Fitness, ReplicaFigures, Standing
from domain.controller.left_out import LeftOut, MemberLack
from domain.controller.remote import RemoteWord
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import ReplicaHeard
from domain.controller.serving import GATEWAYS_SAID_MAX, UNSAID, GatewayWord, ServingWord
from domain.set_aside import NOTHING, KeptAside
from protocols.remoting import codes
from protocols.remoting.ticket import RequestError
from protocols.remoting.wire import bean
from protocols.remoting.wire.bean import Bean

_HEARD: Final = "heard"
_LEFT_OUT: Final = "leftOut"
_SEEN: Final = "seen"
_FIGURES: Final = 6
"""Number of figures of a replica that are written; the paths of a leader are not."""


def write(group: StoreGroup, heard: Iterable[ReplicaHeard] = ()) -> dict[str, object]:
    """The group, and the last reports of its replicas. The text by which a node proves its id is left out."""
    words = {each.report.id: each for each in heard}
    found: dict[str, object] = {
        "cluster": group.cluster,
        "name": group.name,
        "nextId": group.next_id,
        "leader": group.leader,
        "leaderEpoch": group.leader_epoch,
        "members": [[each.id, each.incarnation] for each in group.members],
        "setEpoch": group.set_epoch,
        "least": group.least,
        "minInSync": group.min_in_sync,
        **({"identity": group.identity} if group.identity else {}),
    }
    if group.order:
        found["order"] = group.order
    if group.acks or group.wanted_acks:
        found |= {"acks": group.acks, "wantedAcks": group.wanted_acks}
    found["replicas"] = [_replica(each, words.get(each.id)) for each in group.replicas]
    return found


def _replica(replica: StoreReplica, heard: ReplicaHeard | None) -> dict[str, object]:
    found: dict[str, object] = {
        "id": replica.id,
        "address": replica.address,
        "incarnation": replica.incarnation,
        "learner": replica.learner,
        "epoch": replica.epoch,
        "position": replica.position,
        "heirOf": replica.continues_log,
        "run": replica.run,
        **({"groupIdentity": replica.identity} if replica.identity else {}),
    }
    if heard is not None:
        said, word = heard.report, heard.word
        words: dict[str, object] = {
            "incarnation": said.incarnation,
            "epoch": said.epoch,
            "position": said.position,
            "priority": said.priority,
            "ageMs": heard.age_ms,
            "alive": heard.alive,
            "fitness": heard.standing.fitness.name,
            "why": heard.standing.why,
            "refuses": word.refuses,
            **({"setAside": list(word.aside)} if word.aside.folders else {}),
            **({"remote": word.remote._asdict()} if word.remote.place else {}),
            **({_SEEN: list(said.seen)} if said.seen != NOTHING_SEEN else {}),
            **(
                {_LEFT_OUT: [[each.replica, each.lack.name, each.lacks_bytes] for each in word.left_out]}
                if word.left_out
                else {}
            ),
            **({"serving": _serving(word.serving)} if word.serving.epoch != UNKNOWN else {}),
        }
        if word.figures is not None:
            words["figures"] = list(word.figures[:_FIGURES])
        found[_HEARD] = words
    return found


def _serving(word: ServingWord) -> dict[str, object]:
    gateways = [list(each) for each in word.gateways]
    return {"epoch": word.epoch, "unready": word.unready, "gateways": gateways}


def read(found: Bean) -> tuple[StoreGroup, tuple[ReplicaHeard, ...]]:
    """The group and the reports that `write` wrote, without the texts by which nodes prove their ids. Raises RequestError."""
    listed = bean.beans(found, "replicas")
    members = found.get("members", [])
    if len(listed) > REPLICAS_MAX or not isinstance(members, list) or len(members) > REPLICAS_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"a store group has at most {REPLICAS_MAX} replicas")
    group = StoreGroup(
        bean.text(found, "cluster"),
        bean.text(found, "name"),
        bean.number(found, "nextId", FIRST_ID),
        tuple(_read_replica(each) for each in listed),
        bean.number(found, "leader", NOBODY_LEADS),
        bean.number(found, "leaderEpoch"),
        tuple(_member(each) for each in members),
        bean.number(found, "setEpoch"),
        bean.number(found, "least"),
        bean.text(found, "identity"),
        order=bean.number(found, "order"),
        acks=bean.number(found, "acks"),
        wanted_acks=bean.number(found, "wantedAcks"),
    )
    if not group.name:
        raise RequestError(codes.INVALID_PARAMETER, "a store group has a name")
    return group, tuple(_read_heard(each) for each in listed if bean.table(each, _HEARD))


def _member(found: object) -> SetMember:
    if isinstance(found, list) and len(found) == 2:
        number, incarnation = found
        if type(number) is int and isinstance(incarnation, str):
            return SetMember(number, incarnation)
    raise RequestError(codes.INVALID_PARAMETER, "a member is [id, incarnation]")


def _read_replica(found: Bean) -> StoreReplica:
    return StoreReplica(
        bean.number(found, "id"),
        "",
        bean.text(found, "address"),
        bean.text(found, "incarnation"),
        bean.flag(found, "learner"),
        bean.number(found, "epoch", UNKNOWN),
        bean.number(found, "position", UNKNOWN),
        bean.text(found, "heirOf"),
        bean.text(found, "run"),
        bean.text(found, "groupIdentity"),
    )


def _read_heard(found: Bean) -> ReplicaHeard:
    said = bean.table(found, _HEARD)
    report = ReplicaReport(
        bean.number(found, "id"),
        bean.text(said, "incarnation"),
        bean.number(said, "epoch", UNKNOWN),
        bean.number(said, "position", UNKNOWN),
        bean.number(said, "priority", PRIORITY_LAST),
        seen=_read_seen(said.get(_SEEN)),
    )
    word = ReplicaWord(
        report, _read_figures(said.get("figures")), refuses=bean.text(said, "refuses"), aside=_read_aside(said.get("setAside")),
        remote=_read_remote(bean.table(said, "remote")), left_out=_read_left_out(said.get(_LEFT_OUT, [])),
        serving=_read_serving(bean.table(said, "serving")),
    )  # fmt: skip
    return ReplicaHeard(word, bean.number(said, "ageMs", UNKNOWN), bean.flag(said, "alive"), _read_standing(said))


def _pair(found: object, what: str) -> list[int]:
    if not isinstance(found, list) or len(found) != 2 or not all(type(each) is int for each in found):
        raise RequestError(codes.INVALID_PARAMETER, what)
    return found


def _read_aside(found: object) -> KeptAside:
    return NOTHING if found is None else KeptAside(*_pair(found, "what was set aside is [folders, bytes]"))


def _read_remote(found: Bean) -> RemoteWord:
    return RemoteWord(bean.text(found, "place"), bean.number(found, "lag_bytes"), bean.number(found, "quiet_ms"))


def _read_seen(found: object) -> StateSeen:
    if found is None:
        return NOTHING_SEEN
    return StateSeen(*_pair(found, "the newest state that was seen is [leader epoch, set epoch]"))


def _read_left_out(found: object) -> tuple[LeftOut, ...]:
    """The words of a leader; a lack that a later version has named is left out."""
    if not isinstance(found, list) or len(found) > REPLICAS_MAX or not all(isinstance(each, list) for each in found):
        raise RequestError(codes.INVALID_PARAMETER, "replicas that are not in sync are [id, lack, bytes]")
    return tuple(
        LeftOut(each[0], MemberLack[each[1]], each[2])
        for each in found
        if list(map(type, each)) == [int, str, int] and each[1] in MemberLack.__members__
    )


def _read_serving(found: Bean) -> ServingWord:
    if not found:
        return UNSAID
    listed = found.get("gateways", [])
    rows = listed[:GATEWAYS_SAID_MAX] if isinstance(listed, list) else []
    gateways = tuple(
        GatewayWord(str(life), str(name), silent_ms)
        for each in rows if isinstance(each, list) and len(each) == 3
        for life, name, silent_ms in [each] if isinstance(silent_ms, int)
    )  # fmt: skip
    return ServingWord(bean.number(found, "epoch"), bean.text(found, "unready"), gateways)


def _read_standing(said: Bean) -> Standing:
    """A fitness that a later version has named counts as SLOW: the replica should not lead."""
    name = bean.text(said, "fitness") or Fitness.FIT.name
    return Standing(Fitness.__members__.get(name, Fitness.SLOW), bean.text(said, "why"))


def _read_figures(found: object) -> ReplicaFigures | None:
    if not isinstance(found, list):
        return None
    if len(found) < _FIGURES or not all(type(each) is int for each in found):
        raise RequestError(codes.INVALID_PARAMETER, f"figures are {_FIGURES} integers")
    return ReplicaFigures(*found[:_FIGURES])
