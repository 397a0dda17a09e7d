"""A gateway before a node with a store: what its clients ask is done once, in order, and answered."""

from __future__ import annotations

import pytest

from domain.access.principal import Principal
from domain.admin.group import GroupList, ListGroups, PutGroup
from domain.client.mqtt_session import Attach, Attached, SessionTakenOver
from domain.command import Disconnected, QueryLatest, Receive, Send, Unwatch, Watch
from domain.errors import ErrorCode, Failure
from domain.event import Received, Refused, Sent, WatchedMessages, WatchStarted
from domain.limits import SECOND_NS
from domain.message.message import Message
from domain.message.record import Record
from domain.nameserver.route import RouteNames
from domain.store.store_ports import ReadResult
from domain.store.store_request import ReadRequest
from domain.topic.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.connection.intake import UNFINISHED_BYTES_MAX
from gateway.node.composition import Parts, StorePlace, compose
from gateway.node.settings import Config
from protocols.remoting.nodes.calls.octets import WireError
from protocols.remoting.nodes.forwarding.greeting import Welcome, encode
from protocols.remoting.nodes.forwarding.stream import UNSIZED, VERSION, VERSIONS
from tests.far_node import NodeLink
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.place import place_of
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import SeededEntropy
from tests.simulation.world import PORTS


class Two:
    """A node with a store, and a gateway before it."""

    def __init__(
        self,
        seed: int = 1,
        loss: float = 0.0,
        config: Config | None = None,
        versions: tuple[int, ...] = VERSIONS,
        store_knows: tuple[int, ...] = VERSIONS,
    ) -> None:
        self._config = config or Config(tables={"gateway": {"frames": max(store_knows)}})
        self.clock = VirtualClock()
        self.disk = MemoryDisk(self.clock)
        self._stores = 0
        self.parts = self.store()
        self.link = NodeLink(self.parts.gate, self.clock, seed, loss, versions)
        self.clock.run_for(300)
        self.gateway = self.link.forwarder

    def store(self) -> Parts:
        self._stores += 1
        place = place_of(self._config, PORTS, "10.0.0.1", self.clock, SeededEntropy(self._stores))
        parts = compose(place, StorePlace(self.disk, 1 << 30))
        self.clock.run_for(100)
        return parts

    def bodies(self, topic: str) -> list[bytes]:
        """The bodies of all messages of a topic, by queue and offset."""
        found: list[ReadResult | Failure] = []
        for queue_id in range(8):
            self.parts.store.log.read(ReadRequest(topic, queue_id, 0, 10_000, 1 << 24), found.append)
        self.clock.run_for(50)
        return [Record(record).body for each in found if isinstance(each, ReadResult) for record in each.records]


def send(ticket: object, body: bytes) -> Send:
    return Send(ticket, [Message("T", body)])


def test_each_command_is_carried_out_once_whatever_connections_break() -> None:
    two = Two(seed=7, loss=0.03)
    recorder = EventRecorder()
    for number in range(300):
        two.gateway.handle(recorder.connection, send(number, b"%d" % number))
        two.clock.run_for(7)
    two.clock.run_for(3_000)
    events = recorder.take()
    assert two.link.broken > 3
    assert [event.ticket for event in events if isinstance(event, Sent)] == list(range(300))
    assert sorted(two.bodies("T"), key=int) == [b"%d" % number for number in range(300)]


def test_a_watch_tells_until_it_ends() -> None:
    two, recorder = Two(), EventRecorder()
    two.gateway.handle(recorder.connection, Watch(("w", 1), "T/#"))
    two.clock.run_for(50)
    assert [type(event) for event in recorder.take()] == [WatchStarted]
    for body in (b"a", b"b"):
        two.gateway.handle(recorder.connection, Send(None, [Message("T", body)], wait=False))
        two.clock.run_for(50)
        [event] = recorder.take()
        assert isinstance(event, WatchedMessages)
        assert event.ticket == ("w", 1)
    two.gateway.handle(recorder.connection, Unwatch(("w", 1)))
    two.gateway.handle(recorder.connection, Send(None, [Message("T", b"c")], wait=False))
    two.clock.run_for(50)
    assert recorder.take() == []


