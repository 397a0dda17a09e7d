"""Requests to brokers and name servers: pipelined, bounded, and answered whatever happens to the connection."""

from __future__ import annotations

import pytest

from domain.errors import ErrorCode, Failure
from gateway.brokers.broker_links import Brokers
from gateway.link import link as links
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame, encode
from tests.gateway.apache.scripted_cluster import Reply, ScriptedCluster, reply_to
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.entropy import FixedEntropy


class World:
    """A cluster of two brokers and what asks them."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.cluster = ScriptedCluster(self.clock)
        self.brokers = Brokers([("10.0.0.9", 9876), ("10.0.0.8", 9876)], self.cluster, self.clock, FixedEntropy())
        self.a = self.cluster.brokers["broker-a"]
        self.answers: list[Frame | Failure] = []
        self.brokers.locate("broker-a", "10.0.0.1:10911")
        self.brokers.locate("broker-b", "10.0.0.2:10911")
        self.a.on(codes.GET_MAX_OFFSET, lambda frame: (0, {"offset": (frame.fields() or {})["queueId"]}, b""))

    def ask(self, queue_id: int = 0, broker: str = "broker-a", timeout_ms: int = 3_000) -> None:
        request = Request(codes.GET_MAX_OFFSET, {"topic": "T", "queueId": str(queue_id)})
        self.brokers.ask(broker, request, self.answers.append, timeout_ms)

    def offsets(self) -> list[str]:
        return [(each.fields() or {})["offset"] for each in self.answers if isinstance(each, Frame)]

    def failures(self) -> list[Failure]:
        return [each for each in self.answers if isinstance(each, Failure)]


@pytest.fixture
def world() -> World:
    return World()


def test_requests_are_pipelined_over_one_connection(world: World) -> None:
    for queue_id in range(100):
        world.ask(queue_id)
    world.clock.run_for(10)
    assert world.offsets() == [str(each) for each in range(100)]
    assert len(world.a.connections) == 1


def test_answers_in_another_order_find_their_requests(world: World) -> None:
    world.a.on(codes.GET_MAX_OFFSET, lambda frame: None)
    for queue_id in range(3):
        world.ask(queue_id)
    world.clock.run_for(10)
    [wire] = world.a.connections
    for frame in reversed(world.a.requests):
        wire.notify(reply_to(frame, 0, {"offset": (frame.fields() or {})["queueId"]}))
    world.clock.run_for(10)
    assert world.offsets() == ["2", "1", "0"]


def test_a_refused_connection_fails_all_that_wait_and_later_ones_at_once(world: World) -> None:
    world.a.up = False
    world.ask()
    world.ask()
    world.clock.run_for(10)
    assert [each.code for each in world.failures()] == [ErrorCode.STORE_UNAVAILABLE] * 2
    assert "broker-a at 10.0.0.1:10911" in world.failures()[0].text
    world.ask()
    assert len(world.answers) == 3


def test_a_broker_that_comes_back_is_asked_again(world: World) -> None:
    world.a.up = False
    world.ask()
    world.clock.run_for(5_000)
    world.a.up = True
    world.clock.run_until(lambda: not world.brokers.waits("broker-a"), 3_000)
    world.ask(7)
    world.clock.run_for(10)
    assert world.offsets() == ["7"]


def test_a_lost_connection_answers_what_waits(world: World) -> None:
    world.a.on(codes.GET_MAX_OFFSET, lambda frame: None)
    world.ask()
    world.clock.run_for(10)
    world.a.stop()
    [failure] = world.failures()
    assert failure.code is ErrorCode.STORE_UNAVAILABLE


def test_a_broker_that_accepts_and_says_nothing_gets_no_more_requests_until_it_speaks(world: World) -> None:
    world.a.silent = True
    world.ask()
    world.clock.run_for(3_100)
    assert "within 3 s" in world.failures()[0].text
    for _ in range(20):
        world.clock.run_for(500)
        world.ask()
    assert len(world.failures()) == 21
    assert world.a.codes().count(codes.GET_MAX_OFFSET) == 1
    world.a.silent = False
    world.clock.run_until(lambda: not world.brokers.waits("broker-a"), 10_000)
    world.ask(3)
    world.clock.run_for(10)
    assert world.offsets() == ["3"]


def test_one_late_answer_costs_its_request_alone(world: World) -> None:
    held: list[Frame] = []

    def answer(frame: Frame) -> Reply:
        if (frame.fields() or {})["queueId"] == "9":
            held.append(frame)
            return None
        return 0, {"offset": "0"}, b""

    world.a.on(codes.GET_MAX_OFFSET, answer)
    world.ask(9)
    for _ in range(4):
        world.clock.run_for(1_000)
        world.ask()
    world.clock.run_for(10)
    assert len(world.failures()) == 1
    assert len(world.offsets()) == 4
    [wire] = world.a.connections
    wire.notify(reply_to(held[0], 0, {"offset": "9"}))
    world.clock.run_for(10)
    assert len(world.answers) == 5
    assert world.brokers.figures()["rocketmq_late_answers_total"] == 1


@pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\x00\x00\x08\x00\x00\x00\x04{}xx", b"\x7f" * 8])
def test_nonsense_costs_the_connection(world: World, data: bytes) -> None:
    world.a.on(codes.GET_MAX_OFFSET, lambda frame: None)
    world.ask()
    world.clock.run_for(10)
    world.a.connections[0].notify(data)
    world.clock.run_for(10)
    [failure] = world.failures()
    assert failure.code is ErrorCode.STORE_UNAVAILABLE
    assert "remoting protocol" in failure.text


def test_half_an_answer_is_waited_for_and_no_more(world: World) -> None:
    world.a.on(codes.GET_MAX_OFFSET, lambda frame: None)
    world.ask()
    world.clock.run_for(10)
    whole = reply_to(world.a.requests[0], 0, {"offset": "5"})
    world.a.connections[0].notify(whole[: len(whole) // 2])
    world.clock.run_for(1_000)
    assert world.answers == []
    world.a.connections[0].notify(whole[len(whole) // 2 :])
    world.clock.run_for(10)
    assert world.offsets() == ["5"]


def test_an_answer_to_nothing_is_dropped(world: World) -> None:
    world.ask()
    world.clock.run_for(10)
    frame = world.a.requests[0]
    frame.opaque += 999
    world.a.connections[0].notify(reply_to(frame, 0, {"offset": "5"}))
    world.clock.run_for(10)
    assert len(world.answers) == 1


def test_a_code_that_nobody_knows_is_an_answer(world: World) -> None:
    world.a.on(codes.GET_MAX_OFFSET, lambda frame: (31_337, {"x": "y"}, b""))
    world.ask()
    world.clock.run_for(10)
    [answer] = world.answers
    assert isinstance(answer, Frame)
    assert answer.code == 31_337


def test_what_is_in_flight_is_bounded(world: World) -> None:
    world.a.on(codes.GET_MAX_OFFSET, lambda frame: None)
    for _ in range(links.IN_FLIGHT_MAX + 1):
        world.ask()
    assert [each.code for each in world.failures()] == [ErrorCode.OVERLOADED]
    assert world.brokers.in_flight("broker-a") == links.IN_FLIGHT_MAX
    request = Request(codes.SEND_V2, {"b": "T"}, bytes(8 * 1024 * 1024))
    for _ in range(9):
        world.brokers.ask("broker-b", request, world.answers.append)
    assert len(world.failures()) == 2


def test_a_broker_that_stops_gets_no_more_and_may_answer_what_it_has(world: World) -> None:
    held: list[Frame] = []
    world.a.on(codes.GET_MAX_OFFSET, held.append)
    world.a.on(codes.GET_MIN_OFFSET, lambda frame: (codes.GO_AWAY, {"a": "b"}, b""))
    world.ask(4)
    world.brokers.ask("broker-a", Request(codes.GET_MIN_OFFSET, {"topic": "T"}), world.answers.append)
    world.clock.run_for(10)
    world.ask()
    assert [each.code for each in world.failures()] == [ErrorCode.STORE_UNAVAILABLE] * 2
    world.a.connections[0].notify(reply_to(held[0], 0, {"offset": "4"}))
    world.clock.run_for(1)
    assert world.offsets() == ["4"]
    assert world.a.connections == []


def test_a_connection_that_ended_while_nothing_waited_is_made_by_the_next_request(world: World) -> None:
    world.ask(1)
    world.clock.run_for(10)
    world.a.connections[0].end("the connection was closed")
    world.clock.run_for(60_000)
    assert world.a.connections == []
    assert world.brokers.waits("broker-a") == ""
    world.ask(2)
    world.clock.run_for(10)
    assert world.offsets() == ["1", "2"]


def test_a_broker_that_moves_is_asked_at_its_new_address(world: World) -> None:
    world.a.on(codes.GET_MAX_OFFSET, lambda frame: None)
    world.ask()
    world.clock.run_for(10)
    moved = world.cluster.add("broker-a", "10.0.0.7", 10911)
    moved.on(codes.GET_MAX_OFFSET, lambda frame: (0, {"offset": "77"}, b""))
    world.brokers.locate("broker-a", "10.0.0.7:10911")
    assert len(world.failures()) == 1
    world.ask()
    world.clock.run_for(10)
    assert world.offsets() == ["77"]


@pytest.mark.parametrize("address", ["", "10.0.0.1", "10.0.0.1:", ":10911", "10.0.0.1:99999", "10.0.0.1:x"])
def test_an_address_that_is_none_is_no_broker(world: World, address: str) -> None:
    world.brokers.locate("broker-a", address)
    world.ask()
    [failure] = world.failures()
    assert failure.code is ErrorCode.STORE_UNAVAILABLE


def test_what_a_broker_asks_is_told_and_answered(world: World) -> None:
    seen: list[tuple[str, int]] = []

    def requested(broker: str, frame: Frame, answer: links.AnswerBack) -> None:
        seen.append((broker, frame.code))
        answer(0, {"x": "y"}, b"body", "")

    world.brokers.serve(codes.GET_CLIENT_STATUS, requested)
    world.ask()
    world.clock.run_for(10)
    world.a.connections[0].notify(encode(codes.GET_CLIENT_STATUS, 77, fields={"group": "g"}))
    world.clock.run_for(10)
    assert seen == [("broker-a", codes.GET_CLIENT_STATUS)]
    assert world.a.requests[-1].response
    assert (world.a.requests[-1].opaque, world.a.requests[-1].body) == (77, b"body")


def test_requests_are_signed(world: World) -> None:
    signed = Brokers([], world.cluster, world.clock, FixedEntropy(), lambda fields, body: {**fields, "Signature": "s"})
    signed.locate("broker-a", "10.0.0.1:10911")
    signed.ask("broker-a", Request(codes.GET_MAX_OFFSET, {"topic": "T", "queueId": "1"}), world.answers.append)
    world.clock.run_for(10)
    assert (world.a.requests[0].fields() or {})["Signature"] == "s"


def test_the_next_name_server_is_asked_when_one_fails_and_stays_preferred(world: World) -> None:
    second = world.cluster.add("ns2", "10.0.0.8", 9876)
    second.on(codes.GET_TOPICS, lambda frame: (0, {"a": "b"}, b"second"))
    world.cluster.nameserver.up = False
    for _ in range(2):
        world.brokers.ask_nameserver(Request(codes.GET_TOPICS, {"a": "b"}), world.answers.append)
        world.clock.run_for(10)
    assert [each.body for each in world.answers if isinstance(each, Frame)] == [b"second"] * 2
    assert len(second.requests) == 2


def test_all_name_servers_are_gone(world: World) -> None:
    world.cluster.nameserver.up = False
    world.brokers.ask_nameserver(Request(codes.GET_TOPICS, {"a": "b"}), world.answers.append)
    world.clock.run_for(10)
    assert [each.code for each in world.failures()] == [ErrorCode.STORE_UNAVAILABLE]
    assert len(world.brokers.nameservers_waiting()) == 2


def test_an_answer_that_may_be_ignorance_is_believed_when_all_give_it(world: World) -> None:
    second = world.cluster.add("ns2", "10.0.0.8", 9876)
    world.cluster.nameserver.on(codes.GET_ROUTE, lambda frame: (codes.TOPIC_NOT_EXIST, {"a": "b"}, b""))
    second.on(codes.GET_ROUTE, lambda frame: (0, {"a": "b"}, b"route"))
    doubted = frozenset({codes.TOPIC_NOT_EXIST})
    world.brokers.ask_nameserver(Request(codes.GET_ROUTE, {"topic": "T"}), world.answers.append, unless=doubted)
    world.clock.run_for(10)
    second.on(codes.GET_ROUTE, lambda frame: (codes.TOPIC_NOT_EXIST, {"a": "b"}, b""))
    world.brokers.ask_nameserver(Request(codes.GET_ROUTE, {"topic": "T"}), world.answers.append, unless=doubted)
    world.clock.run_for(10)
    assert [each.code for each in world.answers if isinstance(each, Frame)] == [0, codes.TOPIC_NOT_EXIST]


def test_closing_answers_what_waits(world: World) -> None:
    world.a.on(codes.GET_MAX_OFFSET, lambda frame: None)
    world.ask()
    world.clock.run_for(10)
    world.brokers.close()
    world.ask()
    assert len(world.failures()) == 2
    assert world.a.connections == []
