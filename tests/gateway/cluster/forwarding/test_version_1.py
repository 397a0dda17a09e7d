"""The version of frames before ours, as nodes of that version sent it: `version_1.json` is what one gateway and its store said.

It was recorded from the release that knew no other version, and is never made again.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from domain.access.principal import GATEWAY, Principal
from domain.client.mqtt_session import Attach, Attached
from domain.client.node import GreetNode, NodeFrame, NodeFrameOut, NodeGreeted
from domain.command import Command, Disconnected, Receive, Send, Watch
from domain.event import Event, Received, Sent, WatchedMessages, WatchStarted
from domain.message.message import Message
from domain.store.store_ports import StateChange
from gateway.cluster.forwarding.forwarder import Forwarder
from gateway.cluster.forwarding.traffic import OwnTraffic, Traffic
from gateway.connection.client_connection import ClientConnection
from protocols.remoting.nodes.calls.octets import Reader
from protocols.remoting.nodes.forwarding import item
from protocols.remoting.nodes.forwarding.greeting import greeting_of, welcome_of
from protocols.remoting.nodes.forwarding.kind import EVENT_KINDS
from protocols.remoting.nodes.forwarding.stream import UNSIZED, VERSION, VERSIONS
from tests.connection_driver import StrictDriver
from tests.gateway.cluster.forwarding.test_forwarder import Two, send
from tests.gateway.usecase.event_recorder import EventRecorder

SAID: list[tuple[str, str]] = [
    (what, text) for what, text in json.loads(Path(__file__).with_name("version_1.json").read_text())
]
HEAD = struct.Struct(">BqqI")
OLD = (UNSIZED,)


def steps(gateway: Forwarder) -> tuple[list[Callable[[], None]], dict[str, EventRecorder]]:
    """What three clients did as the record was made, and the clients."""
    seen = {name: EventRecorder() for name in "abc"}
    a, b, c = (seen[name].connection for name in "abc")
    signed = Send(1, [Message("T", b"one", b"KEYS\x01k\x02")])
    signed.principal = Principal("ann", "10.0.0.1", proof=("p", b"x"))
    first = send(2, b"two")
    first.messages.append(Message("T", b"three", queue_id=3))

    def sends() -> None:
        gateway.handle(b, signed)
        gateway.handle(b, first)

    def attaches() -> None:
        gateway.handle(c, Attach(4, "device", False, 100, 10))
        gateway.handle(c, Send(5, [Message("%", b"x")]))

    return [
        lambda: gateway.handle(a, Watch(("w", 1), "T/#")),
        sends,
        lambda: gateway.handle(b, Receive(3, "g", "T", 16, 600_000, from_first=True)),
        attaches,
        lambda: gateway.handle(b, Disconnected("left")),
    ], seen


def notified(seen: dict[str, EventRecorder]) -> dict[str, list[tuple[type[Event], object]]]:
    """What the clients were told, with tickets."""
    return {
        name: [(type(event), getattr(event, "ticket", None)) for event in recorder.take()] for name, recorder in seen.items()
    }


EXPECTED: dict[str, list[tuple[type[Event], object]]] = {
    "a": [(WatchStarted, ("w", 1)), (WatchedMessages, ("w", 1))],
    "b": [(Sent, 1), (Sent, 2), (Received, 3)],
    "c": [(Attached, 4), (Sent, 5)],
}


def events_in(frame: bytes) -> list[tuple[int, int, type[Event]]]:
    """(client, ticket, class) of the events of a frame of version 1 to a gateway."""
    reader = Reader(frame, HEAD.size)
    found: list[tuple[int, int, type[Event]]] = []
    while reader.left:
        kind = reader.take(1)[0]
        if kind != item.EVENT:
            return found
        client, ticket = reader.unpack(item.OF_EVENT)
        found.append((client, ticket, type(EVENT_KINDS.get(reader))))
    return found


class OldGateway(StrictDriver):
    """Says to a store what the recorded gateway said, and keeps what it answers."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.greeted = b""
        self.connection = ClientConnection("remoting", self)

    def answer(self, event: Event) -> None:
        if isinstance(event, NodeGreeted):
            self.greeted = event.greeting
        else:
            assert isinstance(event, NodeFrameOut)
            self.frames.append(event.body)


