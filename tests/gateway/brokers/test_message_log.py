"""Sending to brokers, reading their queues, bounds and searches: what is asked, and how answers are told."""

from __future__ import annotations

from typing import Any

import pytest

from domain.errors import ErrorCode, Failure
from domain.message import property as properties
from domain.message import record
from domain.message.message import RETAIN_SET, SYS_PREPARED, Message, Placed
from domain.message.once import OnceKey
from domain.message.record import Record
from domain.store.store_ports import ReadResult, StateChange
from domain.store.store_request import KeyQuery, ReadRequest
from gateway.brokers.appends import Appends
from gateway.brokers.message_log import RocketmqLog
from gateway.brokers.once_keys import OnceKeys
from gateway.brokers.queue_choice import CHOICES
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame
from tests.gateway.apache.scripted_cluster import Reply, reply_to
from tests.gateway.brokers.test_cluster_map import World as MapWorld
from tests.store.driver import sure

SHARDED = properties.SHARDING_KEY_START + b"k" + properties.ENTRY_END


def stored(body: bytes, offset: int, queue_id: int = 0, at_ms: int = 1_700_000_000_000, props: bytes = b"") -> bytes:
    """A record as a broker stores it."""
    message = Message("T", body, props, queue_id=queue_id, born_ms=at_ms)
    return record.encode(message, offset, 1_000 + offset, at_ms, b"\x0a\x00\x00\x01\x00\x00\x2a\x9f")


def _entries(batch: bytes) -> list[tuple[bytes, bytes]]:
    """Body and properties of the messages of a batch."""
    found: list[tuple[bytes, bytes]] = []
    while batch:
        size, body = int.from_bytes(batch[:4], "big"), 20 + int.from_bytes(batch[16:20], "big")
        found.append((batch[20:body], batch[body + 2 : size]))
        batch = batch[size:]
    return found


class Queues:
    """The records of the queues of one scripted broker."""

    def __init__(self) -> None:
        self.records: dict[int, list[bytes]] = {}
        self.sends: list[dict[str, str]] = []
        self.code = codes.SUCCESS

    def send(self, frame: Frame) -> Reply:
        fields = frame.fields() or {}
        self.sends.append(fields)
        if self.code not in (codes.SUCCESS, 10, 11, 12):
            return self.code, {"a": "b"}, b""
        queue_id = int(fields["e"])
        sent = _entries(frame.body) if frame.code == codes.SEND_BATCH else [(frame.body, fields.get("i", "").encode())]
        if not all(body for body, _ in sent):
            return codes.MESSAGE_ILLEGAL, {"a": "b"}, b""  # as Apache's brokers do
        mine = self.records.setdefault(queue_id, [])
        offset = len(mine)
        mine += [stored(body, offset + at, queue_id, props=props) for at, (body, props) in enumerate(sent)]
        told = {"msgId": "0A000001" + "00002A9F" + f"{1_000 + offset:016X}", "queueId": str(queue_id)}
        return self.code, {**told, "queueOffset": str(offset), "recallHandle": "h"}, b""

    def pull(self, frame: Frame) -> Reply:
        fields = frame.fields() or {}
        mine = self.records.get(int(fields["queueId"]), [])
        offset, limit = int(fields["queueOffset"]), int(fields["maxMsgNums"])
        found = mine[offset : offset + limit]
        bounds = {"minOffset": "0", "maxOffset": str(len(mine)), "suggestWhichBrokerId": "0"}
        if offset > len(mine):
            return codes.PULL_OFFSET_MOVED, {**bounds, "nextBeginOffset": str(len(mine))}, b""
        if not found:
            held = int(fields["sysFlag"]) & 2
            return None if held else (codes.PULL_NOT_FOUND, {**bounds, "nextBeginOffset": str(offset)}, b"")
        return codes.SUCCESS, {**bounds, "nextBeginOffset": str(offset + len(found))}, b"".join(found)

    def end(self, frame: Frame) -> Reply:
        queue_id = int((frame.fields() or {})["queueId"])
        return codes.SUCCESS, {"offset": str(len(self.records.get(queue_id, [])))}, b""

    def search(self, frame: Frame) -> Reply:
        """SEARCH_OFFSET_BY_TIMESTAMP, with the boundary LOWER."""
        fields = frame.fields() or {}
        mine = self.records.get(int(fields["queueId"]), [])
        early = [each for each in mine if Record(each).store_ms < int(fields["timestamp"])]
        return codes.SUCCESS, {"offset": str(len(early))}, b""


