"""A node registers itself: the registrar, over bytes, at a name server of ours, at one without code 30012, and at bad ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from domain.errors import Failure
from domain.limits import SECOND_NS
from domain.nameserver.directory import AnnouncedTopics
from domain.nameserver.route import DataVersion, Registration, TopicQueues
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.tools.nameserver import NameServer
from gateway.usecase.waiting.long_questions import LongQuestions
from nameserver.own_topics import LeadersTopics
from nameserver.table import RouteTable
from protocols.remoting import codes, dispatch
from protocols.remoting.nameserver import registrar
from protocols.remoting.nameserver.registrar import PAGE_TOPICS, RENEWAL_NS, Registrar
from protocols.remoting.wire.frame import Frame, FrameDecoder, encode
from protocols.remoting.wire.header import FLAG_RESPONSE
from tests.connection_driver import StrictDriver
from tests.protocols.remoting.frames import connection
from tests.simulation.kit.clock import VirtualClock

BROKER = Registration("c1", "b-x", 0, "10.0.0.7:10911", "10.0.0.7:10912")
EIGHT = TopicQueues("b-x", 8, 8, 6)


class Topics:
    """The topics of a node, all of them at once."""

    def __init__(self, count: int = 3) -> None:
        self.now = {f"topic-{at:06}": EIGHT for at in range(count)}
        self.counter = 1
        self.kept: list[tuple[int, str]] = []
        self.asked = 0

    @property
    def version(self) -> DataVersion:
        return DataVersion(0, 99, self.counter)

    def changed_since(self, counter: int) -> Sequence[str] | None:
        return [name for at, name in self.kept if at > counter] if 1 <= counter <= self.counter else None

    def topic(self, name: str) -> TopicQueues | None:
        return self.now.get(name)

    def after(self, name: str, limit: int) -> list[tuple[str, TopicQueues]]:
        self.asked += limit
        names = sorted(each for each in self.now if each > name)
        return [(each, self.now[each]) for each in names[:limit]]

    def put(self, name: str, queues: TopicQueues | None = EIGHT) -> None:
        if queues is None:
            del self.now[name]
        else:
            self.now[name] = queues
        self.counter += 1
        self.kept.append((self.counter, name))


class Driver(StrictDriver):
    """Gives the answers of the use case to the protocol."""

    def __init__(self, server: Server) -> None:
        self.wire = connection()
        self.server = server
        self.connection = ClientConnection("remoting", self)

    def answer(self, event: object) -> None:
        self.wire.answer(event, self.server.clock.monotonic_ns())  # type: ignore[arg-type]

    def receive(self, data: bytes) -> bytes:
        now = self.server.clock.monotonic_ns()
        commands = list(self.wire.receive(data, now))
        while True:
            for command in commands:
                self.server.verbs[type(command)](self.connection, command)
            if self.wire.deadline() != 0:
                return b"".join(self.wire.outgoing())
            commands = list(self.wire.expire(now))


class Server:
    """A name server: the adapter, the use case and the table."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.table = RouteTable()
        self.name_server = NameServer(self.table, NoSettings(), clock, LongQuestions(clock))
        self.verbs = self.name_server.verbs

    def topics(self) -> list[str]:
        return sorted(self.table.topics())


class NoSettings:
    """The name server's keys, of which there are none."""

    def put(self, namespace: str, key: str, value: str | None, done: Callable[[Failure | None], None]) -> None:
        raise AssertionError(namespace)

    def get(self, namespace: str, key: str) -> str | None:
        return None

    def all(self, namespace: str) -> dict[str, str]:
        return {}


