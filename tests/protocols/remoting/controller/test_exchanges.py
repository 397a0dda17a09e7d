"""Requests of Apache's brokers and mqadmin, the commands that they become, and the answers, byte for byte."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import NamedTuple

import pytest

from controller.groups.limits import is_within
from domain.command import Command
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import (
    AlterSet,
    ApplyId,
    CleanReplicas,
    ElectLeader,
    GroupChange,
    RegisterReplica,
)
from domain.controller.group import PRIORITY_LAST, ReplicaReport, SetMember, StoreGroup, StoreReplica
from domain.controller.health import ReplicaFigures
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import (
    ChangeControllerSettings,
    ChangeGroup,
    ControllerSettingsFound,
    ControllersFound,
    GroupChanged,
    GroupsFound,
    HearReplica,
    QueryControllers,
    QueryControllerSettings,
    QueryGroups,
)
from domain.event import Done, Event
from protocols.remoting import codes
from protocols.remoting.controller import refusal
from protocols.remoting.controller.dispatch import READERS
from protocols.remoting.controller.sync_state import role_changed
from tests.protocols.remoting.controller.wire import command_of, decoded, java, parts, refusal_of, reply_to

NAME = {"brokerName": "broker-a"}
BOTH = {"brokerName": "broker-a", "clusterName": "main"}
A, B = "10.0.0.1:10911", "10.0.0.2:10911"
PROOF = f"{A};1700000000000"
APACHE = "apache"
MEMBERS = (SetMember(1, APACHE), SetMember(2, APACHE))
GROUP = StoreGroup(
    "main", "broker-a", 3, (StoreReplica(1, PROOF, A, APACHE), StoreReplica(2, f"{B};9", B, APACHE)), 1, 2, MEMBERS, 3
)
ALIVE = frozenset({1, 2})
SET = b'{"syncStateSet":[1,2],"syncStateSetEpoch":3}'
TIME = "1700000000000"
GROUP_BODY = (
    b'{"brokerAddrs":{"1":"10.0.0.1:10911","2":"10.0.0.2:10911"},'
    b'"brokerMemberGroup":{"brokerAddrs":{"1":"10.0.0.1:10911","2":"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"main"},'
    b'"brokerName":"broker-a","cluster":"main","syncStateSet":[1,2]}'
)
LEADER = '"masterBrokerId":"1","masterAddress":"10.0.0.1:10911","masterEpoch":"2","syncStateSetEpoch":"3"'


def header(code: int, ext: str, remark: str = "") -> bytes:
    """The header of an answer."""
    text = f'"opaque":7,"remark":"{remark}"' if remark else '"opaque":7'
    return (
        f'{{"code":{code},"extFields":{{{ext}}},"flag":1,"language":"JAVA",{text},'
        '"serializeTypeCurrentRPC":"JSON","version":479}'
    ).encode()


class Change(NamedTuple):
    """A request that becomes a change, and the header and body of the answer to it when it was made."""

    request: bytes
    change: GroupChange
    ext: str
    body: bytes = b""


CHANGES = {
    "alter": Change(
        java(
            1001,
            {"brokerName": "broker-a", "invokeTime": TIME, "masterBrokerId": "1", "masterEpoch": "2"},
            b'{"syncStateSet":[2,1],"syncStateSetEpoch":2}',
        ),
        AlterSet("broker-a", 1, 2, 2, (MEMBERS[1], MEMBERS[0])),
        '"newSyncStateSetEpoch":"3"',
        SET,
    ),
    "a broker asks for an election": Change(
        java(1002, {"brokerId": "2", **BOTH, "designateElect": "false", "invokeTime": TIME}),
        ElectLeader("broker-a", asker=2),
        LEADER,
        GROUP_BODY,
    ),
    "mqadmin designates a leader": Change(
        java(1002, {"brokerId": "1", **BOTH, "designateElect": "true", "invokeTime": TIME}),
        ElectLeader("broker-a", designated=1),
        LEADER,
        GROUP_BODY,
    ),
    "register": Change(
        java(1003, {"brokerAddress": A, "brokerId": "1", **BOTH, "invokeTime": TIME}),
        RegisterReplica("broker-a", "main", 1, A, APACHE),
        f'"clusterName":"main","brokerName":"broker-a",{LEADER}',
        SET,
    ),
    "a node of ours registers": Change(
        java(1003, {
            "brokerAddress": A, "brokerId": "1", **BOTH, "incarnation": "log-2", "learner": "true", "continues": "log-1",
            "epoch": "4", "maxOffset": "700",
        }),
        RegisterReplica("broker-a", "main", 1, A, "log-2", True, 4, 700, "log-1"),
        f'"clusterName":"main","brokerName":"broker-a",{LEADER}',
        SET,
    ),
    "clean some": Change(
        java(1011, {"brokerControllerIdsToClean": "1;2", **BOTH, "invokeTime": TIME, "isCleanLivingBroker": "false"}),
        CleanReplicas("broker-a", (1, 2)),
        "",
    ),
    "clean a group": Change(
        java(1011, {"brokerName": "broker-a", "invokeTime": TIME, "isCleanLivingBroker": "true"}),
        CleanReplicas("broker-a", even_living=True),
        "",
    ),
    "apply for an id": Change(
        java(1013, {"appliedBrokerId": "1", **BOTH, "registerCheckCode": PROOF}),
        ApplyId("broker-a", "main", 1, PROOF, A),
        '"clusterName":"main","brokerName":"broker-a"',
    ),
}  # fmt: skip


@pytest.mark.parametrize("each", CHANGES.values(), ids=CHANGES)
def test_a_change_and_its_answer(each: Change) -> None:
    command = command_of(each.request, ChangeGroup)
    assert command.change == each.change
    assert is_within(command.change)
    answer = reply_to(command, GroupChanged(command.ticket, GroupAnswer(None, GROUP), ALIVE))
    assert parts(answer) == (header(0, each.ext), each.body)


@pytest.mark.parametrize("each", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("why", GroupRefusal)
def test_every_refusal_is_told_with_its_code(each: Change, why: GroupRefusal) -> None:
    command = command_of(each.request, ChangeGroup)
    reply = decoded(reply_to(command, GroupChanged(command.ticket, GroupAnswer(why, GROUP))))
    assert 2000 <= reply.code <= 2014
    assert reply.remark == why.value


@pytest.mark.parametrize(
    ("name", "why", "code"),
    [
        ("alter", GroupRefusal.UNKNOWN_GROUP, 2013),
        ("alter", GroupRefusal.NOT_THE_LEADER, 2002),
        ("alter", GroupRefusal.OLD_LEADER_EPOCH, 2000),
        ("alter", GroupRefusal.OLD_SET_EPOCH, 2001),
        ("alter", GroupRefusal.SAME_SET, 2013),
        ("alter", GroupRefusal.LEADER_MISSING, 2013),
        ("alter", GroupRefusal.NOT_A_REPLICA, 2003),
        ("alter", GroupRefusal.NOT_ALIVE, 2006),
        ("a broker asks for an election", GroupRefusal.NOT_REGISTERED, 2010),
        ("a broker asks for an election", GroupRefusal.ELECTION_FAILED, 2012),
        ("a broker asks for an election", GroupRefusal.NO_CANDIDATE, 2004),
        ("register", GroupRefusal.NOT_REGISTERED, 2010),
        ("apply for an id", GroupRefusal.ID_TAKEN, 2014),
        ("clean some", GroupRefusal.UNKNOWN_GROUP, 2009),
        ("clean some", GroupRefusal.ALIVE, 2009),
        ("clean some", GroupRefusal.LAST_MEMBER, 2009),
        ("clean some", GroupRefusal.NOT_LEADING, 2007),
    ],
)
def test_refusals_have_the_codes_of_apache(name: str, why: GroupRefusal, code: int) -> None:
    command = command_of(CHANGES[name].request, ChangeGroup)
    assert decoded(reply_to(command, GroupChanged(command.ticket, GroupAnswer(why, None)))).code == code


def test_every_refusal_has_a_row() -> None:
    assert set(refusal.TABLE) == set(GroupRefusal)


def test_a_leader_that_is_still_valid_is_named() -> None:
    command = command_of(CHANGES["a broker asks for an election"].request, ChangeGroup)
    reply = reply_to(command, GroupChanged(command.ticket, GroupAnswer(GroupRefusal.LEADER_VALID, GROUP)))
    assert parts(reply) == (header(2011, LEADER, "the leader is alive"), GROUP_BODY)


def test_who_registers_is_not_told_of_a_leader_that_is_dead() -> None:
    command = command_of(CHANGES["register"].request, ChangeGroup)
    for group, alive in ((GROUP, frozenset({2})), (replace(GROUP, leader=0), ALIVE)):
        reply = reply_to(command, GroupChanged(command.ticket, GroupAnswer(None, group), alive))
        assert parts(reply) == (header(0, '"clusterName":"main","brokerName":"broker-a"'), SET)


def test_an_election_without_a_name_is_the_controllers_own() -> None:
    for designate in ("true", "false"):
        fields = {"brokerId": "-1", "brokerName": "broker-a", "clusterName": "", "designateElect": designate}
        command = command_of(java(1002, fields), ChangeGroup)
        assert command.change == ElectLeader("broker-a")


OURS = replace(
    GROUP,
    replicas=(replace(GROUP.replicas[0], incarnation="log-1"), GROUP.replicas[1]),
    members=(SetMember(1, "log-1"), MEMBERS[1]),
)


def test_incarnations_of_our_nodes_are_in_the_set() -> None:
    body = b'{"incarnations":{"1":"log-1"},"syncStateSet":[1,2],"syncStateSetEpoch":3}'
    command = command_of(java(1001, {"brokerName": "broker-a", "masterBrokerId": "1", "masterEpoch": "2"}, body), ChangeGroup)
    assert command.change == AlterSet("broker-a", 1, 2, 3, OURS.members)
    found = json.loads(parts(reply_to(command, GroupChanged(command.ticket, GroupAnswer(None, OURS))))[1])
    group = found.pop("group")
    assert found == json.loads(body)
    assert [(each["id"], each["address"], each["incarnation"]) for each in group["replicas"]] == [
        (1, A, "log-1"),
        (2, B, APACHE),
    ]
    assert (group["leader"], group["leaderEpoch"], group["minInSync"]) == (1, 2, 1)
    assert PROOF not in json.dumps(group), "whoever knows it may take the id"


NOBODY = replace(GROUP, leader=0, leader_epoch=3, members=MEMBERS[1:])
STATES = (
    b'{"replicasInfoTable":{"broker-a":{'
    b'"inSyncReplicas":[{"alive":true,"brokerAddress":"10.0.0.1:10911","brokerId":1,"brokerName":"broker-a"},'
    b'{"alive":false,"brokerAddress":"10.0.0.2:10911","brokerId":2,"brokerName":"broker-a"}],'
    b'"masterAddress":"10.0.0.1:10911","masterBrokerId":1,"masterEpoch":2,"notInSyncReplicas":[],"syncStateSetEpoch":3}}}'
)
NOBODYS = (
    b'{"replicasInfoTable":{"broker-a":{'
    b'"inSyncReplicas":[{"alive":true,"brokerAddress":"10.0.0.2:10911","brokerId":2,"brokerName":"broker-a"}],'
    b'"masterEpoch":3,'
    b'"notInSyncReplicas":[{"alive":false,"brokerAddress":"10.0.0.1:10911","brokerId":1,"brokerName":"broker-a"}],'
    b'"syncStateSetEpoch":3}}}'
)
HEART = {
    "brokerAddr": A, "brokerId": "1", "brokerName": "broker-a", "clusterName": "main", "confirmOffset": "90",
    "electionPriority": "5", "epoch": "2", "heartbeatTimeoutMills": "10000", "maxOffset": "100",
}  # fmt: skip
PEERS = {"n0": "10.0.0.1:9878", "n1": "10.0.0.2:9878"}


@pytest.mark.parametrize(
    ("request_", "command", "event", "answer"),
    [
        (
            java(1004, NAME),
            QueryGroups(None, ["broker-a"]),
            GroupsFound(None, None, [(GROUP, ALIVE)]),
            (header(0, '"masterBrokerId":"1","masterAddress":"10.0.0.1:10911","masterEpoch":"2"'), SET),
        ),
        (
            java(1004, NAME),
            QueryGroups(None, ["broker-a"]),
            GroupsFound(None, None, [(NOBODY, ALIVE)]),
            (header(0, '"masterEpoch":"3"'), b'{"syncStateSet":[2],"syncStateSetEpoch":3}'),
        ),
        (
            java(1004, NAME),
            QueryGroups(None, ["broker-a"]),
            GroupsFound(None, None, []),
            (header(2008, "", "the store group is not known"), b""),
        ),
        (
            java(1012, BOTH),
            QueryGroups(None, ["broker-a"]),
            GroupsFound(None, None, []),
            (header(0, '"clusterName":"main","brokerName":"broker-a","nextBrokerId":"1"'), b""),
        ),
        (
            java(1012, BOTH),
            QueryGroups(None, ["broker-a"]),
            GroupsFound(None, None, [(GROUP, ALIVE)]),
            (header(0, '"clusterName":"main","brokerName":"broker-a","nextBrokerId":"3"'), b""),
        ),
        (
            java(1012, BOTH),
            QueryGroups(None, ["broker-a"]),
            GroupsFound(None, GroupRefusal.NOT_LEADING, []),
            (header(2007, "", "this controller does not lead: ask the one that does"), b""),
        ),
        (
            java(1006, body=b'["broker-a","broker-b"]'),
            QueryGroups(None, ["broker-a", "broker-b"]),
            GroupsFound(None, None, [(GROUP, frozenset({1}))]),
            (header(0, ""), STATES),
        ),
        (
            java(1006, body=b'["broker-a"]'),
            QueryGroups(None, ["broker-a"]),
            GroupsFound(None, None, [(NOBODY, frozenset({2}))]),
            (header(0, ""), NOBODYS),
        ),
        (
            java(1006),
            QueryGroups(None, []),
            GroupsFound(None, None, []),
            (header(0, ""), b'{"replicasInfoTable":{}}'),
        ),
        (
            java(1005),
            QueryControllers(None),
            ControllersFound(None, "controllers", "n0", True, PEERS),
            (
                header(
                    0,
                    '"group":"controllers","controllerLeaderId":"n0","controllerLeaderAddress":"10.0.0.1:9878","isLeader":"true",'
                    '"peers":"n0:10.0.0.1:9878;n1:10.0.0.2:9878;"',
                ),
                b"",
            ),
        ),
        (
            java(1005),
            QueryControllers(None),
            ControllersFound(None, "controllers", "", False, {}),
            (
                header(
                    0,
                    '"group":"controllers","controllerLeaderId":"","controllerLeaderAddress":"","isLeader":"false","peers":""',
                ),
                b"",
            ),
        ),
        (
            java(1010),
            QueryControllerSettings(None),
            ControllerSettingsFound(None, {"notify_role_changed": "true", "scan_ms": "5000"}),
            (
                header(0, ""),
                b"enableElectUncleanMaster=false\nisProcessReadEvent=true\n"
                b"notifyBrokerRoleChanged=true\nscanNotActiveBrokerInterval=5000\n",
            ),
        ),
        (
            java(1009, body=b"notifyBrokerRoleChanged=false\nscanNotActiveBrokerInterval=2000\n"),
            ChangeControllerSettings(None, {"notify_role_changed": "false", "scan_ms": "2000"}),
            Done(None),
            (header(0, ""), b""),
        ),
    ],
)
def test_a_request_and_its_answer(request_: bytes, command: Command, event: Event, answer: tuple[bytes, bytes]) -> None:
    found = command_of(request_)
    assert replace(found, ticket=None) == command
    assert parts(reply_to(found, event)) == answer


@pytest.mark.parametrize(
    ("fields", "heard"),
    [
        (HEART, HearReplica(None, "broker-a", ReplicaWord(ReplicaReport(1, APACHE, 2, 100, 5)), 10_000)),
        ({**BOTH, "brokerAddr": A, "brokerId": "1"}, HearReplica(None, "broker-a", ReplicaWord(ReplicaReport(1, APACHE)), 0)),
        (
            {**HEART, "epoch": "-7", "maxOffset": "-9", "electionPriority": "-3", "incarnation": "log-1"},
            HearReplica(None, "broker-a", ReplicaWord(ReplicaReport(1, "log-1", -1, -1, -1)), 10_000),
        ),
        (
            {**HEART, "electionPriority": str(1 << 40)},
            HearReplica(None, "broker-a", ReplicaWord(ReplicaReport(1, APACHE, 2, 100, PRIORITY_LAST)), 10_000),
        ),
        (
            {**HEART, "syncMicros": "2500", "turnMicros": "-9", "errors": "-4"},
            HearReplica(
                None,
                "broker-a",
                ReplicaWord(ReplicaReport(1, APACHE, 2, 100, 5), figures=ReplicaFigures(2_500, -1, -1, 0)),
                10_000,
            ),
        ),
    ],
)
def test_a_heartbeat_and_its_answer(fields: dict[str, str], heard: HearReplica) -> None:
    found = command_of(java(904, fields), HearReplica)
    assert replace(found, ticket=None) == heard
    assert parts(reply_to(found, Done(None))) == (header(0, "", "Heart beat success"), b"")


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (java(904, {**BOTH, "brokerAddr": A}), 2005),
        (java(904, {**HEART, "incarnation": "x" * 256}), 2005),
        (java(1001, {"brokerName": "broker-a", "masterBrokerId": "1"}, SET), codes.INVALID_PARAMETER),
        (java(1001, {"brokerName": "broker-a", "masterBrokerId": "1", "masterEpoch": "2"}, b"[1]"), codes.INVALID_PARAMETER),
        (java(1003, BOTH), codes.INVALID_PARAMETER),
        (java(1004, {}), codes.INVALID_PARAMETER),
        (java(1006, body=b'{"a":1}'), codes.INVALID_PARAMETER),
        (java(1006, body=b"["), codes.INVALID_PARAMETER),
        (java(1011, {**NAME, "brokerControllerIdsToClean": "1;x"}), 2009),
        (java(1009), codes.INVALID_PARAMETER),
        (java(1009, body=b"enableElectUncleanMaster=true"), codes.NO_PERMISSION),
        (java(1009, body=b"configStorePath=/x"), codes.NO_PERMISSION),
    ],
)
def test_what_cannot_be_read_is_refused(request_: bytes, code: int) -> None:
    assert refusal_of(request_)[0] == code


def test_the_table_serves_what_it_says() -> None:
    assert sorted(READERS) == [904, *range(1001, 1007), *range(1009, 1014), *range(30020, 30025), 30028, 30029]


def test_brokers_are_told_of_a_new_leader() -> None:
    head, body = parts(role_changed(GROUP, 7))
    assert (
        head
        == (
            f'{{"code":1008,"extFields":{{{LEADER}}},"flag":2,"language":"JAVA","opaque":7,'
            '"serializeTypeCurrentRPC":"JSON","version":479}'
        ).encode()
    )
    assert body == SET