def test_a_session_is_taken_over_by_a_client_of_another_gateway() -> None:
    two = Two()
    other = NodeLink(two.parts.gate, two.clock, 2)
    two.clock.run_for(100)
    first, second = EventRecorder(), EventRecorder()
    two.gateway.handle(first.connection, Attach(1, "device", False, 100, 10))
    two.clock.run_for(50)
    [event] = first.take()
    assert isinstance(event, Attached)
    other.forwarder.handle(second.connection, Attach(1, "device", False, 100, 10))
    two.clock.run_for(50)
    assert [type(event) for event in first.take()] == [SessionTakenOver]
    [event] = second.take()
    assert isinstance(event, Attached)
    assert event.session_present


def test_messages_for_a_client_that_has_gone_are_free_at_once() -> None:
    two, gone, other = Two(), EventRecorder(), EventRecorder()
    two.gateway.handle(gone.connection, send(1, b"m"))
    two.clock.run_for(50)
    two.gateway.handle(gone.connection, Receive(2, "g", "T", 1, 600_000, from_first=True))
    two.gateway._stream.flush()
    two.clock.call_at(two.clock.monotonic_ns() + 300_000, lambda: two.gateway.handle(gone.connection, Disconnected("lost")))
    two.clock.run_for(100)
    two.gateway.handle(other.connection, Receive(3, "g", "T", 1, 600_000, 1_000, from_first=True))
    two.clock.run_for(1_100)
    [event] = other.take()
    assert isinstance(event, Received)
    assert [each.attempt for each in event.messages] == [1]


def test_a_store_that_starts_again_has_the_clients_begin_again() -> None:
    two, recorder, shared = Two(), EventRecorder(), EventRecorder()
    shared.connection.shared = True
    two.gateway.handle(recorder.connection, send(1, b"first"))
    two.clock.run_for(50)
    two.gateway.handle(shared.connection, Watch("w", "T/#"))
    two.clock.run_for(100)
    assert [type(event) for event in shared.take()] == [WatchStarted]
    recorder.take()
    two.gateway.handle(recorder.connection, Receive(2, "g", "T", 1, 600_000, 20_000, queue_id=7))
    two.clock.run_for(100)
    assert recorder.take() == []
    two.disk = two.disk.killed(two.clock)
    two.parts = two.store()
    two.link.store = two.parts.gate
    two.link.hang_up()
    two.clock.run_for(500)
    assert [why for why, _ in two.link.lost] == ["the store has started again, or another replica leads"]
    refused = [event for event in recorder.take() if isinstance(event, Refused)]
    assert [(event.ticket, event.failure.code) for event in refused] == [(2, ErrorCode.STORE_UNAVAILABLE)]
    # A connection that stands for many peers stays, and so do its watches.
    two.gateway.handle(recorder.connection, send(3, b"x"))
    two.clock.run_for(100)
    assert [type(event) for event in shared.take()] == [WatchStarted, WatchedMessages]


def test_a_store_that_is_not_reached_is_said_to_be_so_after_a_while() -> None:
    two, recorder = Two(), EventRecorder()
    two.gateway.handle(recorder.connection, send(0, b"first"))
    two.clock.run_for(50)
    recorder.take()
    two.gateway.handle(recorder.connection, Receive(1, "g", "T", 1, 600_000, 60_000, queue_id=7))
    two.clock.run_for(100)
    two.link.hang_up(again_ns=60 * SECOND_NS)
    two.gateway.handle(recorder.connection, send(2, b"x"))
    two.clock.run_for(5_000)
    assert recorder.take() == []
    two.clock.run_for(7_000)
    assert [event.ticket for event in recorder.take() if isinstance(event, Refused)] == [1, 2]
    assert len(two.link.lost) == 1
    two.gateway.handle(recorder.connection, send(3, b"x"))
    [event] = recorder.take()
    assert isinstance(event, Refused)
    assert event.failure.code is ErrorCode.STORE_UNAVAILABLE
    two.clock.run_for(60_000)
    two.gateway.handle(recorder.connection, send(4, b"y"))
    two.clock.run_for(100)
    assert [event.ticket for event in recorder.take() if isinstance(event, Sent)] == [4]
    assert sorted(two.bodies("T")) == [b"first", b"y"]