class World(MapWorld):
    """A log over two scripted brokers."""

    def __init__(self) -> None:
        super().__init__()
        self.queues = {name: Queues() for name in self.cluster.brokers}
        for name, server in self.cluster.brokers.items():
            mine = self.queues[name]
            server.on(codes.SEND_V2, mine.send)
            server.on(codes.SEND_BATCH, mine.send)
            server.on(codes.PULL, mine.pull)
            server.on(codes.GET_MAX_OFFSET, mine.end)
            server.on(codes.SEARCH_OFFSET, mine.search)
            server.on(codes.GET_MIN_OFFSET, lambda frame: (0, {"offset": "0"}, b""))
        local = self.driver.store
        self.once = OnceKeys(local.state, self.clock)
        choice = CHOICES["round-robin"](self.servers, self.map, "")
        self.halves: list[tuple[object, ...]] = []
        appends = Appends(self.servers, self.map, local.log, choice, self.clock, lambda *row: self.halves.append(row))
        self.log = RocketmqLog(self.servers, self.map, appends, self.once, self.clock)
        assert self.ensure() is None

    def message(self, body: bytes = b"x", place: int = 0, props: bytes = b"", **more: Any) -> Message:
        return Message("T", body, props, queue_id=place, message_id="ID", **more)

    def append(self, *messages: Message, changes: list[StateChange] | None = None) -> list[Placed] | Failure:
        result: list[Placed] | Failure = self.driver.call(
            lambda done: self.log.append(messages, done, changes or ())
        )  # fmt: skip
        return result

    def read(self, place: int, offset: int, limit: int = 10) -> ReadResult | Failure:
        result: ReadResult | Failure = self.driver.call(self.log.read, ReadRequest("T", place, offset, limit, 1 << 20))
        return result

    def failure(self, result: object) -> ErrorCode:
        assert isinstance(result, Failure), result
        return result.code


@pytest.fixture
def world() -> World:
    return World()


def test_a_message_is_sent_to_the_broker_of_its_place(world: World) -> None:
    [placed] = sure(world.append(world.message(b"body", 3, b"KEYS\x01k\x02")))
    assert (placed.queue_id, placed.queue_offset, placed.physical_offset) == (3, 0, 1_000)
    assert (placed.message_id, placed.recall_handle) == ("ID", "h")
    [fields] = world.queues["broker-b"].sends
    assert (fields["b"], fields["e"], fields["i"], fields["n"]) == ("T", "1", "KEYS\x01k\x02", "broker-b")


def test_messages_of_one_queue_go_as_one_batch(world: World) -> None:
    messages = [world.message(b"a"), world.message(b"b")]
    placed = sure(world.append(*messages))
    assert [each.queue_offset for each in placed] == [0, 1]
    assert world.cluster.brokers["broker-a"].codes().count(codes.SEND_BATCH) == 1


def test_messages_of_several_queues_are_answered_together(world: World) -> None:
    placed = sure(world.append(*(world.message(b"m", place) for place in (0, 2, 1))))
    assert [each.queue_id for each in placed] == [0, 2, 1]


def test_changes_are_stored_when_the_cluster_has_the_messages(world: World) -> None:
    world.queues["broker-a"].code = codes.MESSAGE_ILLEGAL
    change = StateChange("space", b"key", b"value")
    assert world.failure(world.append(world.message(), changes=[change])) is ErrorCode.MESSAGE_ILLEGAL
    assert world.driver.call(world.driver.store.state.get, "space", b"key") is None
    world.queues["broker-a"].code = codes.SUCCESS
    sure(world.append(world.message(), changes=[change]))
    assert world.driver.call(world.driver.store.state.get, "space", b"key") == b"value"


