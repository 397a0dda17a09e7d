"""Message traces on a whole node: a message's traces are found by its id, its key and its time, after any fault.

A trace is an ordinary message of the trace topic whose keys are the ids and keys of the traced message (AsyncTraceDispatcher).
So the trace topic must exist, and queries by these keys must find the trace.
"""

from __future__ import annotations

import pytest

from domain.message import property as properties
from gateway.node.settings import Config
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.remoting import codes
from tests.simulation.caller import bodies
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.simple import Publisher, Receiver
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP = "sim", "workers"
STANDARD, OWN = "RMQ_SYS_TRACE_TOPIC", "own_traces"
MINUTE_MS = 60_000


def pub(message_id: str, keys: str, now_ms: int) -> bytes:
    """A trace of a send, as TraceDataEncoder encodes it."""
    fields = ("Pub", str(now_ms), "DefaultRegion", "producers", TOPIC, message_id, "", keys, "host", "4", "1", "0", "0", "true")
    return "\x01".join(fields).encode() + b"\x02"


def sub(message_id: str, keys: str, now_ms: int) -> bytes:
    """A trace of the begin and end of a consumption, as TraceDataEncoder encodes it."""
    fields = (str(now_ms), "DefaultRegion", GROUP, "request", message_id, "0", keys)
    ends = ("request", message_id, "1", "true", keys, "0", str(now_ms), GROUP)
    return "\x01".join(("SubBefore", *fields)).encode() + b"\x02" + "\x01".join(("SubAfter", *ends)).encode() + b"\x02"


class Tracing:
    """Applications that write traces to `topic`; keeps the written bodies by message id."""

    def __init__(self, world: World, topic: str) -> None:
        self.world, self.topic = world, topic
        self.sender = Sender(world, "p")
        self.publisher = Publisher(world, "grpc", TOPIC)
        self.tracer = Sender(world, "tracer", "_INNER_TRACE_PRODUCER")
        self.written: dict[str, list[str]] = {}
        self.sent_ms: dict[str, int] = {}

    def write(self, message_id: str, keys: str, text: bytes) -> None:
        """Write a trace of one message and wait until it is stored."""
        self.tracer.send(self.topic, text, KEYS=f"{message_id} {keys}")
        self.written.setdefault(message_id, []).append(text.decode())

    def send(self, number: int) -> str:
        """Send one message, by remoting or gRPC, and write its trace. Returns the message id."""
        keys = f"order{number}"
        if number % 2:
            message_id = f"REMOTING{number:08}"
            self.sender.send(TOPIC, b"%d" % number, queue=0, UNIQ_KEY=message_id, KEYS=keys)
        else:
            entry = self.publisher.send(str(number))
            assert entry.status.code == pb.OK
            message_id = entry.message_id
        self.sent_ms[message_id] = self.world.clock.wall_ms()
        self.write(message_id, keys, pub(message_id, keys, self.world.clock.wall_ms()))
        return message_id


def found(tool: Tool, topic: str, key: str, begin_ms: int = 0, end_ms: int = 1 << 50) -> list[str]:
    """Traces of a message in the order of writing, queried as mqadmin queryMsgTraceById does."""
    return list(reversed(bodies(tool.by_key(topic, key, begin_ms, end_ms))))


@pytest.mark.parametrize("topic", [STANDARD, OWN])
@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_traces_are_found_by_id_by_key_and_by_time(topic: str, faults: str) -> None:
    world = World(221)
    world.start()
    tool = Tool(world, "tool")
    tool.topic(TOPIC, 1)
    tracing = Tracing(world, topic)
    ids: list[str] = []
    for number in range(12):
        ids.append(tracing.send(number))
        if faults != "none" and number % 5 == 4:
            world.again(power=faults == "power")
        world.clock.run_for(MINUTE_MS)
    pulled = [properties.text(record.properties, "UNIQ_KEY") for record in Consumer(world, "c", "pulls", TOPIC).drain(0)]
    received = [message.system_properties.message_id for message in Receiver(world, "r", GROUP, TOPIC).receive()]
    assert sorted(pulled) == sorted(received) == sorted(ids), "either protocol knows them by these ids"
    for message_id in pulled + received:
        tracing.write(message_id, "", sub(message_id, "", world.clock.wall_ms()))
    if faults != "none":
        world.again(power=faults == "power")
    for number, message_id in enumerate(ids):
        assert found(tool, topic, message_id) == tracing.written[message_id]
        assert found(tool, topic, f"order{number}") == tracing.written[message_id][:1]
        at_ms = tracing.sent_ms[message_id]
        assert found(tool, topic, message_id, at_ms - 5_000, at_ms + 30_000) == tracing.written[message_id][:1]
        assert found(tool, topic, message_id, at_ms - 40 * MINUTE_MS, at_ms - 5_000) == []
        (message,) = tool.by_key(TOPIC, message_id, unique=True)
        assert message.body.decode() == str(number), "the id of the trace is the id of the message"
        assert len(tracing.written[message_id]) == 3
    assert found(tool, topic, "order") == []


def test_the_trace_topic_is_there_from_the_first_start_and_clients_are_told_to_trace() -> None:
    world = World(222)
    world.start()
    tool = Tool(world, "tool")
    route = tool.route(STANDARD)
    assert route is not None
    answer = Sender(world, "p").send(STANDARD, b"text", KEYS="a")
    assert answer["TRACE_ON"] == "true"
    assert answer["MSG_REGION"] == "DefaultRegion"


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_under_access_control_traces_need_the_right_to_the_trace_topic(faults: str) -> None:
    world = World(223, Config(admin="root:wonderland"))
    world.start()
    root, alice = Tool(world, "root", "root", "wonderland"), Tool(world, "alice", "alice", "secret")
    root.topic(TOPIC, 1)
    root.topic(OWN, 1)
    root.done(codes.CREATE_USER, {"username": "alice"}, {"username": "alice", "password": "secret", "userType": "Normal"})

    def grant(topic: str, action: str) -> None:
        entry = {"resource": [f"Topic:{topic}"], "actions": [action], "sourceIps": [], "decision": "Allow"}
        body = {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [entry]}]}
        root.done(codes.CREATE_ACL, {"subject": "User:alice"}, body)
        if faults != "none":
            world.again(power=faults == "power")

    def write(topic: str) -> int:
        fields = {
            "a": "_INNER_TRACE_PRODUCER", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0",
            "i": "UNIQ_KEY\x01T\x02KEYS\x01MESSAGE\x02", "j": "0", "k": "false", "m": "false",
        }  # fmt: skip
        return alice.call(codes.SEND_V2, fields, b"Pub").code

    def poll(topic: str) -> int:
        fields = {"topic": topic, "key": "MESSAGE", "maxNum": "8", "beginTimestamp": "0", "endTimestamp": str(1 << 50)}
        return alice.call(codes.QUERY_MESSAGE, fields).code

    for topic in (STANDARD, OWN):
        assert (write(topic), poll(topic)) == (codes.NO_PERMISSION, codes.NO_PERMISSION)
        grant(topic, "Pub")
        assert (write(topic), poll(topic)) == (0, codes.NO_PERMISSION)
        grant(topic, "Sub")
        assert poll(topic) == 0
    assert bodies(root.by_key(STANDARD, "MESSAGE")) == ["Pub"], "what was refused is not stored"
