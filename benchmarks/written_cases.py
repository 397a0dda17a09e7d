"""The commands of clients that write to the log, one case for each, for `benchmarks.written`.

A case is a generator: up to its first `yield` it prepares, then it sends, and yields the number of commands that it has sent.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple

import orjson

from protocols.coap.message import cbor, option
from protocols.coap.message import message as coap
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.mqtt.connect import Disconnect, Will
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Subscribe, Unsubscribe
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame
from tests.neighbours.wires import MqttWire, Wires, parsed, resource

OPEN: Final = "open"
CONTROLLED: Final = "controlled"
Steps = Generator[int, None, None]
WIDE: Final = 512
"""Queues of a topic with many."""
LARGE: Final = 256 * 1024
"""Bytes of a large body."""
SMALLER: Final = 40_000
"""Bytes of one that fits the first window of HTTP/2."""


class Case(NamedTuple):
    """One command, or several of a kind.

    kind    OPEN, or CONTROLLED: the node controls access
    reason  why it may write more than the bound; "": it may not
    """

    protocol: str
    name: str
    kind: str
    reason: str
    run: Callable[[Wires], Steps]


CASES: Final[list[Case]] = []


def case(
    protocol: str, name: str, reason: str = "", kind: str = OPEN
) -> Callable[[Callable[[Wires], Steps]], Callable[[Wires], Steps]]:
    """Register a case."""

    def add(run: Callable[[Wires], Steps]) -> Callable[[Wires], Steps]:
        CASES.append(Case(protocol, name, kind, reason, run))
        return run

    return add


# HTTP


def topic(wires: Wires, name: str, queues: int = 1, kind: str = "NORMAL") -> None:
    answer = wires.http("PUT", f"/v1/topics/{name}", {"queues": queues, "type": kind})
    assert answer.status in (200, 201, 204), answer


def group(wires: Wires, name: str) -> None:
    answer = wires.http("PUT", f"/v1/groups/{name}", {})
    assert answer.status in (200, 201, 204), answer


def send(wires: Wires, name: str, body: bytes = b"x", query: str = "", **fields: str) -> Any:
    names = {each.replace("_", "-"): text for each, text in fields.items()}
    answer = wires.http("POST", f"/v1/topics/{name}/messages{query}", body, names)
    assert answer.status == 201, answer
    return answer.json


def receive(wires: Wires, of: str, name: str, most: int = 1) -> list[str]:
    answer = wires.http("POST", f"/v1/groups/{of}/topics/{name}:receive?max={most}&from=first")
    assert answer.status == 200, answer
    return [each["receipt"] for each in answer.json["messages"]]


def leased(wires: Wires, name: str, body: bytes = b"x", count: int = 1) -> list[str]:
    """Receipts of `count` messages of topic `name`, leased to the group of that name."""
    topic(wires, name)
    group(wires, name)
    receive_once(wires, name)
    for _ in range(count):
        send(wires, name, body)
    return receive(wires, name, name, count)


def receive_once(wires: Wires, name: str) -> None:
    """Let the group have its position at the beginning of the empty topic."""
    wires.http("POST", f"/v1/groups/{name}/topics/{name}:receive?max=1")


def done(answer: Any, *allowed: int) -> int:
    """One command, which was carried out."""
    assert answer.status in (allowed or (200, 201, 204)), answer
    return 1


@case("HTTP", "PUT of a new topic")
def _(w: Wires) -> Steps:
    yield 0
    yield done(w.http("PUT", "/v1/topics/h1", {}))


@case("HTTP", f"PUT of a new topic with {WIDE} queues")
def _(w: Wires) -> Steps:
    yield 0
    yield done(w.http("PUT", "/v1/topics/h2", {"queues": WIDE}))


@case("HTTP", "DELETE of a topic")
def _(w: Wires) -> Steps:
    topic(w, "h3", WIDE)
    send(w, "h3")
    yield 0
    yield done(w.http("DELETE", "/v1/topics/h3"))


@case("HTTP", "PUT of a new group")
def _(w: Wires) -> Steps:
    yield 0
    yield done(w.http("PUT", "/v1/groups/h4", {}))


@case("HTTP", "DELETE of a group")
def _(w: Wires) -> Steps:
    leased(w, "h5", count=3)
    yield 0
    yield done(w.http("DELETE", "/v1/groups/h5"))


@case("HTTP", "POST of a message of a byte")
def _(w: Wires) -> Steps:
    topic(w, "h6")
    yield 0
    send(w, "h6")
    yield 1


@case("HTTP", "POST of a message to a topic that it makes")
def _(w: Wires) -> Steps:
    yield 0
    send(w, "h7")
    yield 1


@case("HTTP", "POST of a latest value")
def _(w: Wires) -> Steps:
    topic(w, "h8")
    yield 0
    send(w, "h8", bytes(LARGE), mq_retain="true")
    yield 1


@case("HTTP", "POST of a message with a key")
def _(w: Wires) -> Steps:
    topic(w, "h9")
    yield 0
    send(w, "h9", idempotency_key='"k"')
    yield 1


@case("HTTP", "POST of a delayed message")
def _(w: Wires) -> Steps:
    topic(w, "h10")
    yield 0
    send(w, "h10", bytes(LARGE), "?delay_ms=100000000")
    yield 1


@case("HTTP", "POST of a delayed message, and its delivery")
def _(w: Wires) -> Steps:
    topic(w, "h11")
    yield 0
    send(w, "h11", bytes(LARGE), "?delay_ms=500")
    yield 1


@case("HTTP", "recall of a delayed message")
def _(w: Wires) -> Steps:
    topic(w, "h12")
    handle = send(w, "h12", bytes(LARGE), "?delay_ms=100000000")["recall"]
    yield 0
    yield done(w.http("POST", "/v1/topics/h12:recall", {"recall": handle}))


@case("HTTP", "batch of 100 messages")
def _(w: Wires) -> Steps:
    topic(w, "h13")
    body = orjson.dumps([{"body": "eA=="}] * 100)
    yield 0
    done(w.http("POST", "/v1/topics/h13/messages:batch", body, {"content-type": "application/json"}), 200, 201, 207)
    yield 100


@case("HTTP", "prepare of a message of a transaction")
def _(w: Wires) -> Steps:
    topic(w, "h14")
    yield 0
    yield done(w.http("POST", "/v1/topics/h14/messages:prepare", bytes(LARGE)))


@case("HTTP", "commit of a transaction", "its message, whose bytes counted twice when it came")
def _(w: Wires) -> Steps:
    topic(w, "h15")
    name = w.http("POST", "/v1/topics/h15/messages:prepare", bytes(LARGE)).json["transaction"]
    yield 0
    yield done(w.http("POST", f"/v1/topics/h15/transactions/{name}:commit"))


@case("HTTP", "rollback of a transaction")
def _(w: Wires) -> Steps:
    topic(w, "h16")
    name = w.http("POST", "/v1/topics/h16/messages:prepare", bytes(LARGE)).json["transaction"]
    yield 0
    yield done(w.http("POST", f"/v1/topics/h16/transactions/{name}:rollback"))


@case("HTTP", "event")
def _(w: Wires) -> Steps:
    topic(w, "h17")
    fields = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "/s", "content-type": "text/plain"}
    yield 0
    yield done(w.http("POST", "/ce/h17", b"x", fields), 200, 201, 204)


@case("HTTP", "receive by a new group")
def _(w: Wires) -> Steps:
    topic(w, "h18")
    send(w, "h18")
    yield 0
    receive(w, "h18", "h18")
    yield 1


@case("HTTP", "receive of 32 messages")
def _(w: Wires) -> Steps:
    leased(w, "h19")
    for _ in range(32):
        send(w, "h19")
    yield 0
    assert len(receive(w, "h19", "h19", 32)) == 32
    yield 1


@case("HTTP", "ack of 32 messages")
def _(w: Wires) -> Steps:
    receipts = leased(w, "h20", count=32)
    yield 0
    yield done(w.http("POST", "/v1/groups/h20/topics/h20:ack", {"receipts": receipts}))


@case("HTTP", "extension of 32 leases")
def _(w: Wires) -> Steps:
    receipts = leased(w, "h21", count=32)
    yield 0
    yield done(w.http("POST", "/v1/groups/h21/topics/h21:extend", {"receipts": receipts, "invisible_ms": 60_000}))


@case("HTTP", "nack of a large message")
def _(w: Wires) -> Steps:
    receipts = leased(w, "h22", bytes(LARGE))
    yield 0
    yield done(w.http("POST", "/v1/groups/h22/topics/h22:nack", {"receipts": receipts}))


@case("HTTP", f"reset of a group in {WIDE} queues", "a position of each queue, of whom may update the group")
def _(w: Wires) -> Steps:
    topic(w, "h23", WIDE)
    group(w, "h23")
    for _ in range(WIDE):
        send(w, "h23")
    receive(w, "h23", "h23", 32)
    yield 0
    yield done(w.http("POST", "/v1/groups/h23/topics/h23:reset?to=1"))


@case("HTTP", "removal of a latest value")
def _(w: Wires) -> Steps:
    topic(w, "h24")
    send(w, "h24", bytes(LARGE), mq_retain="true")
    yield 0
    yield done(w.http("DELETE", "/v1/latest/h24"))


HOOK: Final = {"source": "hook", "sink": "https://hooks.example.com/", "protocol": "HTTP"}


def hook(w: Wires, name: str) -> str:
    topic(w, name)
    answer = w.http("POST", "/subscriptions", {**HOOK, "source": name})
    assert answer.status == 201, answer
    return str(answer.json["id"])


@case("HTTP", "POST of a webhook subscription")
def _(w: Wires) -> Steps:
    topic(w, "h25")
    yield 0
    yield done(w.http("POST", "/subscriptions", {**HOOK, "source": "h25"}))


@case("HTTP", "PUT of the same webhook subscription")
def _(w: Wires) -> Steps:
    name = hook(w, "h26")
    yield 0
    yield done(w.http("PUT", f"/subscriptions/{name}", {**HOOK, "source": "h26", "id": name}))


@case("HTTP", "pause of a webhook subscription")
def _(w: Wires) -> Steps:
    name = hook(w, "h27")
    yield 0
    yield done(w.http("POST", f"/subscriptions/{name}:pause"))


@case("HTTP", "DELETE of a webhook subscription")
def _(w: Wires) -> Steps:
    name = hook(w, "h28")
    yield 0
    yield done(w.http("DELETE", f"/subscriptions/{name}"))


ROOT: Final = {"authorization": "Basic " + base64.b64encode(b"root:secret").decode()}


@case("HTTP", "POST of a user", kind=CONTROLLED)
def _(w: Wires) -> Steps:
    yield 0
    yield done(w.http("POST", "/v1/users/u1", {"password": "p"}, ROOT))


@case("HTTP", "DELETE of a user", kind=CONTROLLED)
def _(w: Wires) -> Steps:
    done(w.http("POST", "/v1/users/u2", {"password": "p"}, ROOT))
    yield 0
    yield done(w.http("DELETE", "/v1/users/u2", b"", ROOT))


@case("HTTP", "PUT of a policy of a user with 200", "a user's policies are one record, which a Super user sets", CONTROLLED)
def _(w: Wires) -> Steps:
    done(w.http("POST", "/v1/users/u3", {"password": "p"}, ROOT))
    for number in range(200):
        done(w.http("PUT", "/v1/users/u3/policies", {"resource": f"Topic:t{number}", "actions": ["Pub"]}, ROOT))
    yield 0
    yield done(w.http("PUT", "/v1/users/u3/policies", {"resource": "Topic:last", "actions": ["Pub"]}, ROOT))


@case("HTTP", "PUT of an OSCORE context", kind=CONTROLLED)
def _(w: Wires) -> Steps:
    done(w.http("POST", "/v1/users/u4", {"password": "p"}, ROOT))
    yield 0
    yield done(w.http("PUT", "/v1/users/u4/oscore", {"device_id": "01", "node_id": "", "secret": "00" * 16}, ROOT))


# MQTT


def filters(count: int, size: int = 3_900) -> list[tuple[str, int]]:
    return [(f"q/{number:04}/".ljust(size, "x"), 0) for number in range(count)]


def rich(w: Wires, name: str, count: int = 1_000) -> MqttWire:
    """The client of a session with `count` filters of 3.9 KB."""
    client = MqttWire(w, name)
    wanted = filters(count)
    for first in range(0, count, 125):
        client.ask(Subscribe(1, wanted[first : first + 125], NONE))
    return client


@case("MQTT", "CONNECT of a new session")
def _(w: Wires) -> Steps:
    yield 0
    MqttWire(w, "m1")
    yield 1


@case("MQTT", "CONNECT with a will of 60 KB")
def _(w: Wires) -> Steps:
    yield 0
    MqttWire(w, "m2", will=Will("will", bytes(60_000), 1, False, NONE))
    yield 1


@case("MQTT", "CONNECT and DISCONNECT of a session with 1,000 filters")
def _(w: Wires) -> Steps:
    client = rich(w, "m3")
    yield 0
    for _ in range(5):
        client.drop()
        client = MqttWire(w, "m3")
    client.ask(Disconnect(0, NONE), answers=0)
    yield 11


@case("MQTT", "CONNECT that discards a session with 1,000 filters", "a removal of each, which its SUBSCRIBE has made")
def _(w: Wires) -> Steps:
    rich(w, "m4").drop()
    yield 0
    MqttWire(w, "m4", clean=True)
    yield 1


@case("MQTT", "SUBSCRIBE to a filter, besides 1,000")
def _(w: Wires) -> Steps:
    client = rich(w, "m5")
    yield 0
    for number in range(10):
        client.ask(Subscribe(1, [(f"a{number}", 1)], NONE))
    yield 10


@case("MQTT", "SUBSCRIBE to 1,000 filters of 4 bytes", "a record for each filter, of its name and 60 bytes")
def _(w: Wires) -> Steps:
    client = MqttWire(w, "m6")
    yield 0
    client.ask(Subscribe(1, [(f"{number:04}", 1) for number in range(1_000)], NONE))
    yield 1


@case("MQTT", "UNSUBSCRIBE from a filter, besides 1,000")
def _(w: Wires) -> Steps:
    client = rich(w, "m7")
    client.ask(Subscribe(1, [("a", 1)], NONE))
    yield 0
    client.ask(Unsubscribe(1, ["a"], NONE))
    yield 1


@case("MQTT", "SUBSCRIBE to a share of a new group")
def _(w: Wires) -> Steps:
    client = MqttWire(w, "m8")
    yield 0
    client.ask(Subscribe(1, [("$share/m8/m8/#", 1)], NONE))
    yield 1


@case("MQTT", "SUBSCRIBE that gets 100 latest values", "a record for each delivery above QoS 0, as the client is sent one")
def _(w: Wires) -> Steps:
    sender = MqttWire(w, "m9s")
    for number in range(100):
        sender.ask(Publish(f"m9/{number}".encode(), b"v", 1, True, False, 1, NONE))
    client = MqttWire(w, "m9")
    yield 0
    client.ask(Subscribe(1, [("m9/#", 1)], NONE), answers=101)
    yield 1


@case("MQTT", "PUBLISH of a byte, QoS 0")
def _(w: Wires) -> Steps:
    client = MqttWire(w, "m10")
    client.ask(Publish(b"m10", b"x", 1, False, False, 1, NONE))
    yield 0
    client.ask(Publish(b"m10", b"x", 0, False, False, 0, NONE), answers=0)
    yield 1


@case("MQTT", "PUBLISH of a byte, QoS 1, to a topic that it makes")
def _(w: Wires) -> Steps:
    client = MqttWire(w, "m11")
    yield 0
    client.ask(Publish(b"m11", b"x", 1, False, False, 1, NONE))
    yield 1


@case("MQTT", "PUBLISH of a byte, QoS 2, and its PUBREL")
def _(w: Wires) -> Steps:
    client = MqttWire(w, "m12")
    client.ask(Publish(b"m12", b"x", 1, False, False, 1, NONE))
    yield 0
    client.ask(Publish(b"m12", b"x", 2, False, False, 7, NONE))
    client.ask(Ack(6, 7))
    yield 2


@case("MQTT", "PUBLISH of a retained value")
def _(w: Wires) -> Steps:
    client = MqttWire(w, "m13")
    yield 0
    client.ask(Publish(b"m13", bytes(LARGE), 1, True, False, 1, NONE))
    yield 1


@case("MQTT", "PUBLISH that removes a retained value")
def _(w: Wires) -> Steps:
    client = MqttWire(w, "m14")
    client.ask(Publish(b"m14", bytes(LARGE), 1, True, False, 1, NONE))
    yield 0
    client.ask(Publish(b"m14", b"", 1, True, False, 1, NONE))
    yield 1


@case("MQTT", "PUBACK, with 100 messages in flight whose topics have 3.9 KB")
def _(w: Wires) -> Steps:
    client = MqttWire(w, "m15")
    client.ask(Subscribe(1, [("m15/#", 1)], NONE))
    sender = MqttWire(w, "m15s")
    names = [f"m15/{number:03}/".ljust(3_900, "x").encode() for number in range(100)]
    for name in names:
        sender.ask(Publish(name, b"x", 1, False, False, 1, NONE))
    got = client.ask(answers=100)
    yield 0
    client.ask(*(Ack(4, each.packet_id) for each in got if isinstance(each, Publish)), answers=0)
    yield 100


@case("MQTT", "loss of a connection with a will of 60 KB", "its will, whose bytes counted twice when it came")
def _(w: Wires) -> Steps:
    client = MqttWire(w, "m16", will=Will("m16", bytes(60_000), 1, True, NONE))
    yield 0
    client.drop()
    w.sent += 1
    yield 1


# CoAP


@case("CoAP", "POST of a message")
def _(w: Wires) -> Steps:
    topic(w, "c1")
    yield 0
    assert w.coap(coap.POST, ["mq", "c1"], b"x").code >> 5 == 2
    yield 1


@case("CoAP", "PUT of a latest value, in a topic that it makes")
def _(w: Wires) -> Steps:
    yield 0
    assert w.coap(coap.PUT, ["mq", "c2"], b"x").code >> 5 == 2
    yield 1


@case("CoAP", "DELETE of a latest value")
def _(w: Wires) -> Steps:
    w.coap(coap.PUT, ["mq", "c3"], b"x")
    yield 0
    assert w.coap(coap.DELETE, ["mq", "c3"]).code >> 5 == 2
    yield 1


PUBSUB: Final = (option.CONTENT_FORMAT, coap.uint(606))


def data_topic(w: Wires, name: str) -> str:
    answer = w.coap(coap.POST, ["ps"], cbor.encode({0: name, 2: "core.ps.data"}), [PUBSUB])
    assert answer.code == coap.CREATED, answer.code
    return [value.decode() for number, value in answer.options if number == option.LOCATION_PATH][-1]


@case("CoAP", "POST of a topic of the publish-subscribe draft")
def _(w: Wires) -> Steps:
    yield 0
    data_topic(w, "c4")
    yield 1


@case("CoAP", "DELETE of a topic of the draft")
def _(w: Wires) -> Steps:
    name = data_topic(w, "c5")
    yield 0
    assert w.coap(coap.DELETE, ["ps", name]).code >> 5 == 2
    yield 1


@case("CoAP", "PUT of the data of a topic of the draft")
def _(w: Wires) -> Steps:
    name = data_topic(w, "c6")
    yield 0
    assert w.coap(coap.PUT, ["ps", "data", name], b"x").code >> 5 == 2
    yield 1


# gRPC


def message(name: str, body: bytes = b"x", kind: Any = pb.NORMAL) -> pb.Message:
    made = pb.Message(topic=resource(name), body=body)
    made.system_properties.message_id = f"id-{name}"
    made.system_properties.message_type = kind
    made.system_properties.body_encoding = pb.IDENTITY
    return made


def grpc_send(w: Wires, made: pb.Message) -> Any:
    (answer,) = parsed(w.grpc("SendMessage", pb.SendMessageRequest(messages=[made])), pb.SendMessageResponse)
    assert answer.status.code == pb.OK, answer
    return answer.entries[0]


def grpc_leased(w: Wires, name: str, body: bytes = b"x") -> Any:
    topic(w, name)
    group(w, name)
    receive_once(w, name)
    grpc_send(w, message(name, body))
    request = pb.ReceiveMessageRequest(group=resource(name), message_queue=pb.MessageQueue(topic=resource(name)), batch_size=1)
    request.filter_expression.expression = "*"
    request.invisible_duration.seconds = 30
    found = [each for each in parsed(w.grpc("ReceiveMessage", request), pb.ReceiveMessageResponse) if each.HasField("message")]
    return found[0].message


@case("gRPC", "SendMessage of a byte")
def _(w: Wires) -> Steps:
    topic(w, "g1")
    yield 0
    grpc_send(w, message("g1"))
    yield 1


@case("gRPC", "SendMessage of a message of a transaction")
def _(w: Wires) -> Steps:
    topic(w, "g2", kind="TRANSACTION")
    yield 0
    grpc_send(w, message("g2", bytes(SMALLER), pb.TRANSACTION))
    yield 1


@case("gRPC", "EndTransaction", "its message, whose bytes counted twice when it came")
def _(w: Wires) -> Steps:
    topic(w, "g3", kind="TRANSACTION")
    entry = grpc_send(w, message("g3", bytes(SMALLER), pb.TRANSACTION))
    request = pb.EndTransactionRequest(topic=resource("g3"), message_id=entry.message_id, transaction_id=entry.transaction_id)
    request.resolution = pb.COMMIT
    yield 0
    (answer,) = parsed(w.grpc("EndTransaction", request), pb.EndTransactionResponse)
    assert answer.status.code == pb.OK, answer
    yield 1


@case("gRPC", "AckMessage")
def _(w: Wires) -> Steps:
    got = grpc_leased(w, "g4")
    request = pb.AckMessageRequest(group=resource("g4"), topic=resource("g4"))
    request.entries.add(message_id=got.system_properties.message_id, receipt_handle=got.system_properties.receipt_handle)
    yield 0
    w.grpc("AckMessage", request)
    yield 1


@case("gRPC", "ChangeInvisibleDuration")
def _(w: Wires) -> Steps:
    got = grpc_leased(w, "g5")
    request = pb.ChangeInvisibleDurationRequest(group=resource("g5"), topic=resource("g5"))
    request.receipt_handle = got.system_properties.receipt_handle
    request.invisible_duration.seconds = 60
    yield 0
    w.grpc("ChangeInvisibleDuration", request)
    yield 1


@case("gRPC", "ForwardMessageToDeadLetterQueue", "the message again: its body is charged")
def _(w: Wires) -> Steps:
    got = grpc_leased(w, "g6", bytes(SMALLER))
    request = pb.ForwardMessageToDeadLetterQueueRequest(group=resource("g6"), topic=resource("g6"), delivery_attempt=1)
    request.receipt_handle = got.system_properties.receipt_handle
    request.message_id = got.system_properties.message_id
    yield 0
    body = w.grpc("ForwardMessageToDeadLetterQueue", request)
    (answer,) = parsed(body, pb.ForwardMessageToDeadLetterQueueResponse)
    assert answer.status.code == pb.OK, answer
    yield 1


@case("gRPC", "ReceiveMessage by a new group")
def _(w: Wires) -> Steps:
    yield 0
    grpc_leased(w, "g7")
    yield 5


# RocketMQ remoting

SENT: Final = {
    "producerGroup": "p", "topic": "", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0",
    "bornTimestamp": "0", "flag": "0", "properties": "", "reconsumeTimes": "0", "unitMode": "false",
}  # fmt: skip


def asked(w: Wires, code: int, body: bytes = b"", **fields: str) -> Frame:
    answer = w.remoting(code, fields, body)
    assert answer.code == codes.SUCCESS, (answer.code, answer.remark)
    return answer


def remoting_send(w: Wires, name: str, body: bytes = b"x", **fields: str) -> dict[str, str]:
    answer = asked(w, codes.SEND, body, **{**SENT, "topic": name, **fields})
    return dict(answer.fields() or {})


def physical(message_id: str) -> str:
    """Position in the log that an offset message id names: its last eight bytes."""
    return str(int(message_id[-16:], 16))


@case("remoting", "send of a byte")
def _(w: Wires) -> Steps:
    topic(w, "r1")
    yield 0
    remoting_send(w, "r1")
    yield 1


@case("remoting", "send of a byte to a topic that it makes")
def _(w: Wires) -> Steps:
    yield 0
    remoting_send(w, "r2")
    yield 1


@case("remoting", "send-back of a large message", "the message again: its body is charged")
def _(w: Wires) -> Steps:
    topic(w, "r3")
    group(w, "r3")
    offset = physical(remoting_send(w, "r3", bytes(LARGE))["msgId"])
    yield 0
    asked(w, codes.SEND_BACK, group="r3", offset=offset, delayLevel="18", originTopic="r3")
    yield 1


@case("remoting", "send-back of a large message to the dead letters", "the message again: its body is charged")
def _(w: Wires) -> Steps:
    topic(w, "r4")
    group(w, "r4")
    offset = physical(remoting_send(w, "r4", bytes(LARGE))["msgId"])
    yield 0
    asked(w, codes.SEND_BACK, group="r4", offset=offset, delayLevel="-1", originTopic="r4")
    yield 1


@case("remoting", "end of a transaction", "its message, whose bytes counted twice when it came")
def _(w: Wires) -> Steps:
    topic(w, "r5")
    got = remoting_send(w, "r5", bytes(LARGE), sysFlag="4", properties="TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01r5\x02")
    yield 0
    asked(
        w, codes.END_TRANSACTION, producerGroup="p", tranStateTableOffset=got["queueOffset"], commitOrRollback="8",
        commitLogOffset=physical(got["msgId"]), fromTransactionCheck="false", msgId="r5", transactionId="r5",
    )  # fmt: skip
    yield 1


@case("remoting", "position of a new group")
def _(w: Wires) -> Steps:
    topic(w, "r6")
    yield 0
    asked(w, codes.UPDATE_OFFSET, consumerGroup="r6", topic="r6", queueId="0", commitOffset="0")
    yield 1


@case("remoting", "the same position 20 times")
def _(w: Wires) -> Steps:
    topic(w, "r7")
    remoting_send(w, "r7")
    asked(w, codes.UPDATE_OFFSET, consumerGroup="r7", topic="r7", queueId="0", commitOffset="1")
    yield 0
    for _ in range(20):
        asked(w, codes.UPDATE_OFFSET, consumerGroup="r7", topic="r7", queueId="0", commitOffset="1")
    yield 20


@case("remoting", "pull with a position")
def _(w: Wires) -> Steps:
    topic(w, "r8")
    group(w, "r8")
    remoting_send(w, "r8")
    yield 0
    w.remoting(
        codes.PULL,
        {
            "consumerGroup": "r8", "topic": "r8", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "5",
            "commitOffset": "1", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
        },
    )  # fmt: skip
    yield 1


def pop(w: Wires, name: str) -> Frame:
    return asked(
        w, codes.POP, consumerGroup=name, topic=name, queueId="-1", maxMsgNums="32", invisibleTime="30000", pollTime="0",
        bornTime="0", initMode="1",
    )  # fmt: skip


@case("remoting", "pop of 32 messages by a new group")
def _(w: Wires) -> Steps:
    topic(w, "r9")
    for _ in range(32):
        remoting_send(w, "r9")
    yield 0
    pop(w, "r9")
    yield 1


MADE: Final = {
    "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG",
    "order": "false",
}  # fmt: skip


@case("remoting", "making of a topic")
def _(w: Wires) -> Steps:
    yield 0
    asked(w, codes.UPDATE_TOPIC, b"", topic="r10", **MADE)
    yield 1


@case("remoting", "making of 50 topics")
def _(w: Wires) -> Steps:
    made = [{"topicName": f"r11-{number}", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6} for number in range(50)]
    yield 0
    asked(w, codes.UPDATE_TOPIC_LIST, orjson.dumps({"topicConfigList": made}))
    yield 50


@case("remoting", "removal of a topic")
def _(w: Wires) -> Steps:
    topic(w, "r12", WIDE)
    yield 0
    asked(w, codes.DELETE_TOPIC, topic="r12")
    yield 1


@case("remoting", "making of a group")
def _(w: Wires) -> Steps:
    yield 0
    asked(w, codes.UPDATE_GROUP, orjson.dumps({"groupName": "r13"}))
    yield 1


@case("remoting", f"removal of a group with positions in {WIDE} queues", "a removal of each position that it had")
def _(w: Wires) -> Steps:
    positions(w, "r14")
    yield 0
    asked(w, codes.DELETE_GROUP, groupName="r14")
    yield 1


def positions(w: Wires, name: str) -> None:
    """A group with a position in each queue of a wide topic, of the same name."""
    topic(w, name, WIDE)
    group(w, name)
    w.node.parts.store.positions.commit(name, [(name, queue, 0) for queue in range(WIDE)], lambda _: None)
    w.node.idle(0.1)


@case("remoting", "making of a group by a heartbeat")
def _(w: Wires) -> Steps:
    topic(w, "r15")
    joined = {"groupName": "r15", "subscriptionDataSet": [{"topic": "r15", "subString": "*"}]}
    yield 0
    asked(w, codes.HEARTBEAT, orjson.dumps({"clientID": "c", "consumerDataSet": [joined]}))
    yield 1


@case("remoting", f"reset of a group in {WIDE} queues", "a position of each queue, of whom may update the group")
def _(w: Wires) -> Steps:
    positions(w, "r16")
    yield 0
    w.remoting(codes.RESET_OFFSET, {"topic": "r16", "group": "r16", "timestamp": "0", "isForce": "true"})
    yield 1


@case("remoting", f"copy of positions in {WIDE} queues", "a position of each queue, of whom may update the group")
def _(w: Wires) -> Steps:
    positions(w, "r17")
    group(w, "r17b")
    yield 0
    asked(w, codes.CLONE_OFFSETS, srcGroup="r17", destGroup="r17b", topic="r17")
    yield 1


@case("remoting", "readability of a group")
def _(w: Wires) -> Steps:
    topic(w, "r18")
    group(w, "r18")
    yield 0
    w.remoting(codes.SET_READABLE, {"group": "r18", "topic": "r18", "readable": "false"})
    yield 1


@case("remoting", "mode of a group")
def _(w: Wires) -> Steps:
    topic(w, "r19")
    group(w, "r19")
    yield 0
    body = {"topic": "r19", "consumerGroup": "r19", "mode": "POP", "popShareQueueNum": 0}
    asked(w, codes.SET_REQUEST_MODE, orjson.dumps(body))
    yield 1


@case("remoting", "key and value")
def _(w: Wires) -> Steps:
    yield 0
    asked(w, codes.PUT_KV, namespace="n", key="k", value="v")
    asked(w, codes.DELETE_KV, namespace="n", key="k")
    yield 2


@case("remoting", "hold of a topic for a reader")
def _(w: Wires) -> Steps:
    topic(w, "r20")
    yield 0
    asked(w, codes.HOLD_QUEUES, orjson.dumps([[0, 0]]), topic="r20", hold="spark", holdMs="60000")
    yield 1