def test_what_clients_sent_that_have_left_since_counts_no_longer_than_the_store_is_waited_for() -> None:
    """Otherwise a gateway whose store is away reads no sender for ever: each of them has to hear that it is."""
    two = Two()
    two.link.hang_up(again_ns=60 * SECOND_NS)
    recorders = [EventRecorder() for _ in range(3)]
    for recorder in recorders:
        two.gateway.handle(recorder.connection, send(1, bytes(UNFINISHED_BYTES_MAX)))
        two.gateway.handle(recorder.connection, Disconnected("left"))
    two.clock.run_for(5_000)
    assert two.gateway.unanswered_bytes() > UNFINISHED_BYTES_MAX, "the store may come back"
    two.clock.run_for(7_000)
    assert two.gateway.unanswered_bytes() < 1_000
    two.clock.run_for(60_000)
    assert two.bodies("T") == [], "nobody was told that they are stored"


def test_the_clients_of_a_gateway_that_does_not_come_back_are_lost() -> None:
    two = Two()
    recorder = EventRecorder()
    two.gateway.handle(recorder.connection, Attach(1, "device", False, 100, 10))
    two.clock.run_for(100)
    assert two.parts.sessions.attached == 1
    two.link.hang_up(again_ns=600 * SECOND_NS)
    two.clock.run_for(13_000)
    assert two.parts.sessions.attached == 0


def test_users_come_to_the_gateway_and_changes_follow() -> None:
    two = Two()
    changed: list[tuple[bytes, bytes | None]] = []
    two.gateway.state.follow("access", lambda key, value: changed.append((key, value)))
    assert two.gateway.state.ready
    from domain.store.store_ports import StateChange

    two.parts.store.state.put([StateChange("access", b"uann", b"{}")], None)
    two.clock.run_for(50)
    two.parts.store.state.put([StateChange("access", b"uann", None)], None)
    two.clock.run_for(50)
    assert changed == [(b"uann", b"{}"), (b"uann", None)]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b"{}",
        encode(Welcome("other", "broker-a", "00", False)),
        encode(Welcome("DefaultCluster", "broker-a", "00", False, version=9)),
        b"[" * 100_000,
    ],
)
def test_a_store_that_answers_nonsense_is_not_spoken_to(answer: bytes) -> None:
    two = Two()
    with pytest.raises(WireError):
        two.gateway.greeted(answer)


@pytest.mark.parametrize("frame", [b"", b"\x09" + bytes(20), b"\x01" + bytes(7) + b"\x7f" + bytes(12), b"\x01" + b"\xff" * 20])
def test_a_frame_that_is_none_is_refused(frame: bytes) -> None:
    two = Two()
    with pytest.raises(WireError):
        two.gateway.received(frame)


def test_a_value_out_of_its_range_is_refused_and_costs_nobody_else_anything() -> None:
    two, recorder = Two(), EventRecorder()
    two.gateway.handle(recorder.connection, Receive(1, "g", "T", 1 << 70, 600_000))
    two.gateway.handle(recorder.connection, Receive(2, "\ud800", "T", 1, 600_000))
    two.gateway.handle(recorder.connection, send(3, b"x"))
    two.clock.run_for(100)
    events = recorder.take()
    assert [type(event) for event in events] == [Refused, Refused, Sent]


def test_what_no_frame_holds_is_refused_and_costs_nobody_else_anything() -> None:
    two, recorder = Two(), EventRecorder()
    two.gateway.handle(recorder.connection, Send(1, [Message("T", bytes(4 << 20)) for _ in range(5)]))
    two.gateway.handle(recorder.connection, send(2, b"x"))
    two.clock.run_for(100)
    refused, sent = recorder.take()
    assert isinstance(refused, Refused)
    assert isinstance(sent, Sent)
    assert (refused.ticket, refused.failure.code) == (1, ErrorCode.MESSAGE_TOO_LARGE)
    assert sent.ticket == 2

    def much(connection: ClientConnection, command: QueryLatest) -> None:
        connection.answer(RouteNames(command.ticket, ["x" * (4 << 20) for _ in range(5)]))

    two.parts.handler._verbs[QueryLatest] = much
    two.gateway.handle(recorder.connection, QueryLatest(3, "T"))
    two.gateway.handle(recorder.connection, send(4, b"y"))
    two.clock.run_for(100)
    refused, sent = recorder.take()
    assert isinstance(refused, Refused)
    assert isinstance(sent, Sent)
    assert (refused.ticket, refused.failure.code) == (3, ErrorCode.MESSAGE_TOO_LARGE)
    assert (sent.ticket, two.link.broken) == (4, 0)


