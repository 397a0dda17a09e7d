"""Imports from brokers that answer as Apache's do, to a node that is scripted too: what is made, kept and left."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest

from domain.errors import ConfigError
from gateway.importing.importing import ALL_COPIED, SOME_LEFT, run
from gateway.importing.server import json_of
from protocols.remoting import codes
from tests.gateway.importing.scripted_server import Answer, ScriptedServer

OK: Answer = (0, {}, b"")
REFUSED: Answer = (1, {}, b"")


def topic(name: str, queues: int, perm: int = 6, **attributes: str) -> dict[str, object]:
    return {
        "topicName": name, "readQueueNums": queues, "writeQueueNums": queues, "perm": perm, "order": False,
        "attributes": {key.replace("_", "."): value for key, value in attributes.items()},
    }  # fmt: skip


class Side:
    """The answers of a broker or of a node.

    offsets   as text, since Java does not quote the queue ids
    ends      topic -> next offset of each of its queues
    """

    def __init__(self, *topics: dict[str, object]) -> None:
        self.topics = {str(each["topicName"]): each for each in topics}
        self.groups: dict[str, dict[str, object]] = {}
        self.offsets = "{}"
        self.ends: dict[str, int] = {}
        self.users: list[dict[str, object]] = []
        self.policies: list[dict[str, object]] = []
        self.controlled = True

    def answer(self, code: int, fields: Mapping[str, str], body: bytes) -> Answer:
        match code:
            case codes.GET_ALL_TOPICS:
                return 0, {}, json.dumps({"topicConfigTable": self.topics}).encode()
            case codes.GET_ALL_GROUPS:
                return 0, {}, json.dumps({"subscriptionGroupTable": self.groups}).encode()
            case codes.GET_ALL_OFFSETS:
                return 0, {}, b'{"offsetTable":' + self.offsets.encode() + b"}"
            case codes.GET_MIN_OFFSET:
                return 0, {"offset": "0"}, b""
            case codes.GET_MAX_OFFSET:
                return 0, {"offset": str(self.ends.get(fields["topic"], 0))}, b""
            case codes.LIST_USER | codes.LIST_ACL if not self.controlled:
                return 1, {}, b""
            case codes.LIST_USER:
                return 0, {}, json.dumps(self.users).encode() if self.users else b""
            case codes.LIST_ACL:
                return 0, {}, json.dumps(self.policies).encode() if self.policies else b""
            case codes.UPDATE_TOPIC if fields["topic"] == "refused":
                return REFUSED
        return OK


@contextmanager
def served(*brokers: Side, node: Side) -> Iterator[tuple[str, ScriptedServer]]:
    """(address of the name server, the node)."""
    with ExitStack() as stack:
        found = [stack.enter_context(ScriptedServer(each.answer)) for each in brokers]
        names = [f"broker-{letter}" for letter, _ in zip("abc", brokers, strict=False)]
        table = ",".join(
            f'"{name}":{{"brokerAddrs":{{0:"{each.address}"}},"brokerName":"{name}","cluster":"C"}}'
            for name, each in zip(names, found, strict=True)
        )
        told = f'{{"brokerAddrTable":{{{table}}},"clusterAddrTable":{{"C":{json.dumps(names)}}}}}'.encode()
        nameserver = stack.enter_context(ScriptedServer(lambda *_: (0, {}, told)))
        yield nameserver.address, stack.enter_context(ScriptedServer(node.answer))


def imported(
    *brokers: Side, node: Side, dry: bool = False
) -> tuple[int, dict[tuple[str, str], tuple[str, str]], ScriptedServer]:
    """(exit status, (kind, name) -> (outcome, detail), the node)."""
    said: list[str] = []
    with served(*brokers, node=node) as (nameserver, target):
        code = run([nameserver], target.address, dry=dry, as_json=True, say=said.append)
    rows = json.loads("".join(said))["rows"]
    return code, {(row["kind"], row["name"]): (row["outcome"], row["detail"]) for row in rows}, target


def asked(node: ScriptedServer, code: int) -> list[dict[str, str]]:
    return [fields for seen, fields, _ in node.seen if seen == code]


def test_a_topic_gets_the_queues_of_all_brokers() -> None:
    first, second = Side(topic("orders", 4), topic("plain", 8)), Side(topic("orders", 3))
    code, rows, node = imported(first, second, node=Side())
    assert code == ALL_COPIED
    assert rows == {("topic", "orders"): ("made", "7 queues"), ("topic", "plain"): ("made", "8 queues")}
    assert {each["topic"]: each["readQueueNums"] for each in asked(node, codes.UPDATE_TOPIC)} == {"orders": "7", "plain": "8"}


def test_topics_of_the_system_are_left_out() -> None:
    names = ("TBW102", "rmq_sys_REVIVE_LOG_C", "broker-a", "C", "%RETRY%g", "%DLQ%g", "SCHEDULE_TOPIC_XXXX", "C_REPLY_TOPIC")
    code, rows, _ = imported(Side(*(topic(name, 1) for name in names)), node=Side())
    assert (code, rows) == (ALL_COPIED, {})


def test_types_are_copied_and_attributes_that_a_node_lacks_are_named() -> None:
    made = topic("events", 1, message_type="FIFO", cleanup_policy="COMPACTION")
    _, rows, node = imported(Side(made), node=Side())
    assert rows["topic", "events"] == ("made", "1 queues; FIFO; attribute cleanup.policy=COMPACTION is not copied")
    assert asked(node, codes.UPDATE_TOPIC)[0]["attributes"] == "+message.type=FIFO"


def test_a_second_run_changes_nothing() -> None:
    node = Side(topic("orders", 4, message_type="NORMAL"))
    node.groups = {"g": {"groupName": "g", "retryMaxTimes": 16}}
    node.offsets = '{"orders@g":{"0":0}}'
    source = Side(topic("orders", 4))
    source.groups = {"g": {"groupName": "g", "retryMaxTimes": 16, "brokerId": 0}}
    source.offsets = '{"orders@g":{0:5,1:7}}'
    code, rows, target = imported(source, node=node)
    assert code == ALL_COPIED
    assert {outcome for outcome, _ in rows.values()} == {"same"}
    assert not asked(target, codes.UPDATE_TOPIC) + asked(target, codes.UPDATE_GROUP) + asked(target, codes.UPDATE_OFFSET)


def test_a_topic_of_the_node_gets_more_queues_and_never_fewer() -> None:
    node = Side(topic("more", 2), topic("fewer", 16))
    _, rows, target = imported(Side(topic("more", 4), topic("fewer", 4)), node=node)
    assert rows["topic", "more"] == ("changed", "2 queues before; 4 queues")
    assert rows["topic", "fewer"][0] == "kept"
    assert [each["topic"] for each in asked(target, codes.UPDATE_TOPIC)] == ["more"]


def test_what_cannot_be_copied_is_named_and_the_exit_status_says_so() -> None:
    node = Side(topic("other", 4, message_type="DELAY"))
    code, rows, _ = imported(Side(topic("other", 4, message_type="FIFO"), topic("refused", 1)), node=node)
    assert code == SOME_LEFT
    assert rows["topic", "other"] == ("not copied", "its type is DELAY at the node and FIFO in the cluster")
    assert rows["topic", "refused"][0] == "not copied"


def test_a_group_begins_at_the_end_of_each_queue_and_what_it_has_not_consumed_is_told() -> None:
    source = Side(topic("orders", 2))
    source.offsets = '{"orders@g":{0:90,1:100},"orders@TOOLS_CONSUMER":{0:1},"%RETRY%g@g":{0:3}}'
    source.ends = {"orders": 100}
    node = Side(topic("orders", 2))
    node.ends = {"orders": 6}
    _, rows, target = imported(source, node=node)
    told = "10 messages of the cluster are not consumed: the group has to consume them there"
    assert rows["position", "g on orders"] == ("made", told)
    assert asked(target, codes.UPDATE_OFFSET) == [
        {"topic": "orders", "queueId": "0", "consumerGroup": "g", "commitOffset": "6"},
        {"topic": "orders", "queueId": "1", "consumerGroup": "g", "commitOffset": "6"},
    ]


def test_users_and_policies_are_made_and_those_of_the_node_are_kept() -> None:
    source = Side()
    source.users = [
        {"username": "alice", "password": "p1", "userType": "Normal", "userStatus": "enable"},
        {"username": "root", "password": "p2", "userType": "Super", "userStatus": "enable"},
    ]
    source.policies = [{"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [{"resource": "Topic:T"}]}]}]
    node = Side()
    node.users = [{"username": "root"}]
    code, rows, target = imported(source, node=node)
    assert code == ALL_COPIED
    assert rows["user", "alice"] == ("made", "Normal, enable")
    assert rows["user", "root"] == ("kept", "the node has a user of this name")
    assert rows["policy", "User:alice"] == ("made", "")
    assert [each["username"] for each in asked(target, codes.CREATE_USER)] == ["alice"]


def test_a_node_without_access_control_gets_no_users() -> None:
    source, node = Side(), Side()
    source.users = [{"username": "alice", "password": "p1", "userType": "Normal", "userStatus": "enable"}]
    node.controlled = False
    code, rows, _ = imported(source, node=node)
    assert code == SOME_LEFT
    assert "start it with --admin" in rows["user", "*"][1]


def test_a_dry_run_changes_nothing() -> None:
    source = Side(topic("orders", 2))
    source.groups = {"g": {"groupName": "g"}}
    source.offsets = '{"orders@g":{0:1}}'
    source.users = [{"username": "alice", "password": "p1", "userType": "Normal", "userStatus": "enable"}]
    _, rows, target = imported(source, node=Side(), dry=True)
    assert {outcome for outcome, _ in rows.values()} == {"made"}
    changing = {codes.UPDATE_TOPIC, codes.UPDATE_GROUP, codes.UPDATE_OFFSET, codes.CREATE_USER, codes.CREATE_ACL}
    assert not changing & {code for code, _, _ in target.seen}


def test_the_table_names_what_was_done() -> None:
    said: list[str] = []
    with served(Side(topic("orders", 2)), node=Side()) as (nameserver, target):
        run([nameserver], target.address, say=said.append)
    assert said == ["topic  orders  made  2 queues", "", "cluster C, brokers broker-a", "topic:    1 made"]


@pytest.mark.parametrize(
    "told", [b"", b"{", b"[]", b'{"clusterAddrTable":{"C":["gone"]}}', b'{"clusterAddrTable":{"A":[],"B":[]}}']
)
def test_a_name_server_that_tells_nonsense_is_an_error_that_names_it(told: bytes) -> None:
    with ScriptedServer(lambda *_: (0, {}, told)) as nameserver, pytest.raises(ConfigError):
        run([nameserver.address], "127.0.0.1:1")


def test_a_name_server_that_is_not_there_is_passed_over() -> None:
    said: list[str] = []
    with served(Side(topic("orders", 2)), node=Side()) as (nameserver, target):
        assert run(["127.0.0.1:1", nameserver], target.address, say=said.append) == ALL_COPIED


def test_bare_numbers_are_read_as_keys() -> None:
    assert json_of(b'{"T@g":{0:5,-1:{2 :3}}}') == {"T@g": {"0": 5, "-1": {"2": 3}}}
