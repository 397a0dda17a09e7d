"""The name server's codes: TopicRouteData, ClusterInfo, KVTable, RegisterBrokerBody."""

from __future__ import annotations

import json
import tracemalloc
import zlib

import pytest

from domain.nameserver.route import (
    ORDER_KEY,
    OWN_NAMESPACE,
    BrokerAddresses,
    BrokerRegistered,
    BrokerRenewed,
    ClusterFound,
    DataVersion,
    DropRoute,
    ListRoutes,
    PutSetting,
    QueryCluster,
    QueryRoute,
    QuerySettings,
    RegisterBroker,
    RenewBroker,
    RouteFound,
    RouteNames,
    SettingsFound,
    SetWritable,
    TopicQueues,
    UnregisterBroker,
    WritableChanged,
)
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.wire.header import BINARY, JSON
from tests.protocols.remoting.frames import exchanged, fields, one, refused_reply, reply, request


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_a_route_is_compact_json_with_our_own_address(conn: RemotingConnection, serialize: int) -> None:
    """The Go client splits the text of brokerAddrs at commas and colons, so it must not contain blanks."""
    command = one(conn, request(105, {"topic": "T"}, serialize=serialize), QueryRoute)
    brokers = [BrokerAddresses("c1", "b-a", {0: ""}), BrokerAddresses("c2", "b-b", {0: "h:1", 1: "h:2"}, "z1")]
    conn.answer(RouteFound(command.ticket, [TopicQueues("b-a", 8, 4, 6)], brokers, "b-a:4"), 1)
    assert reply(conn).body == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"b-a","cluster":"c1","enableActingMaster":false},'
        b'{"brokerAddrs":{"0":"h:1","1":"h:2"},"brokerName":"b-b","cluster":"c2","enableActingMaster":false,"zoneName":"z1"}],'
        b'"filterServerTable":{},"orderTopicConf":"b-a:4",'
        b'"queueDatas":[{"brokerName":"b-a","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":4}]}'
    )


def test_the_cluster_and_its_system_topics(conn: RemotingConnection) -> None:
    brokers = [BrokerAddresses("c1", "b-a", {0: ""})]
    assert json.loads(exchanged(106, {}, QueryCluster, ClusterFound(None, brokers)).body) == {
        "brokerAddrTable": {
            "b-a": {"brokerAddrs": {"0": "10.0.0.1:10911"}, "brokerName": "b-a", "cluster": "c1", "enableActingMaster": False}
        },
        "clusterAddrTable": {"c1": ["b-a"]},
    }
    command = one(conn, request(304), QueryCluster)
    conn.answer(ClusterFound(command.ticket, brokers), 1)
    assert json.loads(reply(conn).body) == {"topicList": ["b-a", "c1"], "brokerAddr": "10.0.0.1:10911"}


@pytest.mark.parametrize(("code", "asked", "cluster"), [(206, {}, ""), (224, {"cluster": "c1"}, "c1")])
def test_topic_lists(conn: RemotingConnection, code: int, asked: dict[str, str], cluster: str) -> None:
    command = one(conn, request(code, asked), ListRoutes)
    assert command.cluster == cluster
    conn.answer(RouteNames(command.ticket, ["A", "B"]), 1)
    assert reply(conn).body == b'{"topicList":["A","B"]}'


def test_keys(conn: RemotingConnection) -> None:
    put = one(conn, request(100, {"namespace": "n", "key": "k", "value": "v"}))
    assert put == PutSetting(put.ticket, "n", "k", "v")
    gone = one(conn, request(102, {"namespace": "n", "key": "k"}))
    assert gone == PutSetting(gone.ticket, "n", "k", None)
    for values, code in (({"k": "v"}, 0), ({}, 22)):
        assert exchanged(101, {"namespace": "n", "key": "k"}, QuerySettings, SettingsFound(None, values)).code == code
        command = one(conn, request(219, {"namespace": "n"}), QuerySettings)
        conn.answer(SettingsFound(command.ticket, values), 1)
        frame = reply(conn)
        assert frame.code == code
        assert frame.body == (b'{"table":{"k":"v"}}' if values else b"")


def test_dropping_a_route_and_permissions_of_a_broker(conn: RemotingConnection) -> None:
    drop = one(conn, request(216, {"topic": "T", "clusterName": "c1"}))
    assert drop == DropRoute(drop.ticket, "T", "c1")
    for code, writable, name in ((205, False, "wipeTopicCount"), (327, True, "addTopicCount")):
        command = one(conn, request(code, {"brokerName": "b"}), SetWritable)
        assert command.writable is writable
        conn.answer(WritableChanged(command.ticket, 3), 1)
        assert fields(reply(conn)) == {name: "3"}


def test_the_configuration_is_shown_and_the_safe_part_of_it_changed(conn: RemotingConnection) -> None:
    for values, told in (({}, b"true"), ({ORDER_KEY: "false"}, b"false")):
        body = exchanged(319, {}, QuerySettings, SettingsFound(None, values)).body
        assert b"listenPort=9876\n" in body
        assert b"orderMessageEnable=" + told + b"\n" in body
    change = one(conn, request(318, body=b"# by hand\norderMessageEnable = FALSE\n"), PutSetting)
    assert (change.namespace, change.key, change.value) == (OWN_NAMESPACE, ORDER_KEY, "false")
    both = b"orderMessageEnable=true\nlistenPort=1"
    for refused, code in ((b"listenPort=1", 16), (both, 16), (b"orderMessageEnable=1", 29), (b"", 29)):
        assert refused_reply(318, body=refused).code == code