class Scene:
    """A registrar and its name server. `sent`: the requests of the registrar."""

    def __init__(self, topics: Topics, broker: Registration = BROKER, registered: AnnouncedTopics | None = None) -> None:
        """`registered`: what the broker registers in place of `topics`."""
        self.clock = VirtualClock()
        self.server = Server(self.clock)
        self.topics = topics
        self.registrar = Registrar(broker, registered or topics)
        self.driver: Driver | None = None
        self.sent: list[Frame] = []
        self.largest = 0

    @property
    def now(self) -> int:
        return self.clock.monotonic_ns()

    def connect(self) -> None:
        self.driver = Driver(self.server)
        self.registrar.connected(self.now)
        self.exchange()

    def disconnect(self) -> None:
        driver, self.driver = self.driver, None
        assert driver is not None
        driver.connection.end()
        self.registrar.lost()

    def exchange(self) -> None:
        """Carry frames to and fro until nothing is said any more."""
        while self.step():
            pass

    def step(self) -> bool:
        """Carry the registrar's requests, and their answers. False: there were none."""
        data = b"".join(self.registrar.outgoing())
        if not data:
            return False
        frames = FrameDecoder().feed(data)
        self.sent += frames
        self.largest = max(self.largest, len(data))
        assert self.driver is not None
        self.registrar.receive(self.driver.receive(data), self.now)
        return True

    def pass_time(self, seconds: int) -> None:
        """Let time pass, second by second."""
        for _ in range(seconds):
            self.clock.run_for(1_000)
            due = self.registrar.deadline()
            if due is not None and due <= self.now:
                self.registrar.expire(self.now)
                self.exchange()

    def change(self, name: str, queues: TopicQueues | None = EIGHT) -> None:
        self.topics.put(name, queues)
        self.registrar.topics_changed(self.now)

    def codes(self) -> list[int]:
        """Request codes since the last call."""
        found = [frame.code for frame in self.sent]
        self.sent.clear()
        return found