def test_a_stranger_that_was_not_greeted_is_closed() -> None:
    from domain.client.node import NodeFrame

    two = Two()
    closed: list[bool] = []

    class Driver(EventRecorder):
        def close(self) -> None:
            closed.append(True)

    recorder = Driver()
    connection = ClientConnection("remoting", recorder)
    two.parts.gate.handle(connection, NodeFrame(b"\x01"))
    assert closed == [True]


def test_a_command_that_fails_ends_its_own_client_only(caplog: pytest.LogCaptureFixture) -> None:
    two, one, other = Two(), EventRecorder(), EventRecorder()
    two.gateway.handle(one.connection, send(1, b"x"))
    two.gateway.handle(other.connection, send(2, b"y"))
    two.clock.run_for(100)
    one.take(), other.take()

    def broken(_connection: ClientConnection, _command: object) -> None:
        raise RuntimeError("a bug")

    two.parts.handler._verbs[QueryLatest] = broken
    two.gateway.handle(one.connection, QueryLatest(3, "T"))
    two.gateway.handle(one.connection, send(4, b"x"))
    two.gateway.handle(other.connection, send(5, b"y"))
    two.clock.run_for(100)
    assert one.closing
    assert one.take() == []
    assert [event.ticket for event in other.take() if isinstance(event, Sent)] == [5]
    assert "a bug" in caplog.text
    assert two.link.broken == 0


@pytest.mark.parametrize("other", [("broker-b", False), ("broker-a", True)])
def test_a_store_that_is_another_one_now_is_not_spoken_to(other: tuple[str, bool]) -> None:
    two = Two()
    with pytest.raises(WireError, match="start this gateway again"):
        two.gateway.greeted(encode(Welcome("DefaultCluster", other[0], "00", other[1])))


def test_the_rate_of_a_user_counts_over_all_gateways() -> None:
    two = Two(config=Config(tables={"limits": {"user_messages_per_s": 1, "burst_s": 3}}))
    other = NodeLink(two.parts.gate, two.clock, 2)
    two.clock.run_for(100)
    recorders = EventRecorder(), EventRecorder()
    for number in range(4):
        for forwarder, recorder in zip((two.gateway, other.forwarder), recorders, strict=True):
            command = send(number, b"x")
            command.principal = Principal("ann", "10.0.0.1")
            forwarder.handle(recorder.connection, command)
    two.clock.run_for(100)
    events = [event for recorder in recorders for event in recorder.take()]
    assert sum(isinstance(event, Sent) for event in events) == 3
    assert sum(isinstance(event, Refused) and event.failure.code is ErrorCode.RATE for event in events) == 5


@pytest.mark.parametrize("frames", [VERSION, UNSIZED])
def test_a_page_of_groups_goes_to_a_store_that_passes_over_what_it_does_not_know(frames: int) -> None:
    """Items of version 1 end where their fields do: the store lists all groups."""
    two, recorder = Two(store_knows=tuple(each for each in VERSIONS if each <= frames)), EventRecorder()
    for name in ("a", "b", "c", "d"):
        two.gateway.handle(recorder.connection, PutGroup(1, Group(name)))
    two.clock.run_for(200)
    recorder.take()
    two.gateway.handle(recorder.connection, ListGroups(2, "a", 2))
    two.gateway.handle(recorder.connection, send(3, b"behind it"))
    two.clock.run_for(200)
    listed, sent = recorder.take()
    assert isinstance(listed, GroupList)
    assert [each.name for each in listed.groups] == (["b", "c"] if frames == VERSION else ["a", "b", "c", "d"])
    assert isinstance(sent, Sent)
