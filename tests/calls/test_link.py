"""Calls over connections that break: each is carried out once, in order, and answered once, or given up."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

from domain.errors import ErrorCode, Failure
from domain.limits import MILLISECOND_NS, REMOTING_FRAME_BYTES_MAX, SECOND_NS
from domain.message import Message
from domain.once import OnceKey
from domain.record import Record
from domain.store_request import ReadRequest
from domain.topic import Topic
from protocols.remoting.calls.octets import WireError
from store.config import StoreConfig
from store.engine import open_store
from store.log_store import LogStore
from tests.calls import operations as of
from tests.calls.far_store import FarLink
from tests.calls.frame import CallBytes, get_answers, put_calls
from tests.calls.link import BYTES_MAX, CALL_NS, CALLS_MAX, StoreLink
from tests.calls.service import CallService
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk


class Place:
    """A store with a topic, and a link to it by hand."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store: LogStore = open_store(MemoryDisk(self.clock), self.clock, StoreConfig())
        self.store.metadata.put_topic(Topic("t", 1, 1), lambda _: None)
        self.clock.run_for(20)
        self.service = CallService(self.store, self.clock)
        self.link = StoreLink("store-1", self.clock)
        self.there: list[bytes] = []
        self.back: list[bytes] = []

    def connect(self, life: int = 1) -> None:
        self.service.connected("g", self.back.append)
        self.link.connected(life, self.there.append)

    def carry(self) -> None:
        """Carry all frames to the store, and its answers back."""
        for frame in self.there:
            self.service.received("g", frame)
        self.there.clear()
        self.clock.run_for(20)
        for frame in self.back:
            self.link.received(frame)
        self.back.clear()

    def end(self) -> int:
        found: list[Any] = []
        self.store.log.bounds("t", 0, found.append)
        return int(found[0][1])


@pytest.mark.parametrize("seed", range(20))
def test_every_call_is_carried_out_once_and_in_order(seed: int) -> None:
    clock = VirtualClock()
    store = open_store(MemoryDisk(clock), clock, StoreConfig())
    store.metadata.put_topic(Topic("t", 1, 1), lambda _: None)
    clock.run_for(20)
    far = FarLink(store, clock, seed, loss=0.1, repeats=0.2)
    chance = Random(seed)
    answered: list[int] = []

    def note(number: int, _: object) -> None:
        answered.append(number)

    for number in range(200):
        message = Message("t", b"%d" % number, queue_id=0)
        far.link.call(of.APPEND_PLAIN, partial(note, number), [message], [])
        clock.run_for(chance.choice((0, 0, 1, 5)))
    clock.run_for(3_000)
    assert far.lost > 3
    assert far.repeated > 3
    assert sorted(answered) == list(range(200))
    found: list[Any] = []
    store.log.read(ReadRequest("t", 0, 0, 1_000, 1 << 20), found.append)
    assert [Record(data).body for data in found[0].records] == [b"%d" % number for number in range(200)]