@pytest.mark.parametrize(("code", "copies"), [(10, False), (11, True), (12, True)])
def test_what_is_stored_and_not_as_safe_as_promised_is_unsure(world: World, code: int, copies: bool) -> None:
    """`copies`: it lacks replicas, not the disk."""
    world.queues["broker-a"].code = code
    failure = world.append(world.message())
    assert isinstance(failure, Failure)
    assert (failure.code, failure.copies) == (ErrorCode.FLUSH_TIMEOUT, copies)
    assert world.queues["broker-b"].sends == []


def test_changes_go_with_messages_that_are_stored_and_unsure(world: World) -> None:
    """As the mark of a QoS 2 message, which is known by it when the client sends it again."""
    world.queues["broker-a"].code = codes.FLUSH_DISK_TIMEOUT
    change = StateChange("space", b"key", b"value")
    assert world.failure(world.append(world.message(), changes=[change])) is ErrorCode.FLUSH_TIMEOUT
    assert world.driver.call(world.driver.store.state.get, "space", b"key") == b"value"


@pytest.mark.parametrize("refusing", ["broker-a", "broker-b"])
def test_an_append_of_which_a_part_is_not_stored_is_not_told_to_be_stored(world: World, refusing: str) -> None:
    """FLUSH_TIMEOUT says that all messages are stored: whoever sends them again would take the others for stored."""
    for name, queues in world.queues.items():
        queues.code = codes.MESSAGE_ILLEGAL if name == refusing else codes.FLUSH_DISK_TIMEOUT
    change = StateChange("space", b"key", b"value")
    failed = world.append(world.message(place=0), world.message(place=2), changes=[change])
    assert world.failure(failed) is ErrorCode.MESSAGE_ILLEGAL
    assert world.driver.call(world.driver.store.state.get, "space", b"key") is None


def test_a_broker_has_as_long_as_its_own_time_for_a_flush(world: World) -> None:
    """syncFlushTimeout is 5 s, unless it is set: the answer comes behind it, and says that the message is stored."""
    server = world.cluster.brokers["broker-a"]

    def flush(frame: Frame) -> Reply:
        told = reply_to(frame, codes.FLUSH_DISK_TIMEOUT, {"msgId": "x", "queueId": "0", "queueOffset": "0"})
        world.clock.call_at(world.clock.monotonic_ns() + 5_010_000_000, lambda: server.connections[-1].notify(told))
        return None

    server.on(codes.SEND_V2, flush)
    assert world.failure(world.append(world.message())) is ErrorCode.FLUSH_TIMEOUT
    assert world.queues["broker-b"].sends == []


@pytest.mark.parametrize("code", [codes.SYSTEM_BUSY, codes.SYSTEM_ERROR, codes.SERVICE_NOT_AVAILABLE, codes.FLOW_CONTROL])
def test_a_message_that_one_broker_refuses_goes_to_another_once_with_the_same_id(world: World, code: int) -> None:
    world.queues["broker-a"].code = code
    message = world.message(props=b"UNIQ_KEY\x01ID\x02")
    [placed] = sure(world.append(message))
    assert placed.queue_id in (2, 3)
    assert [each["i"] for each in world.queues["broker-b"].sends] == ["UNIQ_KEY\x01ID\x02"]
    world.queues["broker-b"].code = code
    assert isinstance(world.append(message), Failure)
    assert len(world.queues["broker-a"].sends) + len(world.queues["broker-b"].sends) == 4


def test_a_message_with_an_ordering_key_goes_nowhere_else(world: World) -> None:
    world.queues["broker-a"].code = codes.SYSTEM_BUSY
    assert world.failure(world.append(world.message(props=SHARDED))) is ErrorCode.OVERLOADED
    assert world.queues["broker-b"].sends == []


def test_a_broker_that_is_gone_is_passed_over(world: World) -> None:
    world.cluster.brokers["broker-a"].stop()
    for _ in range(3):
        [placed] = sure(world.append(world.message()))
        assert placed.queue_id in (2, 3)


def test_all_brokers_are_gone(world: World) -> None:
    for server in world.cluster.brokers.values():
        server.stop()
    assert world.failure(world.append(world.message())) is ErrorCode.STORE_UNAVAILABLE


def test_a_half_message_is_told_before_it_is_answered(world: World) -> None:
    sure(world.append(world.message(props=b"PGROUP\x01pg\x02", sys_flag=SYS_PREPARED)))
    assert world.halves == [("pg", "ID", "T", "broker-a", 0, 1_000)]
    assert "TRAN_MSG\x01true" in world.queues["broker-a"].sends[0]["i"]


