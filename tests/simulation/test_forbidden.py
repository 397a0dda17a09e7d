"""Every remoting request from users without the right to it: refused with the protocol's code, and nothing is changed."""

from __future__ import annotations

import json

import pytest

from gateway.node.settings import Config
from protocols.remoting import codes
from protocols.remoting.nodes.replication.dispatch import READERS as REPLICA_READERS
from protocols.remoting.wire.frame import Frame
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP, BROKER = "sim", "workers", "broker-a"
RECEIPT = f"0 1700000000000 30000 0 0 {BROKER} 0 0"
QUEUE = {"topic": TOPIC, "brokerName": BROKER, "queueId": 0}
SEND = {"a": "p", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "", "j": "0", "k": "false"}
SEND_1 = {
    "producerGroup": "p", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0",
    "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "properties": "REPLY_TO_CLIENT\x01root\x02", "reconsumeTimes": "0",
    "unitMode": "false",
}  # fmt: skip
ONE_OF_BATCH = bytes.fromhex("00000017 00000000 00000000 00000000 00000001 78 0000")
PLACE = {"topic": TOPIC, "queueId": "0"}
OF_GROUP = {"consumerGroup": GROUP, **PLACE}
PULL = {**OF_GROUP, "queueOffset": "0", "maxMsgNums": "8", "sysFlag": "4", "commitOffset": "0", "subscription": "*"}
POP = {**OF_GROUP, "maxMsgNums": "8", "invisibleTime": "30000", "pollTime": "0", "bornTime": "0", "initMode": "0"}
SETTLE = {**OF_GROUP, "extraInfo": RECEIPT, "offset": "0", "invisibleTime": "10000"}
MADE = {
    "topic": "made", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
    "topicFilterType": "SINGLE_TAG", "order": "false",
}  # fmt: skip
OURSELVES = {"brokerName": "b-x", "brokerAddr": "10.0.0.9:1", "clusterName": "c", "brokerId": "0", "haServerAddr": "10.0.0.9:2"}
KEY = {"namespace": "names", "key": "one", "value": "1"}
USER = {"username": "eve", "password": "e", "userType": "Super"}
LITE = {"parentTopic": TOPIC, "topic": TOPIC, "group": GROUP, "clientId": "c", "liteTopic": "l"}
ENTRY = {"resource": ["Topic:*"], "actions": ["All"], "sourceIps": [], "decision": "Allow"}
ACL = {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [ENTRY]}]}
MEMBER = {
    "clientID": "c", "producerDataSet": [],
    "consumerDataSet": [{"groupName": GROUP, "subscriptionDataSet": [{"topic": TOPIC, "subString": "*"}]}],
}  # fmt: skip
ONE_ACK = {"c": GROUP, "t": TOPIC, "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 9, "b": "AQ=="}
ACKS = {"brokerName": BROKER, "acks": [ONE_ACK]}
SYNC = {"subscriptionSet": [{"action": "PARTIAL_ADD", "clientId": "c", "group": GROUP, "topic": TOPIC, "liteTopicSet": ["l"]}]}
TIMES = {"topic": TOPIC, "key": "k", "maxNum": "8", "beginTimestamp": "0", "endTimestamp": "9000000000000"}

REQUESTS: dict[int, tuple[dict[str, str], object]] = {
    codes.SEND: (SEND_1, b"x"),
    codes.SEND_V2: (SEND, b"x"),
    codes.SEND_BATCH: ({**SEND, "m": "true"}, ONE_OF_BATCH),
    codes.SEND_REPLY: (SEND_1, b"x"),
    codes.SEND_REPLY_V2: ({**SEND, "i": "REPLY_TO_CLIENT\x01root\x02"}, b"x"),
    codes.PULL: (PULL, b""),
    codes.LITE_PULL: (PULL, b""),
    codes.QUERY_MESSAGE: (TIMES, b""),
    codes.GET_CONSUMERS: ({"topic": TOPIC}, b""),
    codes.QUERY_OFFSET: (OF_GROUP, b""),
    codes.UPDATE_OFFSET: ({**OF_GROUP, "commitOffset": "1"}, b""),
    codes.SEARCH_OFFSET: ({**PLACE, "timestamp": "1"}, b""),
    codes.GET_MAX_OFFSET: (PLACE, b""),
    codes.GET_MIN_OFFSET: (PLACE, b""),
    codes.GET_TOPIC_BOUNDS: ({"topic": TOPIC}, b""),
    codes.HOLD_QUEUES: ({"hold": "h", "topic": TOPIC, "holdMs": "1000"}, b"[[0,0]]"),
    codes.GREET_NODE: ({}, {"cluster": "DefaultCluster", "node": "g", "life": "00"}),
    codes.GET_EARLIEST_TIME: (PLACE, b""),
    codes.VIEW_MESSAGE: ({"offset": "0"}, b""),
    codes.HEARTBEAT: ({}, MEMBER),
    codes.UNREGISTER_CLIENT: ({"clientID": "c", "consumerGroup": GROUP}, b""),
    codes.GET_MEMBERS: ({"consumerGroup": GROUP}, b""),
    codes.LOCK_QUEUES: ({}, {"clientId": "c", "consumerGroup": GROUP, "mqSet": [QUEUE]}),
    codes.UNLOCK_QUEUES: ({}, {"clientId": "c", "consumerGroup": GROUP, "mqSet": [QUEUE]}),
    codes.QUERY_ASSIGNMENT: ({}, {"clientId": "c", "consumerGroup": GROUP, "topic": TOPIC, "messageModel": "CLUSTERING"}),
    codes.SET_REQUEST_MODE: ({}, {"consumerGroup": GROUP, "topic": TOPIC, "mode": "POP"}),
    codes.SEND_BACK: ({"offset": "0", "group": GROUP, "delayLevel": "0"}, b""),
    codes.RECALL: ({"topic": TOPIC, "recallHandle": "djEgc2ltIGJyb2tlci1hIDE3MDAwMDAwMDAwMDEgdQ=="}, b""),
    codes.RESUME_TRANSACTION: ({"topic": TOPIC, "msgId": "7F00000100002A9F0000000000000000"}, b""),
    codes.POP: (POP, b""),
    codes.ACK: (SETTLE, b""),
    codes.BATCH_ACK: ({}, ACKS),
    codes.CHANGE_INVISIBLE: (SETTLE, b""),
    codes.NOTIFICATION: ({**OF_GROUP, "pollTime": "0", "bornTime": "0"}, b""),
    codes.POP_LITE: ({**POP, "clientId": "c", "maxMsgNum": "8"}, b""),
    codes.LITE_SUBSCRIPTION: ({}, SYNC),
    codes.ACK_LITE: ({**SETTLE, "liteTopic": "l"}, b""),
    codes.GET_LITE_NODE: ({}, b""),
    codes.GET_LITE_PARENT: (LITE, b""),
    codes.GET_LITE_TOPIC: (LITE, b""),
    codes.GET_LITE_CLIENT: (LITE, b""),
    codes.GET_LITE_GROUP: (LITE, b""),
    codes.DISPATCH_LITE: (LITE, b""),
    codes.UPDATE_TOPIC: (MADE, b""),
    codes.UPDATE_TOPIC_LIST: ({}, {"topicConfigList": [{"topicName": "made", "readQueueNums": 1, "writeQueueNums": 1}]}),
    codes.DELETE_TOPIC: ({"topic": TOPIC}, b""),
    codes.GET_TOPIC: ({"topic": TOPIC}, b""),
    codes.GET_ALL_TOPICS: ({}, b""),
    codes.GET_BROKER_SYSTEM_TOPICS: ({}, b""),
    codes.GET_TOPIC_STATS: ({"topic": TOPIC}, b""),
    codes.GET_PROGRESS: ({"consumerGroup": GROUP, "topic": TOPIC}, b""),
    codes.UPDATE_GROUP: ({}, {"groupName": "made"}),
    codes.UPDATE_GROUP_LIST: ({}, {"groupConfigList": [{"groupName": "made"}]}),
    codes.GET_GROUP: ({"group": GROUP}, b""),
    codes.SET_READABLE: ({"group": GROUP, "topic": TOPIC, "readable": "false"}, b""),
    codes.GET_ALL_GROUPS: ({}, b""),
    codes.DELETE_GROUP: ({"groupName": GROUP}, b""),
    codes.RESET_OFFSET: ({"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}, b""),
    codes.CLONE_OFFSETS: ({"srcGroup": GROUP, "destGroup": "made", "topic": TOPIC}, b""),
    codes.GET_CONSUMER_STATUS: ({"topic": TOPIC, "group": GROUP}, b""),
    codes.GET_RUNNING_INFO: ({"consumerGroup": GROUP, "clientId": "c"}, b""),
    codes.CONSUME_DIRECTLY: ({"consumerGroup": GROUP, "clientId": "c", "msgId": "7F00000100002A9F0000000000000000"}, b""),
    codes.GET_CONSUMER_CONNECTIONS: ({"consumerGroup": GROUP}, b""),
    codes.GET_PRODUCER_CONNECTIONS: ({"producerGroup": "p"}, b""),
    codes.GET_PRODUCERS: ({}, b""),
    codes.GET_CONSUMED: ({"group": GROUP}, b""),
    codes.GET_SUBSCRIPTION: ({"group": GROUP, "topic": TOPIC}, b""),
    codes.GET_TIME_SPANS: ({"group": GROUP, "topic": TOPIC}, b""),
    codes.GET_RATES: ({"statsName": "TOPIC_PUT_NUMS", "statsKey": TOPIC}, b""),
    codes.GET_BACKLOG: ({"isOrder": "false"}, b""),
    codes.GET_ROWS: ({**OF_GROUP, "index": "0", "count": "1"}, b""),
    codes.PEEK: ({**OF_GROUP, "maxMsgNums": "1"}, b""),
    codes.GET_ALL_OFFSETS: ({}, b""),
    codes.QUERY_CORRECTION: ({"topic": TOPIC, "compareGroup": GROUP}, b""),
    codes.GET_ALL_MODES: ({}, b""),
    codes.POLLING_INFO: (OF_GROUP, b""),
    codes.GET_HA_STATUS: ({}, b""),
    codes.GET_BROKER_EPOCHS: ({}, b""),
    codes.GET_COLD_READS: ({}, b""),
    codes.CLEAN_QUEUES: ({}, b""),
    codes.CLEAN_TOPICS: ({}, b""),
    codes.CLEAN_LOG: ({}, b""),
    codes.UPDATE_BROKER_CONFIG: ({}, b"autoCreateTopicEnable=false"),
    codes.GET_BROKER_CONFIG: ({}, b""),
    codes.GET_RUNTIME_INFO: ({}, b""),
    codes.GET_ROUTE: ({"topic": TOPIC}, b""),
    codes.GET_CLUSTER: ({}, b""),
    codes.GET_TOPICS: ({}, b""),
    codes.GET_TOPICS_OF_CLUSTER: ({"cluster": "DefaultCluster"}, b""),
    codes.GET_SYSTEM_TOPICS: ({}, b""),
    codes.DELETE_TOPIC_ROUTE: ({"topic": TOPIC}, b""),
    codes.GET_UNIT_TOPICS: ({}, b""),
    codes.GET_UNIT_SUBSCRIBED: ({}, b""),
    codes.GET_UNIT_SUBSCRIBED_ALONE: ({}, b""),
    codes.GET_BROKER_MEMBERS: ({"clusterName": "DefaultCluster", "brokerName": BROKER}, b""),
    codes.PUT_KV: (KEY, b""),
    codes.GET_KV: (KEY, b""),
    codes.DELETE_KV: (KEY, b""),
    codes.LIST_KV: (KEY, b""),
    codes.WIPE_WRITE: ({"brokerName": BROKER}, b""),
    codes.ADD_WRITE: ({"brokerName": BROKER}, b""),
    codes.GET_NAMESRV_CONFIG: ({}, b""),
    codes.UPDATE_NAMESRV_CONFIG: ({}, b"orderMessageEnable=false"),
    codes.REGISTER_BROKER: (OURSELVES, {"topicConfigSerializeWrapper": {"topicConfigTable": {}, "dataVersion": {}}}),
    codes.REGISTER_PAGE: (
        {**OURSELVES, "stateVersion": "0", "timestamp": "1", "counter": "1", "page": "0", "last": "true"},
        b"[]",
    ),
    codes.UNREGISTER_BROKER: (OURSELVES, b""),
    codes.QUERY_DATA_VERSION: (OURSELVES, {"counter": 1, "stateVersion": 0, "timestamp": 1}),
    codes.BROKER_HEARTBEAT: (OURSELVES, b""),
    codes.CREATE_USER: ({"username": "eve"}, USER),
    codes.UPDATE_USER: ({"username": "alice"}, {"username": "alice", "userType": "Super"}),
    codes.DELETE_USER: ({"username": "root"}, b""),
    codes.GET_USER: ({"username": "root"}, b""),
    codes.LIST_USER: ({"filter": ""}, b""),
    codes.CREATE_ACL: ({"subject": "User:alice"}, ACL),
    codes.UPDATE_ACL: ({"subject": "User:alice"}, ACL),
    codes.DELETE_ACL: ({"subject": "User:bert", "policyType": "Custom", "resource": "Topic:another"}, b""),
    codes.GET_ACL: ({"subject": "User:bert"}, b""),
    codes.LIST_ACL: ({"subjectFilter": "", "resourceFilter": ""}, b""),
}
FOLLOWER: dict[int, tuple[dict[str, str], bytes]] = {
    codes.FOLLOW: ({"group": BROKER, "replica": "2", "incarnation": "7", "epoch": "1", "first": "0", "end": "0"}, b""),
    codes.LOG_BYTES: ({}, bytes(32)),
    codes.LOG_HELD: ({}, bytes(24)),
    codes.READ_LOG: ({"group": BROKER, "position": "0", "end": "100"}, b""),
}
"""What replicas say to each other, on a port of their own."""
STATE = (
    codes.GET_ALL_TOPICS, codes.GET_ALL_GROUPS, codes.GET_ALL_OFFSETS, codes.GET_ALL_MODES, codes.GET_BROKER_CONFIG,
    codes.GET_NAMESRV_CONFIG, codes.GET_CLUSTER, codes.LIST_USER, codes.LIST_ACL,
)  # fmt: skip


class Scene:
    """A node with access control. alice has no rights, bert has rights to other resources, carol from another address."""

    def __init__(self) -> None:
        # Hundreds of logins in a row fail here: each gets the answer of its request, and none has to wait.
        self.world = World(171, Config(admin="root:wonderland", tables={"limits": {"failed_logins": 0}}))
        self.world.start()
        self.root = Tool(self.world, "root", "root", "wonderland")
        self.root.topic(TOPIC, 1)
        self.root.group(GROUP)
        self.root.done(codes.SEND_V2, SEND, b"kept")
        everywhere = ["Topic:*", "Group:*", "Cluster:*"]
        for user, resources, sources in (
            ("alice", [], []),
            ("bert", ["Topic:another*", "Group:another*"], []),
            ("carol", everywhere, ["10.9.9.9"]),
            ("dave", everywhere, []),
        ):
            about = {"username": user, "password": user, "userType": "Normal"}
            self.root.done(codes.CREATE_USER, {"username": user}, about)
            if resources:
                entry = {"resource": resources, "actions": ["All"], "sourceIps": sources, "decision": "Allow"}
                body = {"subject": f"User:{user}", "policies": [{"policyType": "Custom", "entries": [entry]}]}
                self.root.done(codes.CREATE_ACL, {"subject": f"User:{user}"}, body)
        self.root.done(codes.UPDATE_USER, {"username": "dave"}, {"username": "dave", "userStatus": "disable"})
        self.who = {
            "nobody": Tool(self.world, "nobody"),
            "a stranger": Tool(self.world, "mallory", "mallory", "mallory"),
            "one with a wrong signature": Tool(self.world, "forger", "root", "wanderlust"),
            "one without rights": Tool(self.world, "alice", "alice", "alice"),
            "one with other rights": Tool(self.world, "bert", "bert", "bert"),
            "one from elsewhere": Tool(self.world, "carol", "carol", "carol"),
            "one who is disabled": Tool(self.world, "dave", "dave", "dave"),
        }

    def state(self) -> list[object]:
        """The node's state as tools see it, and the end of its log."""
        told = [self.root.call(code, REQUESTS[code][0]).body for code in STATE]
        return [*told, self.world.end(TOPIC, 0), self.root.route(TOPIC)]


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene()


def asked(tool: Tool, code: int) -> Frame:
    fields, body = REQUESTS[code]
    return tool.call(code, fields, body if isinstance(body, bytes) else json.dumps(body).encode())


@pytest.mark.parametrize(
    "who",
    [
        "nobody", "a stranger", "one with a wrong signature", "one without rights", "one with other rights",
        "one from elsewhere", "one who is disabled",
    ],
)  # fmt: skip
def test_whoever_has_no_right_is_refused_and_nothing_is_changed(scene: Scene, who: str) -> None:
    before = scene.state()
    told = {code: asked(scene.who[who], code) for code in sorted(REQUESTS)}
    assert {code: each.code for code, each in told.items() if each.code != codes.NO_PERMISSION} == {}
    assert {code for code, each in told.items() if each.body or not each.remark} == set(), "a reason, and nothing else"
    assert scene.state() == before


def test_oneway_requests_of_those_without_rights_change_nothing_either(scene: Scene) -> None:
    before = scene.state()
    for who in scene.who.values():
        for code, (fields, body) in REQUESTS.items():
            who.post(code, fields, body if isinstance(body, bytes) else json.dumps(body).encode(), oneway=True)
    scene.world.clock.run_for(5_000)
    assert scene.state() == before


def test_nobody_follows_over_the_port_of_clients(scene: Scene) -> None:
    assert set(REPLICA_READERS) < set(FOLLOWER)
    before = scene.state()
    for code, (fields, body) in FOLLOWER.items():
        assert scene.root.call(code, fields, body).code == codes.NOT_SUPPORTED
        for who in scene.who.values():
            assert who.call(code, fields, body).code in (codes.NO_PERMISSION, codes.NOT_SUPPORTED)
            who.post(code, fields, body, oneway=True)
    scene.world.clock.run_for(5_000)
    assert scene.state() == before


@pytest.mark.parametrize(
    ("resource", "allowed"),
    [("Cluster:DefaultCluster", True), ("Cluster:Def*", True), ("Cluster:*", True), ("*", True), ("Cluster:other", False)],
)
def test_what_is_the_clusters_is_granted_by_the_clusters_name(resource: str, allowed: bool) -> None:
    scene = Scene()
    entry = {"resource": [resource], "actions": ["Get"], "sourceIps": [], "decision": "Allow"}
    body = {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [entry]}]}
    scene.root.done(codes.CREATE_ACL, {"subject": "User:alice"}, body)
    wanted = 0 if allowed else codes.NO_PERMISSION
    assert asked(scene.who["one without rights"], codes.GET_RUNTIME_INFO).code == wanted
    assert asked(scene.who["one without rights"], codes.PUT_KV).code == codes.NO_PERMISSION, "another action"