@pytest.fixture(params=[True, False], ids=["ours", "without 30012"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the name server knows code 30012."""
    if not request.param:
        monkeypatch.delitem(dispatch.READERS, codes.REGISTER_PAGE)
    return bool(request.param)


def test_a_node_registers_renews_and_leaves(kind: bool) -> None:
    scene = Scene(Topics())
    scene.connect()
    assert scene.registrar.registered
    assert scene.server.topics() == list(scene.topics.now)
    assert scene.codes() == ([322, 30012] if kind else [322, 30012, 103])
    assert scene.server.table.master("b-x") == ("10.0.0.7:10911", "10.0.0.7:10912")
    scene.pass_time(600)
    assert set(scene.codes()) == {322}
    assert scene.server.topics() == list(scene.topics.now)
    scene.registrar.leave(scene.now)
    scene.exchange()
    assert scene.registrar.left
    assert scene.codes() == [104]
    assert scene.server.topics() == []


def test_a_slave_registers_beside_its_master_and_leaves_the_topics_to_it(kind: bool) -> None:
    none = LeadersTopics(99)
    none.epoch = 1
    scene = Scene(Topics(), replace(BROKER, broker_id=2, address="10.0.0.8:10913"), none)
    topics = dict.fromkeys(scene.topics.now, EIGHT)
    scene.server.table.register(replace(BROKER, version=DataVersion(1, 5, 1), topics=topics), scene.now)
    scene.connect()
    assert scene.codes() == ([322, 30012] if kind else [322, 30012, 103])
    table = scene.server.table
    assert table.route("topic-000001")[1][0].addresses == {0: "10.0.0.7:10911", 2: "10.0.0.8:10913"}
    scene.pass_time(60)
    assert set(scene.codes()) == {322}
    table.unregister("b-x", 0, BROKER.address)  # its leader dies; another one leads in the next epoch
    assert table.route("topic-000001")[1][0].addresses == {2: "10.0.0.8:10913"}
    none.epoch = 2
    scene.registrar.topics_changed(scene.now)
    scene.exchange()
    assert table.renew("b-x", "10.0.0.8:10913", scene.now) == DataVersion(2, 99, 1)
    assert scene.server.topics() == sorted(topics)
    scene.registrar.leave(scene.now)
    scene.exchange()
    assert scene.registrar.left
    assert table.brokers() == []


def test_only_what_has_changed_is_sent(kind: bool) -> None:
    scene = Scene(Topics(400))
    scene.connect()
    scene.codes()
    scene.change("new")
    scene.change("topic-000007", TopicQueues("b-x", 2, 2, 4))
    scene.change("topic-000008", None)
    scene.exchange()
    first, second = scene.sent
    assert len(first.body) + len(second.body) < 2_000
    assert scene.codes() == ([30012] * 2 if kind else [103] * 2)
    found = scene.server.table.route("topic-000007")[0]
    assert found == [TopicQueues("b-x", 2, 2, 4)]
    assert "new" in scene.server.topics()
    assert ("topic-000008" in scene.server.topics()) is not kind, "RocketMQ's request cannot take a topic away"
    scene.pass_time(60)
    assert set(scene.codes()) == {322}


def test_many_topics_come_in_pages_and_those_that_change_meanwhile_too(kind: bool) -> None:
    scene = Scene(Topics(10 * PAGE_TOPICS + 3))
    scene.driver = Driver(scene.server)
    scene.registrar.connected(scene.now)
    for at in range(8):
        assert scene.step()
        scene.change(f"later-{at}")
        scene.change(f"topic-{at:06}", TopicQueues("b-x", 3, 3, 6))
    if kind:
        scene.change("topic-000100", None)
    scene.exchange()
    assert scene.registrar.registered
    assert scene.server.topics() == sorted(scene.topics.now)
    for name, queues in scene.topics.now.items():
        assert scene.server.table.route(name)[0] == [queues]
    assert scene.largest < 64 * 1024
    found = scene.codes()
    assert len(found) <= 11 + 10
    assert scene.server.table.renew("b-x", "10.0.0.7:10911", scene.now) == scene.topics.version


def test_a_hundred_thousand_topics_of_ten_queues_register_in_small_frames_and_a_change_is_one() -> None:
    topics = SortedTopics(100_000)
    scene = Scene(topics)
    scene.connect()
    assert scene.registrar.registered
    assert len(scene.server.topics()) == 100_000
    assert sum(scene.server.table.route(name)[0][0].write_queues for name in topics.ordered) == 1_000_000
    assert scene.largest < 64 * 1024
    pages = -(-100_000 // PAGE_TOPICS)
    assert len(scene.codes()) == 1 + pages
    assert topics.asked <= (pages + 1) * PAGE_TOPICS, "no turn looks at more than a page"
    scene.change("one-more")
    scene.exchange()
    assert scene.codes() == [30012]
    scene.disconnect()
    assert scene.server.topics() == []


class SortedTopics(Topics):
    """Topics that do not change: a walk needs no sorting."""

    def __init__(self, count: int) -> None:
        super().__init__(0)
        self.ordered = [f"topic-{at:06}" for at in range(count)]
        self.now = dict.fromkeys(self.ordered, TopicQueues("b-x", 10, 10, 6))

    def after(self, name: str, limit: int) -> list[tuple[str, TopicQueues]]:
        self.asked += limit
        at = int(name.removeprefix("topic-")) + 1 if name else 0
        return [(each, self.now[each]) for each in self.ordered[at : at + limit]]


def test_a_new_connection_registers_again_and_sends_what_is_missing(kind: bool) -> None:
    scene = Scene(Topics(5))
    scene.connect()
    old = scene.driver
    assert old is not None
    scene.registrar.lost()
    assert not scene.registrar.registered
    scene.topics.put("meanwhile")
    scene.codes()
    scene.connect()
    assert scene.registrar.registered
    assert scene.codes() == ([322, 30012] if kind else [322, 30012, 103])
    old.connection.end()
    assert scene.server.topics() == sorted(scene.topics.now), "the end of the older connection takes nothing away"


def test_a_name_server_that_has_forgotten_the_node_gets_everything_with_the_next_renewal(kind: bool) -> None:
    scene = Scene(Topics(5))
    scene.connect()
    scene.server.table.unregister("b-x", 0, "10.0.0.7:10911")
    assert scene.server.topics() == []
    scene.pass_time(RENEWAL_NS // SECOND_NS)
    assert scene.server.topics() == sorted(scene.topics.now)
    scene.server.table.unregister("b-x", 0, "10.0.0.7:10911")
    scene.change("topic-000001")
    scene.exchange()
    assert scene.server.topics() == sorted(scene.topics.now)


def test_an_empty_name_server_that_comes_back_has_the_node_with_the_next_connection(kind: bool) -> None:
    scene = Scene(Topics(5))
    scene.connect()
    scene.disconnect()
    for _ in range(30):
        scene.registrar.lost()
    scene.server = Server(scene.clock)
    scene.connect()
    assert scene.server.topics() == sorted(scene.topics.now)


def test_leaving_waits_for_the_answer_that_is_under_way() -> None:
    scene = Scene(Topics(3 * PAGE_TOPICS))
    scene.driver = Driver(scene.server)
    scene.registrar.connected(scene.now)
    assert scene.step()
    assert scene.step()
    scene.registrar.leave(scene.now)
    assert not scene.registrar.left
    scene.exchange()
    assert scene.registrar.left
    assert scene.server.topics() == []
    assert scene.codes() == [322, 30012, 30012, 104]


def test_who_has_left_does_not_come_back_by_a_change_or_a_new_connection(kind: bool) -> None:
    scene = Scene(Topics())
    scene.connect()
    scene.registrar.leave(scene.now)
    scene.change("made-meanwhile")
    scene.exchange()
    scene.change("made-later")
    scene.pass_time(60)
    assert scene.server.topics() == []
    scene.disconnect()
    scene.connect()
    assert scene.server.topics() == []
    assert scene.registrar.fault
    assert scene.registrar.left
    assert not scene.registrar.registered


def test_leaving_without_a_connection_is_done_at_once() -> None:
    scene = Scene(Topics())
    scene.registrar.leave(scene.now)
    assert scene.registrar.left


def opened() -> tuple[Registrar, Frame]:
    """A registrar that has sent its first request."""
    made = Registrar(BROKER, Topics())
    made.connected(0)
    (asked,) = FrameDecoder().feed(b"".join(made.outgoing()))
    return made, asked


def answer(asked: Frame, code: int = 0, fields: dict[str, str] | None = None, body: bytes = b"") -> bytes:
    return encode(code, asked.opaque, fields=fields or {}, body=body, flag=FLAG_RESPONSE, remark="because" if code else "")


@pytest.mark.parametrize(
    "reply",
    [
        lambda asked: b"HTTP/1.1 400 Bad Request\r\n\r\n",
        lambda asked: b"\x7f\xff\xff\xff" + bytes(100),
        lambda asked: (17 * 1024 * 1024).to_bytes(4, "big") + bytes(20),
        lambda asked: answer(asked, 1),
        lambda asked: answer(asked, 16),
        answer,
        lambda asked: answer(asked, 0, {"changed": "perhaps"}),
        lambda asked: answer(asked, 0, {"changed": "true"}, b"{"),
        lambda asked: answer(asked, 0, {"changed": "true"}, b"[]"),
        lambda asked: answer(asked, 0, {"changed": "true"}, b'{"counter":"x"}'),
        lambda asked: encode(0, asked.opaque + 1, fields={"changed": "true"}, flag=FLAG_RESPONSE),
        lambda asked: answer(asked, 0, {"changed": "true"}) * 2,
    ],
)
def test_nonsense_costs_the_name_server_its_connection(reply: Callable[[Frame], bytes]) -> None:
    made, asked = opened()
    made.receive(reply(asked), 1)
    assert made.fault
    assert not made.registered
    made.outgoing()
    made.receive(reply(asked), 1)
    made.topics_changed(2)
    assert made.outgoing() == []
    made.lost()
    assert made.fault == ""


@pytest.mark.parametrize("fields", [{}, {"taken": "no"}, {"taken": "false"}])
def test_an_answer_to_a_page_that_is_none(fields: dict[str, str]) -> None:
    made, asked = opened()
    made.receive(answer(asked, 0, {"changed": "true"}), 1)
    (page,) = FrameDecoder().feed(b"".join(made.outgoing()))
    made.receive(answer(page, 0, fields), 1)
    assert made.fault


def test_half_an_answer_and_none_are_waited_for_until_the_deadline() -> None:
    made, asked = opened()
    due = made.deadline()
    assert due == registrar.ANSWER_NS
    made.receive(answer(asked, 0, {"changed": "true"})[:20], due - 1)
    assert made.deadline() == due, "bytes that trickle in do not prolong it"
    made.expire(due)
    assert "has not answered" in made.fault


def test_a_notice_to_brokers_is_ignored() -> None:
    made, asked = opened()
    made.receive(encode(905, 1, fields={"minBrokerId": "0"}, flag=2), 1)
    assert made.fault == ""
    made.receive(answer(asked, 0, {"changed": "true"}), 1)
    assert made.fault == ""


def test_requests_carry_what_the_signature_adds() -> None:
    made = Registrar(BROKER, Topics())
    made.sign = lambda fields, body: {**fields, "AccessKey": "node", "Signature": str(len(body))}
    made.connected(0)
    (asked,) = FrameDecoder().feed(b"".join(made.outgoing()))
    fields = asked.fields() or {}
    assert (fields["AccessKey"], fields["Signature"]) == ("node", str(len(asked.body)))