def test_a_topic_that_is_not_known_yet_is_asked_for(world: World) -> None:
    world.cluster.topics["new"] = {"broker-a": (1, 1, 6)}
    [placed] = sure(world.append(Message("new", b"x", queue_id=0, message_id="I")))
    assert placed.queue_id == 0
    failure = world.append(Message("nobody", b"x", queue_id=0, message_id="I"))
    assert world.failure(failure) is ErrorCode.TOPIC_NOT_FOUND


def test_an_append_without_messages_waits_for_those_before(world: World) -> None:
    answers: list[str] = []
    world.log.append([world.message()], lambda _: answers.append("first"))
    world.log.append([], lambda _: answers.append("barrier"))
    world.clock.run_for(100)
    assert answers == ["first", "barrier"]


def test_an_answer_without_a_place_is_unsure(world: World) -> None:
    world.cluster.brokers["broker-a"].on(codes.SEND_V2, lambda frame: (0, {"msgId": "x"}, b""))
    assert world.failure(world.append(world.message())) is ErrorCode.FLUSH_TIMEOUT


def test_a_latest_value_of_a_delayed_message_is_refused_by_name(world: World) -> None:
    delayed = world.message(props=b"TIMER_DELAY_MS\x015000\x02", retain=RETAIN_SET)
    assert world.failure(world.append(delayed)) is ErrorCode.NOT_SUPPORTED
    sure(world.append(world.message(retain=RETAIN_SET)))


def test_properties_that_are_not_utf8_arrive_byte_for_byte(world: World) -> None:
    """A header's value is text for brokers, and what is malformed is replaced there: the body of a batch is not."""
    odd = b"KEYS\x01\xff\xfek\x02"
    sure(world.append(world.message(b"body", props=odd)))
    [frame] = [each for each in world.cluster.brokers["broker-a"].requests if each.code in (codes.SEND_V2, codes.SEND_BATCH)]
    assert (frame.code, (frame.fields() or {})["m"]) == (codes.SEND_BATCH, "true")
    assert frame.body.endswith(b"body" + len(odd).to_bytes(2, "big") + odd)


def test_properties_that_cannot_arrive_as_they_are_refuse_the_message(world: World) -> None:
    odd = b"KEYS\x01\xff\x02TIMER_DELAY_MS\x015000\x02"
    assert world.failure(world.append(world.message(props=odd))) is ErrorCode.MESSAGE_ILLEGAL
    assert world.failure(world.append(world.message(), world.message(props=odd))) is ErrorCode.MESSAGE_ILLEGAL
    assert not world.queues["broker-a"].sends


def test_a_key_is_carried_out_once(world: World) -> None:
    key = OnceKey("client", b"k", b"digest")
    first = sure(world.driver.call(world.log.append_once, key, [world.message()]))
    again = sure(world.driver.call(world.log.append_once, key, [world.message()]))
    assert [each.queue_offset for each in again] == [each.queue_offset for each in first]
    assert len(world.queues["broker-a"].sends) == 1
    reused = world.driver.call(world.log.append_once, OnceKey("client", b"k", b"other"), [world.message()])
    assert world.failure(reused) is ErrorCode.KEY_REUSED


def test_repetitions_under_way_wait_for_the_first(world: World) -> None:
    answers: list[object] = []
    for _ in range(3):
        world.log.append_once(OnceKey("client", b"k"), [world.message()], answers.append)
    world.clock.run_for(1_000)
    assert len(answers) == 3
    assert len(world.queues["broker-a"].sends) == 1


def test_a_key_is_forgotten_after_its_time(world: World) -> None:
    key = OnceKey("client", b"k")
    sure(world.driver.call(world.log.append_once, key, [world.message()]))
    world.clock.run_for(3_700_000)
    sure(world.driver.call(world.log.append_once, key, [world.message()]))
    assert len(world.queues["broker-a"].sends) == 2


