"""Members of groups: heartbeats, members, queue locks, assignments (HeartbeatData, QueryAssignmentProcessor)."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.admin.group import QueryRequestMode, RequestMode, SetRequestMode
from domain.client.membership import Heartbeat, Leave, Locked, LockQueues, Members, Membership, QueryMembers, Subscription
from domain.command import Pull, SendBack
from domain.errors import ErrorCode, Failure
from domain.event import Done, Event, Refused
from domain.nameserver.route import QueryRoute, RouteFound, TopicQueues
from protocols.remoting.clients import assignment
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.wire import frame
from tests.protocols.remoting.frames import connection, fields, one, refused_reply, reply, request

BEAT = {
    "clientID": "10.0.0.9@1234#77",
    "consumerDataSet": [
        {
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "consumeType": "CONSUME_PASSIVELY",
            "groupName": "g",
            "messageModel": "CLUSTERING",
            "subscriptionDataSet": [
                {"codeSet": [65], "expressionType": "TAG", "subString": "A", "subVersion": 17, "tagsSet": ["A"], "topic": "T"}
            ],
            "unitMode": False,
        }
    ],
    "heartbeatFingerprint": 0,
    "producerDataSet": [{"groupName": "pg"}],
    "withoutSub": False,
}
PULL = {"consumerGroup": "g", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "0"}


def beat(conn: RemotingConnection, **change: object) -> Heartbeat:
    return one(conn, request(34, body=json.dumps({**BEAT, **change}).encode()), Heartbeat)


def test_a_heartbeat_names_producers_and_memberships(conn: RemotingConnection) -> None:
    command = beat(conn)
    assert (command.client_id, command.producers) == ("10.0.0.9@1234#77", ["pg"])
    assert (command.language, command.version) == ("JAVA", 479)
    assert command.consumers == [
        Membership("g", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET", [Subscription("T", "A", "TAG", 17)])
    ]
    conn.answer(Done(command.ticket), 1)
    assert fields(reply(conn)) == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}


def test_a_heartbeat_without_subscriptions_keeps_the_known_ones(conn: RemotingConnection) -> None:
    beat(conn)
    short = [{**BEAT["consumerDataSet"][0], "subscriptionDataSet": []}]  # type: ignore[index]
    assert beat(conn, consumerDataSet=short, withoutSub=True).keep_subscriptions
    command = one(conn, request(11, PULL))
    assert command.filter is not None


SHORT = [{**BEAT["consumerDataSet"][0], "subscriptionDataSet": []}]  # type: ignore[index]
"""The groups of a client as a heartbeat without subscriptions names them."""


def changed(conn: RemotingConnection, fingerprint: int, short: bool) -> tuple[str, list[Membership]]:
    """The answer IS_SUB_CHANGE to a heartbeat of version 2, and the memberships that the node is told."""
    consumers = SHORT if short else BEAT["consumerDataSet"]
    command = beat(conn, heartbeatFingerprint=fingerprint, withoutSub=short, consumerDataSet=consumers)
    conn.answer(Done(command.ticket), 1)
    return fields(reply(conn))["IS_SUB_CHANGE"], list(command.consumers)


def test_a_known_fingerprint_stands_for_the_subscriptions(conn: RemotingConnection) -> None:
    """ClientManageProcessor.heartBeatV2: a fingerprint that differs asks for the subscriptions."""
    short = Membership("g", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET", [])
    assert changed(conn, 77, short=True) == ("true", [short]), "an unknown client"
    answer, whole = changed(conn, 77, short=False)
    assert (answer, whole[0].subscriptions) == ("true", [Subscription("T", "A", "TAG", 17)])
    assert changed(conn, 77, short=False) == ("false", whole)
    assert [changed(conn, 77, short=True) for _ in range(2)] == [("false", whole)] * 2, "the node is told what it stands for"
    assert changed(conn, -78, short=True) == ("true", [short]), "the client has changed"
    assert changed(conn, -78, short=False) == ("true", whole)
    assert changed(conn, -78, short=True) == ("false", whole)
    assert changed(connection(), -78, short=True)[0] == "true", "another connection is another client"
    conn.answer(Done(beat(conn).ticket), 1)
    assert fields(reply(conn))["IS_SUB_CHANGE"] == "true", "version 1 has no fingerprint"
    assert changed(conn, -78, short=True)[0] == "true", "it may have had other subscriptions"


def test_a_producer_alone_has_no_subscriptions_to_send(conn: RemotingConnection) -> None:
    command = beat(conn, heartbeatFingerprint=5, withoutSub=True, consumerDataSet=[])
    conn.answer(Done(command.ticket), 1)
    assert fields(reply(conn))["IS_SUB_CHANGE"] == "false"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"clientID":""}', b"\xff\xfe", b'{"clientID":"a","consumerDataSet":[1,"x"]}']
)
def test_any_heartbeat_has_an_outcome(conn: RemotingConnection, body: bytes) -> None:
    commands = conn.receive(request(34, body=body), 1)
    assert len(commands) == 1 or reply(conn).code == 29


def test_members_and_their_absence(conn: RemotingConnection) -> None:
    command = one(conn, request(38, {"consumerGroup": "g"}), QueryMembers)
    conn.answer(Members(command.ticket, ["a", "b"]), 1)
    assert reply(conn).body == b'{"consumerIdList":["a","b"]}'
    command = one(conn, request(38, {"consumerGroup": "g"}), QueryMembers)
    conn.answer(Refused(command.ticket, Failure(ErrorCode.GROUP_OFFLINE, "no consumer for this group")), 1)
    assert reply(conn).code == 1


def test_leaving_a_group(conn: RemotingConnection) -> None:
    beat(conn)
    command = one(conn, request(35, {"clientID": "c", "consumerGroup": "g"}), Leave)
    assert (command.client_id, command.consumer_group, command.producer_group) == ("c", "g", "")
    pull = one(conn, request(11, PULL), Pull)
    assert pull.subscribed


@pytest.mark.parametrize("code", [41, 42])
def test_locking_and_unlocking(conn: RemotingConnection, code: int) -> None:
    queue = {"brokerName": "b-a", "queueId": 3, "topic": "T"}
    body = json.dumps({"clientId": "c", "consumerGroup": "g", "mqSet": [queue], "onlyThisBroker": False}).encode()
    command = one(conn, request(code, body=body), LockQueues)
    assert (command.queues, command.unlock) == ([("b-a", "T", 3)], code == 42)
    if code == 41:
        conn.answer(Locked(command.ticket, command.queues), 1)
        assert json.loads(reply(conn).body) == {"lockOKMQSet": [queue]}
    else:
        conn.answer(Done(command.ticket), 1)
        assert reply(conn).code == 0


@pytest.mark.parametrize(
    ("kind", "text", "code"),
    [("TAG", "a || b", 0), ("SQL92", "a IS NOT NULL", 0), ("SQL92", "a IS", 23), ("SQL92", "", 23), ("XPATH", "//a", 23)],
)
def test_which_filters_the_broker_has(kind: str, text: str, code: int) -> None:
    asked = {"expressionType": kind, "subString": text}
    body = json.dumps({"clientId": "c", "group": "g", "subscriptionData": asked}).encode()
    assert refused_reply(46, body=body).code == code


def test_setting_the_request_mode() -> None:
    command = one(
        connection(), request(401, body=b'{"consumerGroup":"g","mode":"POP","popShareQueueNum":0,"topic":"T"}'), SetRequestMode
    )
    assert (command.group, command.topic, command.mode, command.pop_share_queues) == ("g", "T", "POP", 0)


def test_send_back() -> None:
    asked = {"group": "g", "offset": "4660", "delayLevel": "0", "originMsgId": "ID", "originTopic": "T"}
    asked["maxReconsumeTimes"] = "16"
    command = one(connection(), request(36, asked))
    assert command == SendBack(command.ticket, "g", 4660, 0, 16, "T", "ID")


ROUTE = (TopicQueues("b-a", 4, 4, 6),)
"""The default route of the topic."""


def asked(
    mode: Event | str, members: list[str], route: Event | Sequence[TopicQueues] = ROUTE, shared: int = 0, **change: str
) -> frame.Frame:
    """The reply to client b."""
    conn = connection()
    body = {"clientId": "b", "consumerGroup": "g", "messageModel": "CLUSTERING", "strategyName": "AVG", "topic": "T", **change}
    commands = conn.receive(request(400, body=json.dumps(body).encode()), 1)
    for command in reversed(commands):
        if isinstance(command, QueryRequestMode):
            event = RequestMode(command.ticket, mode, shared) if isinstance(mode, str) else mode
        elif isinstance(command, QueryMembers):
            event = Members(command.ticket, members)
        else:
            assert isinstance(command, QueryRoute)
            event = RouteFound(command.ticket, list(route), []) if isinstance(route, Sequence) else route
        event.ticket = command.ticket
        conn.answer(event, 1)
    return reply(conn)


def assigned(mode: str, members: list[str], **change: str) -> object:
    return json.loads(asked(mode, members, ROUTE, 0, **change).body)


def queues(found: frame.Frame) -> list[tuple[str, int]]:
    """(broker, queue id) of each queue in a reply."""
    return [
        (each["messageQueue"]["brokerName"], each["messageQueue"]["queueId"])
        for each in json.loads(found.body)["messageQueueAssignments"]
    ]


def test_an_assignment_by_pull_is_the_average_share() -> None:
    found = assigned("PULL", ["a", "b"])
    assert found == {
        "messageQueueAssignments": [
            {"messageQueue": {"brokerName": "b-a", "queueId": queue_id, "topic": "T"}, "mode": "PULL"} for queue_id in (2, 3)
        ]
    }


def test_an_assignment_by_pop_is_any_queue() -> None:
    assert assigned("POP", ["a", "b"]) == {
        "messageQueueAssignments": [{"messageQueue": {"brokerName": "b-a", "queueId": -1, "topic": "T"}, "mode": "POP"}]
    }


def test_retry_topics_are_pulled_whatever_the_mode() -> None:
    found = assigned("POP", ["b"], topic="%RETRY%g")
    assert isinstance(found, dict)
    assert {each["mode"] for each in found["messageQueueAssignments"]} == {"PULL"}


def test_a_client_that_is_no_member_keeps_its_queues() -> None:
    assert assigned("PULL", ["a"]) == {}


def test_the_queues_of_every_broker_that_can_be_read_are_shared_out_by_name_and_number() -> None:
    route = [TopicQueues("b-c", 3, 0, 4), TopicQueues("b-a", 2, 2, 6), TopicQueues("b-b", 8, 8, 2), TopicQueues("b-d", 0, 4, 6)]
    assert queues(asked("PULL", ["a", "b"], route)) == [("b-c", 1), ("b-c", 2)]
    assert queues(asked("PULL", ["a", "b"], route, strategyName="AVG_BY_CIRCLE")) == [("b-a", 1), ("b-c", 1)]
    assert queues(asked("POP", ["a", "b"], route)) == [("b-a", -1), ("b-c", -1)]
    everything = [("b-a", 0), ("b-a", 1), ("b-c", 0), ("b-c", 1), ("b-c", 2)]
    assert queues(asked("PULL", [], route, messageModel="BROADCASTING")) == everything


def test_members_of_pop_share_with_their_neighbours_by_the_strategy() -> None:
    route = [TopicQueues("b-a", 2, 2, 6), TopicQueues("b-b", 2, 2, 6)]
    assert queues(asked("POP", ["a", "b", "c", "d"], route, 1)) == [("b-a", 1), ("b-b", 0)]
    assert queues(asked("POP", ["a", "b", "c"], route, 1, strategyName="AVG_BY_CIRCLE")) == [("b-a", 1), ("b-b", 0)]
    assert queues(asked("POP", ["a", "a1", "a2", "a3", "a4", "b"], route, 1)) == [("b-a", 1)], "one, where members are too many"
    assert queues(asked("POP", ["a", "b", "c"], [TopicQueues("b-a", 4, 4, 2)], 1)) == []


def test_a_topic_without_route_leaves_the_clients_queues_as_they_are() -> None:
    found = asked("PULL", ["b"], Refused(None, Failure(ErrorCode.TOPIC_NOT_FOUND, "none")))
    assert (found.code, found.body) == (0, b"{}")


def test_an_assignment_without_rights_is_refused() -> None:
    denied = Failure(ErrorCode.NOT_ALLOWED, "no")
    assert asked(Refused(None, denied), ["b"]).code == asked("PULL", ["b"], Refused(None, denied)).code == 16


def test_a_route_with_too_many_queues_for_a_frame_is_assigned_by_the_client() -> None:
    route = [TopicQueues("b-a", 65_536, 4, 6), TopicQueues("b-b", 1, 4, 6)]
    assert asked("PULL", ["b"], route).code == 1
    assert len(queues(asked("PULL", ["b"], route[:1]))) == 65_536


@given(st.integers(0, 40), st.integers(1, 9), st.booleans())
@settings(max_examples=100, deadline=None)
def test_shares_cover_every_queue_once(queues: int, members: int, circle: bool) -> None:
    taken = [queue_id for at in range(members) for queue_id in assignment.share(queues, members, at, circle=circle)]
    assert sorted(taken) == list(range(queues))
