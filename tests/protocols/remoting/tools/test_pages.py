"""Lists of all topics and groups in pages, as mqadmin asks for them since 5.4."""

from __future__ import annotations

import json

import pytest

from domain.admin.group import GroupList, ListGroups
from domain.admin.topic import ListTopics, TopicList
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.topic.topic import Group, Topic
from protocols.remoting import codes
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.tools import pages
from protocols.remoting.wire import fastjson
from tests.protocols.remoting.frames import connection, fields, one, reply, request

PAGE = 3


class Tool:
    """A tool that asks a node for all topics or groups, with the loop of Apache's client.

    read   topics or groups that the node has read for it
    old    True: the node is before a store's node of an earlier version, which lists all groups whatever it is asked for
    """

    def __init__(self, names: list[str], old: bool = False) -> None:
        self.names = names
        self.conn = connection()
        self.read = 0
        self.old = old

    def all(self, code: int, kind: str, table: str) -> list[str]:
        found: dict[str, object] = {}
        version: object = None
        seq = 0
        while True:
            body, total, now = self.page(code, kind, table, seq)
            found.update(body)
            seq += len(body)
            version = now if version is None else version
            assert version == now, "the client begins again when it changes"
            if seq >= total - 1:
                return list(found)

    def page(self, code: int, kind: str, table: str, seq: int, most: int = PAGE) -> tuple[dict[str, object], int, object]:
        asked = request(code, {f"{kind.lower()}Seq": str(seq), f"max{kind}Num": str(most), "dataVersion": ""})
        command = one(self.conn, asked)
        assert isinstance(command, ListTopics | ListGroups)
        found = [name for name in self.names if name > command.after][: command.limit]
        self.read += len(found)
        if isinstance(command, ListTopics):
            self.conn.answer(TopicList(command.ticket, [Topic(name) for name in found]), 1)
        else:
            listed = self.names if self.old else found
            self.conn.answer(GroupList(command.ticket, [Group(name) for name in listed], {"g1": ["T"]}), 1)
        frame = reply(self.conn)
        body = json.loads(frame.body)
        assert len(body[table]) <= most + 1
        return body[table], int(fields(frame)[f"total{kind}Num"]), body["dataVersion"]


KINDS = {
    "topics": (codes.GET_ALL_TOPICS, "Topic", "topicConfigTable"),
    "groups": (codes.GET_ALL_GROUPS, "Group", "subscriptionGroupTable"),
}


@pytest.mark.parametrize("count", range(14))
@pytest.mark.parametrize(("kind", "old"), [("topics", False), ("groups", False), ("groups", True)])
def test_a_tool_gets_all_of_them_however_many_are_left_for_the_last_page(kind: str, old: bool, count: int) -> None:
    names = [f"g{number:02}" for number in range(count)]
    tool = Tool(names, old)
    assert tool.all(*KINDS[kind]) == names
    assert tool.all(*KINDS[kind]) == names, "once more, over the same connection"


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_begins_where_the_one_before_has_ended(kind: str) -> None:
    tool = Tool([f"t{number:03}" for number in range(300)])
    assert len(tool.all(*KINDS[kind])) == 300
    assert tool.read <= 300 + 2 * (300 // PAGE) + 3, "what comes before is not read again"
    tool.names.remove("t010")
    assert list(tool.page(*KINDS[kind], 0)[0])[-1] == "t002"
    page, _, _ = tool.page(*KINDS[kind], 150)
    assert list(page) == ["t151", "t152", "t153"], "from any number"


def test_pages_of_topics_and_of_groups_do_not_go_on_with_each_other() -> None:
    tool = Tool([f"t{number:03}" for number in range(20)])
    for kind, seq, first in (("topics", 0, "t000"), ("groups", 0, "t000"), ("topics", 3, "t003"), ("topics", 6, "t006")):
        assert next(iter(tool.page(*KINDS[kind], seq)[0])) == first
    tool.names.remove("t001")
    assert next(iter(tool.page(*KINDS["groups"], 9)[0])) == "t010", "counted anew"


def test_pages_are_bounded_and_a_request_without_their_size_is_for_all(
    conn: RemotingConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_MAX", 20)
    tool = Tool([f"t{number:05}" for number in range(50)])
    page, total, _ = tool.page(*KINDS["topics"], -5, 1 << 40)
    assert (len(page), total) == (20, 22)
    assert one(conn, request(21, {"topicSeq": "7", "maxTopicNum": "0"}), ListTopics).limit == 0


def test_groups_of_a_page_come_with_what_they_may_not_read() -> None:
    tool = Tool(["g0", "g1", "g2", "g3", "g4", "g5"])
    command = one(tool.conn, request(201, {"groupSeq": "0", "maxGroupNum": "2"}), ListGroups)
    tool.conn.answer(GroupList(command.ticket, [Group(name) for name in tool.names], {"g1": ["T"], "g5": ["U"]}), 1)
    assert json.loads(reply(tool.conn).body)["forbiddenTable"] == {"g1": {"T": 4}}


@pytest.mark.parametrize(("code", "fields_named"), [(21, "topicSeq and maxTopicNum"), (201, "groupSeq and maxGroupNum")])
def test_the_refusal_of_too_long_an_answer_says_how_to_ask(
    conn: RemotingConnection, code: int, fields_named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fastjson, "ANSWER_BYTES_MAX", 1_000)
    command = one(conn, request(code))
    names = [f"n{number}" for number in range(500)]
    if isinstance(command, ListTopics):
        conn.answer(TopicList(command.ticket, [Topic(name) for name in names]), 1)
    else:
        conn.answer(GroupList(command.ticket, [Group(name) for name in names]), 1)
    frame = reply(conn)
    assert frame.code == 1
    assert fields_named in frame.remark


def test_system_topics_are_looked_up_by_name(conn: RemotingConnection) -> None:
    system = ["TBW102", "b-a", "c1", "c1_REPLY_TOPIC", "rmq_sys_TRACE", "rmq_sys_wheel_timer"]
    there = sorted([*system, "T", *(f"x{at}" for at in range(500))])
    asked = conn.receive(request(305), 1)
    for command in asked:
        assert isinstance(command, ListTopics)
        found = [Topic(name) for name in there if name > command.after][: command.limit]
        assert command.limit in {1, pages.PREFIXED_MAX}
        conn.answer(TopicList(command.ticket, found), 1)
    names = json.loads(reply(conn).body)["topicList"]
    assert names == system
    assert len(asked) <= 16, "one turn's commands"
    refused = conn.receive(request(305), 1)
    for command in refused:
        conn.answer(Refused(getattr(command, "ticket", None), Failure(ErrorCode.NOT_ALLOWED, "not you")), 1)
    assert reply(conn).remark == "not you"


def test_a_page_with_all_of_them_has_the_version_of_the_newest() -> None:
    """Tools notice by it that something has changed; Apache's own tests wait for that."""
    conn = connection()
    for most, newest_ms in ((3, 7), (1, 0)):
        command = one(conn, request(codes.GET_ALL_TOPICS, {"topicSeq": "0", "maxTopicNum": str(most)}))
        assert isinstance(command, ListTopics)
        listed = [Topic("a", created_ms=5), Topic("b", created_ms=7), Topic("c", created_ms=6)]
        conn.answer(TopicList(command.ticket, listed), 1)
        assert json.loads(reply(conn).body)["dataVersion"] == json.loads(fastjson.dumps(fastjson.data_version(newest_ms)))
