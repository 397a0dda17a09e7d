"""Message traces on a whole node: the trace topic is there, and traces need the right to it.

A trace is an ordinary message of the trace topic whose keys are the ids and keys of the traced message (AsyncTraceDispatcher).
So the trace topic must exist, and queries by these keys must find the trace.
"""

from __future__ import annotations

import pytest

from gateway.node.settings import Config
from protocols.remoting import codes
from tests.simulation.caller import bodies
from tests.simulation.sender import Sender
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC = "sim"
STANDARD, OWN = "RMQ_SYS_TRACE_TOPIC", "own_traces"


def test_the_trace_topic_is_there_from_the_first_start_and_clients_are_told_to_trace() -> None:
    world = World.started(222)
    tool = Tool(world, "tool")
    route = tool.route(STANDARD)
    assert route is not None
    answer = Sender(world, "p").send(STANDARD, b"text", KEYS="a")
    assert answer["TRACE_ON"] == "true"
    assert answer["MSG_REGION"] == "DefaultRegion"


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_under_access_control_traces_need_the_right_to_the_trace_topic(faults: str) -> None:
    world = World.started(223, Config(admin="root:wonderland"))
    root, alice = Tool(world, "root", "root", "wonderland"), Tool(world, "alice", "alice", "secret")
    root.topic(TOPIC, 1)
    root.topic(OWN, 1)
    root.done(codes.CREATE_USER, {"username": "alice"}, {"username": "alice", "password": "secret", "userType": "Normal"})

    def grant(topic: str, action: str) -> None:
        entry = {"resource": [f"Topic:{topic}"], "actions": [action], "sourceIps": [], "decision": "Allow"}
        body = {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [entry]}]}
        root.done(codes.CREATE_ACL, {"subject": "User:alice"}, body)
        world.disturb(faults)

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