def test_a_call_is_given_up_once_its_time_is_over() -> None:
    place = Place()
    answers: list[Any] = []
    place.link.call(of.BOUNDS, answers.append, "t", 0)
    place.clock.run_for(CALL_NS // MILLISECOND_NS - 100)
    assert answers == []
    place.clock.run_for(1_100)
    assert answers[0].code is ErrorCode.STORE_UNAVAILABLE
    assert "store-1" in answers[0].text
    assert place.link.overdue == 1
    place.connect()
    place.link.call(of.BOUNDS, answers.append, "t", 0)
    place.clock.run_for(1)
    place.carry()
    assert answers[1] == (0, 0), "later calls do not wait for it"


def test_a_late_answer_of_a_call_that_was_given_up_is_ignored() -> None:
    place = Place()
    place.connect()
    answers: list[Any] = []
    place.link.call(of.BOUNDS, answers.append, "t", 0)
    place.clock.run_for(CALL_NS // MILLISECOND_NS + 1_000)
    place.carry()
    assert [type(answer) for answer in answers] == [Failure]


def test_after_a_start_of_the_store_only_calls_that_may_be_repeated_are() -> None:
    place = Place()
    place.connect(life=1)
    answers: dict[str, Any] = {}
    key = OnceKey("g", b"1")
    place.link.call(of.APPEND, partial(answers.__setitem__, "keyed"), key, [Message("t", b"a", queue_id=0)], [])
    place.link.call(of.APPEND_PLAIN, partial(answers.__setitem__, "once"), [Message("t", b"b", queue_id=0)], [])
    place.link.call(of.BOUNDS, partial(answers.__setitem__, "harmless"), "t", 0)
    place.clock.run_for(1)
    for frame in place.there:
        place.service.received("g", frame)  # carried out, and the answers are lost
    place.clock.run_for(20)
    place.there.clear()
    place.back.clear()
    place.service = CallService(place.store, place.clock)
    place.connect(life=2)
    place.carry()
    assert answers["once"].code is ErrorCode.STORE_UNAVAILABLE
    assert [placed.queue_offset for placed in answers["keyed"]] == [0]
    assert answers["harmless"] == (0, 2)
    assert place.end() == 2, "the append with a key was not carried out again"


def test_a_call_that_never_went_out_is_sent_to_the_next_life() -> None:
    place = Place()
    answers: list[Any] = []
    place.connect(life=1)
    place.link.lost()
    place.link.call(of.APPEND_PLAIN, answers.append, [Message("t", b"b", queue_id=0)], [])
    place.clock.run_for(1)
    place.connect(life=2)
    place.carry()
    assert [placed.queue_offset for placed in answers[0]] == [0]


def test_what_waits_is_bounded() -> None:
    place = Place()
    answers: list[Any] = []
    body = bytes(4 * 1024 * 1024)
    for _ in range(BYTES_MAX // len(body) + 1):
        place.link.call(of.APPEND_PLAIN, answers.append, [Message("t", body, queue_id=0)], [])
    assert [answer.code for answer in answers] == [ErrorCode.OVERLOADED, ErrorCode.OVERLOADED][: len(answers)]
    assert answers
    many = StoreLink("store-1", place.clock)
    for _ in range(CALLS_MAX + 1):
        many.call(of.BOUNDS, answers.append, "t", 0)
    assert answers[-1].code is ErrorCode.OVERLOADED


def test_answers_of_a_caller_that_settles_nothing_are_bounded() -> None:
    place = Place()
    place.connect()
    request = of.BOUNDS.put_request("t", 0)
    bodies = [
        put_calls(1, [CallBytes(number, of.BOUNDS.number, request) for number in range(first, first + CALLS_MAX)])
        for first in (1, CALLS_MAX + 1, 2 * CALLS_MAX + 1)
    ]
    for body in bodies[:2]:
        place.service.received("g", body)
    with pytest.raises(WireError, match="not settled"):
        place.service.received("g", bodies[2])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x01",
        put_calls(0, [CallBytes(1, 999, b"")]),
        put_calls(0, [CallBytes(1, of.BOUNDS.number, b"x")]),
        b"\x09" + bytes(12),
    ],
)
def test_nonsense_costs_its_connection(body: bytes) -> None:
    place = Place()
    place.connect()
    with pytest.raises(WireError):
        place.service.received("g", body)
    with pytest.raises(WireError):
        get_answers(b"\x01\x00\x00\x00\x05")


def test_a_newer_connection_takes_the_place_of_the_older_one() -> None:
    place = Place()
    place.connect()
    old = place.back.append
    newer: list[bytes] = []
    place.service.connected("g", newer.append)
    place.service.lost("g", old)
    place.link.call(of.BOUNDS, None, "t", 0)
    place.clock.run_for(1)
    for frame in place.there:
        place.service.received("g", frame)
    place.clock.run_for(SECOND_NS // MILLISECOND_NS)
    assert len(newer) == 1
    assert place.back == []


def test_bodies_are_frames_of_the_protocol_however_much_is_asked_in_a_turn() -> None:
    place = Place()
    found: list[Any] = []
    for number in range(8):
        message = Message("t", b"%d" % number * (3 << 20), queue_id=0)
        place.link.call(of.APPEND_PLAIN, found.append, [message], [])
    place.connect()
    sizes = [len(frame) for frame in place.there]
    assert (len(sizes), max(sizes) < REMOTING_FRAME_BYTES_MAX) == (8, True)
    place.carry()
    assert (place.end(), len(found)) == (8, 8)
    for at in range(8):
        place.link.call(of.READ, found.append, ReadRequest("t", 0, at, 1, 1))
    place.clock.run_for(5)
    for frame in place.there:
        place.service.received("g", frame)
    place.there.clear()
    place.clock.run_for(20)
    sizes = [len(frame) for frame in place.back]
    assert (len(sizes), max(sizes) < REMOTING_FRAME_BYTES_MAX) == (8, True)
    place.carry()
    assert [Record(result.records[0]).body[:1] for result in found[8:]] == [b"%d" % at for at in range(8)]


def test_what_no_frame_holds_is_refused_at_once() -> None:
    place = Place()
    place.connect()
    found: list[Any] = []
    messages = [Message("t", bytes(4 << 20), queue_id=0) for _ in range(4)]
    place.link.call(of.APPEND_PLAIN, found.append, messages, [])
    assert [each.code for each in found] == [ErrorCode.MESSAGE_TOO_LARGE]
    place.link.call(of.APPEND_PLAIN, found.append, messages[:1], [])
    place.clock.run_for(5)
    place.carry()
    assert (place.end(), len(found)) == (1, 2)
    for _ in range(5):
        place.link.call(of.APPEND_PLAIN, found.append, messages[:1], [])
    place.clock.run_for(5)
    place.carry()
    place.link.call(of.READ, found.append, ReadRequest("t", 0, 0, 100, 64 << 20))
    place.clock.run_for(5)
    place.carry()
    assert found[-1].code is ErrorCode.MESSAGE_TOO_LARGE