REGISTER = {
    "brokerName": "b-x", "brokerAddr": "10.0.0.7:10911", "clusterName": "c1", "haServerAddr": "10.0.0.7:10912", "brokerId": "0",
}  # fmt: skip
VERSION = {"counter": 3, "stateVersion": 1, "timestamp": 1700000000000}
BODY = json.dumps(
    {
        "filterServerList": [],
        "topicConfigSerializeWrapper": {
            "dataVersion": VERSION,
            "topicConfigTable": {
                "T": {"perm": 6, "readQueueNums": 8, "topicName": "T", "topicSysFlag": 0, "writeQueueNums": 4},
                "../etc": {"perm": 6},
            },
        },
    }
).encode()


def piece(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


COMPRESSED = zlib.compress(
    piece(json.dumps(VERSION).encode())
    + b"\x00\x00\x00\x02"
    + piece(b"T 8 4 6 SINGLE_TAG {}")
    + piece(b"broken")
    + piece(b"[]")
)


@pytest.mark.parametrize(("body", "compressed"), [(BODY, "false"), (COMPRESSED, "true")])
def test_a_broker_registers_in_both_forms(conn: RemotingConnection, body: bytes, compressed: str) -> None:
    crc = str(zlib.crc32(body) & 0x7FFFFFFF)
    command = one(conn, request(103, {**REGISTER, "compressed": compressed, "bodyCrc32": crc}, body), RegisterBroker)
    made = command.registration
    assert (made.cluster, made.broker, made.broker_id, made.address) == ("c1", "b-x", 0, "10.0.0.7:10911")
    assert made.version == DataVersion(1, 1700000000000, 3)
    assert made.topics == {"T": TopicQueues("b-x", 8, 4, 6)}
    conn.answer(BrokerRegistered(command.ticket, "", "", {"T": "b-x:4"}), 1)
    frame = reply(conn)
    assert (frame.code, frame.body) == (0, b'{"table":{"T":"b-x:4"}}')


@pytest.mark.parametrize(
    ("change", "body"),
    [
        ({"bodyCrc32": "1"}, BODY),
        ({"compressed": "true"}, b"no zlib"),
        ({"compressed": "true"}, zlib.compress(b"\x00\x00\x00\x09")),
        ({"compressed": "true"}, zlib.compress(b"\xff\xff\xff\xff")),
        ({"compressed": "true"}, zlib.compress(piece(b"{}") + b"\x00\x00\x00\x02" + piece(b"T 8 4 6"))),
        ({"compressed": "true"}, COMPRESSED[:-12]),
        ({"compressed": "true"}, zlib.compress(b"\x00\x01\x00\x01" + bytes(65_537))),
        ({"brokerName": "../x"}, BODY),
        ({"brokerAddr": "a,b:1"}, BODY),
        ({"brokerAddr": "nowhere"}, BODY),
        ({"brokerId": "x"}, BODY),
        ({}, b"["),
    ],
)
def test_a_bad_registration_is_refused(change: dict[str, str], body: bytes) -> None:
    assert refused_reply(103, {**REGISTER, **change}, body).code in (1, 29)


def bomb(front: bytes) -> bytes:
    """`front`, then 64 MiB of zeros, as a zlib stream of 64 KB."""
    stream = zlib.compressobj(1)
    return stream.compress(front) + b"".join([stream.compress(bytes(1 << 20)) for _ in range(64)]) + stream.flush()


@pytest.mark.parametrize(
    "front",
    [b"", b"\x7f\xff\xff\xff", piece(b"{}") + b"\x00\x00\x10\x00", piece(b"{}") + b"\x00\x00\x10\x00" + b"\x00\x00\xff\xff"],
    ids=["at once", "in the version", "topics without names", "in a topic"],
)
def test_a_body_that_inflates_without_end_costs_little_memory(conn: RemotingConnection, front: bytes) -> None:
    body = bomb(front)
    data = request(103, {**REGISTER, "compressed": "true"}, body)
    tracemalloc.start()
    try:
        conn.receive(data, 1)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3 * len(data) + (1 << 20)


def test_leaving_renewing_and_comparing(conn: RemotingConnection) -> None:
    gone = one(conn, request(104, REGISTER))
    assert gone == UnregisterBroker(gone.ticket, "c1", "b-x", 0, "10.0.0.7:10911")
    assert exchanged(904, REGISTER, RenewBroker, BrokerRenewed(None, False, None)).code == 0
    command = one(conn, request(322, REGISTER, json.dumps(VERSION).encode()), RenewBroker)
    assert command.version == DataVersion(1, 1700000000000, 3)
    conn.answer(BrokerRenewed(command.ticket, True, DataVersion(0, 1, 2)), 1)
    frame = reply(conn)
    assert fields(frame) == {"changed": "true"}
    assert json.loads(frame.body) == {"counter": 2, "stateVersion": 0, "timestamp": 1}
