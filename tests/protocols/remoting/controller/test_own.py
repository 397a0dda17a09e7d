"""What nodes and tools of Headgate ask a controller: both sides of requests 30022 to 30024, and fields in others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from domain.command import Command
from domain.controller import change as changes
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import (
    AlterSet,
    ApplyId,
    CleanReplicas,
    ElectLeader,
    FoundGroup,
    GroupChange,
    RecoverGroup,
    RegisterReplica,
    SetMinInSync,
)
from domain.controller.controller_list import ChangeControllers, ControllersChanged
from domain.controller.gateway_search import SAID_CHARS_MAX, GatewaySearch, HearGateway
from domain.controller.group import (
    NOTHING_SEEN,
    NUMBER_MAX,
    REPLICAS_MAX,
    ReplicaReport,
    SetMember,
    StateSeen,
    StoreGroup,
    StoreReplica,
)
from domain.controller.health import Fitness, ReplicaFigures, Standing
from domain.controller.left_out import LeftOut, MemberLack
from domain.controller.remote import LOCAL, RemoteWord
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import (
    ChangeGroup,
    ControllerFound,
    GatewayMissed,
    GroupChanged,
    HearReplica,
    ListStoreGroups,
    QueryController,
    ReplicaHeard,
    StoreGroupsListed,
    StrangerSeen,
)
from domain.controller.serving import GATEWAYS_SAID_MAX, SERVES_NOBODY, UNSAID, GatewayWord, ServingWord
from domain.event import Done, Event
from protocols.remoting import codes
from protocols.remoting.controller import asking, change_form, group_form, peer
from protocols.remoting.controller.sync_state import role_changed
from protocols.remoting.ticket import RequestError
from protocols.remoting.wire import bean, fastjson
from protocols.remoting.wire.frame import Frame
from tests.protocols.remoting.controller.wire import command_of, decoded, java, refusal_of, reply_to

NAME = "broker-a"
GROUP = StoreGroup(
    "main", NAME, 4,
    (
        StoreReplica(1, "", "h1:10912", "log-1", epoch=2, position=700),
        StoreReplica(2, "", "h2:10912", "log-2b", continues_log="log-2"),
        StoreReplica(3, "", "h3:10912", "log-3", learner=True),
    ),
    1, 5, (SetMember(1, "log-1"), SetMember(2, "log-2")), 9, 2,
)  # fmt: skip
HEARD = (
    ReplicaHeard(ReplicaWord(ReplicaReport(1, "log-1", 5, 800, 3), refuses="another history"), 120, True),
    ReplicaHeard(
        ReplicaWord(ReplicaReport(3, "log-3"), figures=ReplicaFigures(1, 2, -1, 4, 5, 500)),
        -1,
        False,
        Standing(Fitness.SLOW, "sync_us 400,000"),
    ),
)
CHANGES: list[GroupChange] = [
    ApplyId(NAME, "main", 1, "proof", "h1:10912"),
    RegisterReplica(NAME, "main", 1, "hôte:10912", "log", True, 3, 1 << 40, "before"),
    AlterSet(NAME, 1, 5, 9, (SetMember(1, "log-1"), SetMember(2, "log-2b"))),
    ElectLeader(NAME, asker=1, designated=2, leader_epoch=5),
    CleanReplicas(NAME, (1, 2), even_living=True),
    SetMinInSync(NAME, 2),
    RecoverGroup(NAME, 2, 9, NAME),
    FoundGroup(NAME, 2),
]


def answered(code: int, body: bytes, event: Event) -> Frame:
    """The answer to a request, read."""
    command = command_of(java(code, {"a": "b"}, body))
    return decoded(reply_to(command, event))


def asked(code: int, body: bytes) -> Command:
    """The command of a request."""
    command: Command = command_of(java(code, {"a": "b"}, body))
    return command


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: type(each).__name__)
def test_a_change_arrives_as_it_was_asked_for(change: GroupChange) -> None:
    found = asked(codes.CHANGE_STORE_GROUP, asking.changing(change))
    assert isinstance(found, ChangeGroup)
    assert found.change == change


def test_every_change_has_a_form() -> None:
    known = {each for each in vars(changes).values() if isinstance(each, type) and issubclass(each, GroupChange)}
    assert set(change_form.CHANGES.values()) == known - {GroupChange}


def test_which_process_registers_is_said_beside_the_change() -> None:
    """Controllers of 44998bdc refuse a change with a field that they do not know, and do not look at ext fields."""
    change = RegisterReplica(NAME, "main", 1, "h1:10912", "log", run="new", runs_before=("old", "older"))
    body = asking.changing(change)
    assert b"run" not in body
    found = command_of(java(codes.CHANGE_STORE_GROUP, change_form.process_fields(change), body), ChangeGroup)
    assert found.change == change
    many = {"run": "new", "runsBefore": ",".join(["a"] * 65)}
    assert refusal_of(java(codes.CHANGE_STORE_GROUP, many, body))[0] == codes.INVALID_PARAMETER


def test_who_is_alive_is_not_taken_from_a_client() -> None:
    change = ElectLeader(NAME, (ReplicaReport(2, "log-2"),))
    found = asked(codes.CHANGE_STORE_GROUP, asking.changing(change))
    assert isinstance(found, ChangeGroup)
    assert found.change == ElectLeader(NAME)
    body = b'{"change":"ElectLeader","group":"broker-a","live":[]}'
    assert refusal_of(java(codes.CHANGE_STORE_GROUP, {"a": "b"}, body))[0] == codes.INVALID_PARAMETER


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[1]", b"{}", b'{"change":"GroupChange","group":"g"}', b'{"change":["AlterSet"],"group":"g"}',
        b'{"change":"SetMinInSync","group":"g"}', b'{"change":"SetMinInSync","group":"g","least":"1"}',
        b'{"change":"SetMinInSync","group":"g","least":true}', b'{"change":"SetMinInSync","group":"g","least":1,"x":1}',
        b'{"change":"CleanReplicas","group":"g","ids":[1,"2"]}', b'{"change":"CleanReplicas","group":"g","even_living":1}',
        b'{"change":"CleanReplicas","group":"g","ids":[' + b",".join([b"1"] * 65) + b"]}",
        b'{"change":"AlterSet","group":"g","leader":1,"leader_epoch":1,"set_epoch":1,"members":[[1]]}',
        b'{"change":"SetMinInSync","group":"g","least":9223372036854775808}',
    ],
)  # fmt: skip
def test_what_is_no_change_is_refused(body: bytes) -> None:
    assert refusal_of(java(codes.CHANGE_STORE_GROUP, {"a": "b"}, body))[0] == codes.INVALID_PARAMETER


@pytest.mark.parametrize("refusal", [None, *GroupRefusal], ids=lambda each: "made" if each is None else each.name)
@pytest.mark.parametrize("group", [GROUP, None])
def test_the_answer_to_a_change_has_the_refusal_and_the_group(refusal: GroupRefusal | None, group: StoreGroup | None) -> None:
    event = GroupChanged(None, GroupAnswer(refusal, group), frozenset({1}))
    frame = answered(codes.CHANGE_STORE_GROUP, asking.changing(CHANGES[5]), event)
    assert asking.changed(frame) == GroupAnswer(refusal, group)


def test_an_answer_of_which_nothing_is_known_is_no_refusal() -> None:
    frame = decoded(java(codes.SERVICE_NOT_AVAILABLE, {"refusal": "no such"}, flag=1))
    assert asking.changed(frame) is None


def test_groups_are_listed_with_what_was_heard_of_their_replicas() -> None:
    body = asking.listing("broker", [NAME, "other"])
    for asks, after, names in ((b"", "", []), (body, "broker", [NAME, "other"])):
        found = asked(codes.LIST_STORE_GROUPS, asks)
        assert isinstance(found, ListStoreGroups)
        assert (found.after, list(found.names)) == (after, names)
    event = StoreGroupsListed(None, None, [(GROUP, HEARD), (replace(GROUP, name="b"), ())], True)
    assert asking.listed(answered(codes.LIST_STORE_GROUPS, body, event)) == (
        [(GROUP, HEARD), (replace(GROUP, name="b"), ())],
        True,
    )
    event = StoreGroupsListed(None, GroupRefusal.NOT_LEADING, ())
    assert asking.listed(answered(codes.LIST_STORE_GROUPS, body, event)) is GroupRefusal.NOT_LEADING


def test_a_controller_says_how_it_is() -> None:
    assert isinstance(asked(codes.GET_CONTROLLER, b""), QueryController)
    big = (1 << 63) - 1
    event = ControllerFound(
        None, big, 7, True, big, [3, big], [5], {3: "h1:9878", big: "h2:9878"}, "its log is damaged", ["h1:9878"], "no"
    )
    assert asking.controller_of(answered(codes.GET_CONTROLLER, b"", event)) == event


def test_a_heartbeat_has_all_that_a_replica_says_of_itself() -> None:
    report = ReplicaReport(2, "log-2b", 5, 1 << 41, 9)
    found = command_of(
        java(codes.BROKER_HEARTBEAT, asking.heartbeat("main", NAME, "h2:10912", ReplicaWord(report), 3_000)), HearReplica
    )
    assert (found.group, found.word.report, found.timeout_ms, found.word.figures) == (NAME, report, 3_000, None)
    figures = ReplicaFigures(800, -1, 12, 3, 1_700_000_000_000, 500)
    found = command_of(
        java(codes.BROKER_HEARTBEAT, asking.heartbeat("main", NAME, "h2:10912", ReplicaWord(report, figures=figures), 3_000)),
        HearReplica,
    )
    assert found.word.figures == figures
    led = figures._replace(paths=((1, 4_000), (3, 600_000)))
    fields = asking.heartbeat("main", NAME, "h2:10912", ReplicaWord(report, figures=led), 3_000)
    found = command_of(java(codes.BROKER_HEARTBEAT, fields), HearReplica)
    assert found.word.figures == led


@pytest.mark.parametrize("text", ["1", "1:", ":2", "a:b", "1:2:3", "-1:5", "1:-5", "1:" + "9" * 60, ",,", "²:3"])
def test_paths_that_are_none_are_left_out(text: str) -> None:
    report, figures = ReplicaReport(2, "log-2b", 5, 1 << 41, 9), ReplicaFigures(800)
    fields = {
        **asking.heartbeat("main", NAME, "h2:10912", ReplicaWord(report, figures=figures), 3_000),
        "pathMicros": f"7:8,{text},9:10",
    }
    found = command_of(java(codes.BROKER_HEARTBEAT, fields), HearReplica)
    assert found.word.figures is not None
    assert found.word.figures.paths == ((7, 8), (9, 10))


def test_paths_are_bounded() -> None:
    figures = ReplicaFigures(800, paths=[(each, 5) for each in range(1, 10 * REPLICAS_MAX)])
    fields = asking.heartbeat("main", NAME, "h2:10912", ReplicaWord(ReplicaReport(2, "log-2b"), figures=figures), 3_000)
    found = command_of(java(codes.BROKER_HEARTBEAT, fields), HearReplica)
    assert found.word.figures is not None
    assert len(found.word.figures.paths) == REPLICAS_MAX


def test_a_notice_of_a_new_leader_has_the_whole_group() -> None:
    frame = decoded(role_changed(GROUP, 7))
    assert asking.notice(frame) == GROUP
    apache = replace(GROUP, replicas=tuple(replace(each, incarnation="apache") for each in GROUP.replicas))
    assert asking.notice(decoded(role_changed(apache, 7))) is None, "Apache's brokers read what they read before"


def test_a_controller_is_added_and_removed() -> None:
    body = b""
    for remove in (False, True):
        found = command_of(
            java(codes.CHANGE_CONTROLLERS, asking.changing_controllers("h4:9878", remove), body), ChangeControllers
        )
        assert (found.address, found.remove) == ("h4:9878", remove)
        made = ControllersChanged(None, None, "")
        assert asking.controllers_changed(decoded(reply_to(found, made))) == ""
        refused = ControllersChanged(None, GroupRefusal.INVALID, "one at a time")
        assert asking.controllers_changed(decoded(reply_to(found, refused))) == "one at a time"
        elsewhere = ControllersChanged(None, GroupRefusal.NOT_LEADING, "no")
        assert asking.controllers_changed(decoded(reply_to(found, elsewhere))) is GroupRefusal.NOT_LEADING


def test_a_greeting_tells_the_book() -> None:
    assert peer.read(peer.fields(7, (1, 2), ("h1:9878", "h2:9878"), 1)) == (7, (1, 2), ("h1:9878", "h2:9878"), 1)
    assert peer.read({"node": "7"}) == (7, (), (), 0), "as a controller of an earlier version says it"
    with pytest.raises(RequestError):
        peer.read({"node": "7", "book": "nowhere"})


def test_a_heartbeat_says_where_a_remote_replica_is_and_since_when_it_takes_no_leader() -> None:
    word = RemoteWord("frankfurt", 4_096, 61_500)
    report = ReplicaReport(2, "log-2b", 5, 812, fence=6)
    fields = asking.heartbeat("main", NAME, "h2:10912", ReplicaWord(report, remote=word), 3_000)
    found = command_of(java(codes.BROKER_HEARTBEAT, dict(fields)), HearReplica)
    assert (found.word.remote, found.word.report.fence) == (word, 6)
    for wrong in ("", "1:2:", "x:2:a", f"{'9' * 90}:1:a"):
        found = command_of(java(codes.BROKER_HEARTBEAT, {**fields, "remote": wrong}), HearReplica)
        assert found.word.remote == LOCAL, "a heartbeat counts without it, too"


def test_a_leader_says_what_replicas_lack_that_are_not_in_sync() -> None:
    lacks = (LeftOut(3, MemberLack.RECORDS, 4_096), LeftOut(5, MemberLack.CONNECTION))
    report = ReplicaReport(1, "log-1", 5, 812, seen=StateSeen(5, 9))
    fields = asking.heartbeat("main", NAME, "h1:10912", ReplicaWord(report, left_out=lacks), 3_000)
    found = command_of(java(codes.BROKER_HEARTBEAT, dict(fields)), HearReplica)
    assert (found.word.left_out, found.word.report.seen) == (lacks, StateSeen(5, 9))
    listed = group_form.read(
        bean.read(fastjson.dumps(group_form.write(GROUP, [ReplicaHeard(ReplicaWord(report, left_out=lacks), 1, True)])))
    )
    assert (listed[1][0].word.left_out, listed[1][0].report.seen) == (lacks, StateSeen(5, 9))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", ()), ("3", ()), ("3:SPEED", ()), ("x:SPEED:0", ()), ("3:SPEED:-1", ()), (f"{'9' * 90}:SPEED:0", ()),
        ("3:OF_A_LATER_VERSION:7,4:SPEED:0", (LeftOut(4, MemberLack.SPEED),)),
        (",".join(["4:SPEED:0"] * 99), (LeftOut(4, MemberLack.SPEED),) * REPLICAS_MAX),
    ],
)  # fmt: skip
def test_what_cannot_be_read_of_the_word_of_a_leader_is_left_out(text: str, kept: tuple[LeftOut, ...]) -> None:
    fields = asking.heartbeat("main", NAME, "h1:10912", ReplicaWord(ReplicaReport(1, "log-1")), 3_000)
    found = command_of(java(codes.BROKER_HEARTBEAT, {**fields, "leftOut": text}), HearReplica)
    assert found.word.left_out == kept


@pytest.mark.parametrize("text", ["", "5", "5:", "5:x", "-5:9", f"5:{'9' * 60}"])
def test_a_malformed_state_that_was_seen_counts_as_none(text: str) -> None:
    fields = asking.heartbeat("main", NAME, "h1:10912", ReplicaWord(ReplicaReport(1, "log-1")), 3_000)
    assert command_of(java(codes.BROKER_HEARTBEAT, {**fields, "seen": text}), HearReplica).word.report.seen == NOTHING_SEEN


@pytest.mark.parametrize("words", [[], [[3, "OF_A_LATER_VERSION", 0]], [[3, [], 0]], [[True, "SPEED", 0]], [["3"]], [[]]])
def test_a_word_of_a_leader_that_a_tool_cannot_read_is_left_out(words: list[object]) -> None:
    assert _read_with(leftOut=words).word.left_out == ()


@pytest.mark.parametrize("wrong", [{"leftOut": 3}, {"leftOut": ["3"]}, {"seen": [1]}, {"seen": [1, "2"]}, {"seen": 1}])
def test_what_is_no_word_of_a_replica_is_no_answer(wrong: dict[str, object]) -> None:
    with pytest.raises(RequestError):
        _read_with(**wrong)


def _read_with(**fields: object) -> ReplicaHeard:
    """What was heard of the first replica of GROUP, with these fields of the JSON."""
    written = group_form.write(GROUP, [ReplicaHeard(ReplicaWord(ReplicaReport(GROUP.replicas[0].id, "log-1")), 1, True)])
    found = bean.read(fastjson.dumps(written))
    bean.table(bean.beans(found, "replicas")[0], "heard").update(fields)
    return group_form.read(found)[1][0]


def test_a_heartbeat_and_a_list_say_who_serves_clients_and_which_gateways_it_has() -> None:
    leads = ServingWord(
        5, "only 3% of the volume is free", (GatewayWord("a1", "gw, 1"), GatewayWord("b2", "[::1]:10911", 5_200))
    )
    read = leads._replace(gateways=(GatewayWord("a1", "gw  1"), leads.gateways[1]))
    report = ReplicaReport(2, "log-2b", 5, 812)
    for word, wanted in ((leads, read), (SERVES_NOBODY, SERVES_NOBODY), (UNSAID, UNSAID)):
        fields = asking.heartbeat("main", NAME, "h2:10912", ReplicaWord(report, serving=word), 3_000)
        assert command_of(java(codes.BROKER_HEARTBEAT, dict(fields)), HearReplica).word.serving == wanted
        asked = command_of(java(codes.LIST_STORE_GROUPS, {}, asking.listing()), ListStoreGroups)
        heard = replace(HEARD[0], word=HEARD[0].word._replace(serving=word))
        found = asking.listed(decoded(reply_to(asked, StoreGroupsListed(None, None, [(GROUP, [heard])]))))
        assert isinstance(found, tuple)
        assert found[0][0][1] == (heard,)


def test_what_a_heartbeat_says_of_gateways_is_bounded_and_may_be_anything() -> None:
    fields = asking.heartbeat("main", NAME, "h2:10912", ReplicaWord(ReplicaReport(2, "log-2b"), serving=SERVES_NOBODY), 3_000)
    many = ",".join(f"{each}:0:gw" for each in range(1_000))
    for said, count in ((many, GATEWAYS_SAID_MAX), ("", 0), (",,:,a,:b,a:,a:gw,a:x:gw,a:-1:gw,a:0:" + "x" * 900, 0)):
        found = command_of(java(codes.BROKER_HEARTBEAT, {**fields, "gateways": said}), HearReplica)
        assert len(found.word.serving.gateways) == count
    long = command_of(java(codes.BROKER_HEARTBEAT, {**fields, "unready": "y" * 9_000}), HearReplica)
    assert len(long.word.serving.unready) == 1_024


def test_a_controller_says_whom_it_has_refused_and_who_finds_no_leader() -> None:
    asked = command_of(java(codes.GET_CONTROLLER, {}), QueryController)
    strangers = (StrangerSeen(NAME, "10.9.9.9", "of another group", 1_200),)
    made = ControllerFound(None, 7, 1, True, 7, [7], [], {}, "", [], "", strangers, (GatewayMissed(NAME, "gw-1", 40_000),))
    found = asking.controller_of(decoded(reply_to(asked, made)))
    assert (found.strangers, found.gateways) == (made.strangers, made.gateways)


def test_a_gateway_that_has_no_store_tells_the_controllers_which_tell_tools() -> None:
    search = GatewaySearch("gw-1", "h1:10911, h2:10911", "h2:10911: connection refused", 41_000)
    asked = command_of(java(codes.HEAR_GATEWAY, asking.searching("a1", search)), HearGateway)
    assert (asked.life, asked.search) == ("a1", search)
    assert decoded(reply_to(asked, Done(None))).code == codes.SUCCESS
    made = ControllerFound(None, 7, 1, True, 7, [7], [], {}, "", searching=(search,))
    assert asking.controller_of(
        decoded(reply_to(command_of(java(codes.GET_CONTROLLER, {}), QueryController), made))
    ).searching == (search,)
    long = asking.searching("a1", GatewaySearch("n" * 9_000, "s" * 9_000, "w" * 9_000, (1 << 63) - 1))
    found = command_of(java(codes.HEAR_GATEWAY, dict(long)), HearGateway).search
    assert ({len(each) for each in found[:3]}, found.waits_ms) == ({SAID_CHARS_MAX}, NUMBER_MAX)
    for wrong in ({"life": ""}, {"name": ""}, {"life": "x" * 300}, {"waitsMs": "soon"}):
        assert refusal_of(java(codes.HEAR_GATEWAY, {**asking.searching("a1", search), **wrong}))


def test_a_replica_says_of_which_group_its_log_is_when_it_asks() -> None:
    asked = command_of(java(codes.LIST_STORE_GROUPS, {}, asking.listing("", (NAME,), "ours")), ListStoreGroups)
    assert asked.identity == "ours"
    assert command_of(java(codes.LIST_STORE_GROUPS, {}, asking.listing()), ListStoreGroups).identity == ""
    assert refusal_of(java(codes.LIST_STORE_GROUPS, {}, asking.listing("", (), "x" * 300)))