def test_records_are_read_under_the_number_of_their_place(world: World) -> None:
    for body in (b"a", b"b", b"c"):
        sure(world.append(world.message(body, 2)))
    result = sure(world.read(2, 1))
    assert (result.status, result.next_offset, result.max_offset) == ("FOUND", 3, 3)
    assert [Record(data).body for data in result.records] == [b"b", b"c"]
    assert {Record(data).queue_id for data in result.records} == {2}
    assert sure(world.read(2, 3)).status == "EMPTY"
    assert sure(world.read(2, 9)).status == "TOO_LARGE"


def test_a_damaged_record_is_refused_with_the_name_of_its_broker(world: World) -> None:
    data = bytearray(stored(b"body", 0))
    data[-1] ^= 0xFF
    data[90] ^= 0xFF
    world.queues["broker-a"].records[0] = [bytes(data)]
    failure = world.read(0, 0)
    assert world.failure(failure) is ErrorCode.STORE_UNAVAILABLE
    assert isinstance(failure, Failure)
    assert "broker-a" in failure.text


def test_half_a_record_is_refused(world: World) -> None:
    world.queues["broker-a"].records[0] = [stored(b"body", 0)[:50]]
    assert world.failure(world.read(0, 0)) is ErrorCode.STORE_UNAVAILABLE


def test_bounds_and_searches_are_asked_of_the_broker(world: World) -> None:
    sure(world.append(world.message()))
    assert world.driver.call(world.log.bounds, "T", 0) == (0, 1)
    world.cluster.brokers["broker-a"].on(codes.SEARCH_OFFSET, lambda frame: (0, {"offset": "7"}, b""))
    assert world.driver.call(world.log.search, "T", 0, 5, False) == 7
    assert world.failure(world.driver.call(world.log.bounds, "T", 99)) is ErrorCode.QUEUE_ILLEGAL
    assert world.failure(world.driver.call(world.log.bounds, "no", 0)) is ErrorCode.TOPIC_NOT_FOUND


def test_a_key_is_looked_for_at_every_broker(world: World) -> None:
    def record_of(name: str, at_ms: int) -> bytes:
        message = Message("T", b"m", f"KEYS\x01{name}\x02".encode(), queue_id=1)
        return record.encode(message, 5, 9, at_ms, b"\x0a\x00\x00\x01\x00\x00\x2a\x9f")

    a, b = world.cluster.brokers["broker-a"], world.cluster.brokers["broker-b"]
    a.on(codes.QUERY_MESSAGE, lambda frame: (0, {"a": "b"}, record_of("k", 10) + record_of("other", 11)))
    b.on(codes.QUERY_MESSAGE, lambda frame: (0, {"a": "b"}, record_of("k", 20)))
    query = KeyQuery("T", "k", 0, 1 << 60, 10, 1 << 20, False)
    found = sure(world.driver.call(world.log.find, query))
    assert [(Record(data).queue_id, Record(data).store_ms) for data in found] == [(3, 20), (1, 10)]
    b.stop()
    assert len(sure(world.driver.call(world.log.find, query))) == 1
    a.on(codes.QUERY_MESSAGE, lambda frame: (codes.QUERY_NOT_FOUND, {"a": "b"}, b""))
    assert isinstance(world.driver.call(world.log.find, query), Failure)


def test_a_slow_broker_gets_less_with_strategy_latency(world: World) -> None:
    choice = CHOICES["latency"](world.servers, world.map, "")
    assert choice.choose("T", [0, 1, 2, 3], 0) == 0
    for _ in range(20):
        choice.answered("broker-a", 400_000)
    assert choice.choose("T", [0, 1, 2, 3], 0) == 2
    for _ in range(20):
        choice.answered("broker-b", 900_000)
    assert choice.choose("T", [0, 1, 2, 3], 0) in (0, 1)


def test_the_same_zone_goes_first(world: World) -> None:
    world.cluster.zones = {"broker-a": "east", "broker-b": "west"}
    world.clock.run_for(1_100)
    choice = CHOICES["same-zone"](world.servers, world.map, "west")
    assert {choice.choose("T", [0, 1, 2, 3], each) for each in range(4)} == {2, 3}
    world.cluster.brokers["broker-b"].stop()
    world.append(world.message(place=2))
    assert {choice.choose("T", [0, 1, 2, 3], each) for each in range(4)} <= {0, 1}