def test_a_recorded_gateway_of_version_1_is_served() -> None:
    two, old = Two(), OldGateway()
    user = b'{"name":"ann","password":"p"}'
    answered: list[tuple[int, int, type[Event]]] = []
    for what, text in SAID:
        if what in ("greeting", "to store"):
            command: Command = GreetNode(1, text.encode()) if what == "greeting" else NodeFrame(bytes.fromhex(text))
            command.principal = GATEWAY
            two.parts.gate.handle(old.connection, command)
        elif what == "welcome":
            two.clock.run_for(60)
            two.parts.store.state.put([StateChange("access", b"uann", user)], None)
        elif what == "to gateway" and HEAD.unpack_from(bytes.fromhex(text))[1]:
            answered += events_in(bytes.fromhex(text))
            two.clock.run_for(60)
    two.clock.run_for(300)
    assert welcome_of(old.greeted).version == UNSIZED
    assert {frame[0] for frame in old.frames} == {UNSIZED}
    ours = [each for frame in old.frames for each in events_in(frame)]
    assert ours == answered
    assert sorted(two.bodies("T")) == [b"one", b"three", b"two"]


def test_a_recorded_store_of_version_1_is_spoken_to_byte_by_byte_as_before() -> None:
    two = Two()
    own = bytes(15) + b"\x01"
    gateway = Forwarder(two.clock, "DefaultCluster", "gateway-1", own, lambda *_lost: None, OwnTraffic(own, Traffic))
    doing, seen = steps(gateway)
    frames: list[bytes] = []
    values: dict[bytes, bytes | None] = {}
    gateway.state.follow("access", values.__setitem__)
    said = greeting_of(gateway.greeting())
    assert said.versions == VERSIONS
    for what, text in SAID:
        if what == "welcome":
            gateway.greeted(text.encode())
            gateway.connected(frames.append)
        elif what == "to gateway":
            gateway.received(bytes.fromhex(text))
        elif what == "to store":
            _, number, _, count = HEAD.unpack_from(bytes.fromhex(text))
            if not number:
                continue
            if number > 1:
                doing.pop(0)()
            two.clock.run_for(1)
            mine = [frame for frame in frames if HEAD.unpack_from(frame)[1] == number]
            assert [(frame[0], frame[HEAD.size :]) for frame in mine] == [(UNSIZED, bytes.fromhex(text)[HEAD.size :])]
            assert HEAD.unpack_from(mine[0])[3] == count
    assert not doing
    assert notified(seen) == EXPECTED
    assert values == {b"uann": b'{"name":"ann","password":"p"}'}


@pytest.mark.parametrize("gateway_knows", [OLD, VERSIONS])
@pytest.mark.parametrize("store_knows", [OLD, VERSIONS])
def test_nodes_speak_the_newest_version_that_both_know(store_knows: tuple[int, ...], gateway_knows: tuple[int, ...]) -> None:
    two = Two(seed=5, loss=0.05, versions=gateway_knows, store_knows=store_knows)
    doing, seen = steps(two.gateway)
    everything: dict[str, list[tuple[type[Event], object]]] = {name: [] for name in seen}
    for step in doing:
        step()
        two.clock.run_for(500)
        for name, events in notified(seen).items():
            everything[name] += events
    agreed = VERSION if VERSION in store_knows and VERSION in gateway_knows else UNSIZED
    assert two.gateway._stream.version == agreed
    assert everything == EXPECTED


def test_nodes_without_a_version_in_common_do_not_speak() -> None:
    two = Two()
    own = OwnTraffic(b"life", Traffic)
    gateway = Forwarder(two.clock, "DefaultCluster", "gateway-1", b"life", lambda *_lost: None, own, (9,))
    answers = EventRecorder()
    command: Command = GreetNode(1, gateway.greeting())
    command.principal = GATEWAY
    two.parts.gate.handle(answers.connection, command)
    assert "speaks versions" in str(answers.take())
