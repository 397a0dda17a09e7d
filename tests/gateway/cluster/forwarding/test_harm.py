"""Frames whose items cannot be read: the connection pays, who waits is answered, and all else is carried out once."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest

from domain.command import QueryLatest, Send, Watch
from domain.errors import ErrorCode
from domain.event import LatestValue, Refused, Sent, WatchedMessages, WatchStarted
from domain.message.message import Message
from protocols.remoting.nodes.forwarding import item
from protocols.remoting.nodes.forwarding.stream import UNSIZED, VERSIONS
from tests.gateway.cluster.forwarding.test_forwarder import Two, send
from tests.gateway.usecase.event_recorder import EventRecorder

HEAD = struct.calcsize(">BqqI")
OLD = (UNSIZED,)


def items(frame: bytes) -> list[tuple[int, int]]:
    """(begin, end) of each item of a frame of version 2."""
    found, at = [], HEAD
    while at < len(frame):
        size = int.from_bytes(frame[at : at + 4], "big")
        found.append((at + 4, at + 4 + size))
        at += 4 + size
    return found


def spoil(kind: int, head: struct.Struct, number: int) -> Callable[[int, bytes], bytes]:
    """Makes the fields of the `number`th item of a kind unreadable, once."""
    seen = 0

    def harm(_way: int, frame: bytes) -> bytes:
        nonlocal seen
        for begin, end in items(frame):
            if frame[begin] == kind:
                seen += 1
                if seen == number:
                    fields = begin + head.size + 2
                    return frame[:fields] + b"\xff" * (end - fields) + frame[end:]
        return frame

    return harm


def five(two: Two) -> list[EventRecorder]:
    """Five clients that the store knows."""
    recorders = [EventRecorder() for _ in range(5)]
    for recorder in recorders:
        two.gateway.handle(recorder.connection, QueryLatest(0, "T"))
    two.clock.run_for(100)
    for recorder in recorders:
        assert len(recorder.take()) == 1
    return recorders


def send_all(two: Two, recorders: list[EventRecorder]) -> None:
    """Each of the clients sends a message, all in one turn."""
    for number, recorder in enumerate(recorders, 1):
        two.gateway.handle(recorder.connection, send(number, b"%d" % number))


def test_a_command_that_cannot_be_read_is_refused_and_all_others_are_carried_out_once() -> None:
    two = Two()
    recorders = five(two)
    two.link.harm = spoil(item.COMMAND, item.COMMAND_HEAD, 3)
    send_all(two, recorders)
    two.clock.run_for(500)
    assert two.link.broken == 1
    outcomes = [recorder.take() for recorder in recorders]
    assert [[type(event) for event in events] for events in outcomes] == [[Sent], [Sent], [Refused], [Sent], [Sent]]
    [refused] = outcomes[2]
    assert isinstance(refused, Refused)
    assert (refused.ticket, refused.failure.code) == (3, ErrorCode.INTERNAL)
    assert sorted(two.bodies("T")) == [b"1", b"2", b"4", b"5"]
    send_all(two, recorders)
    two.clock.run_for(100)
    assert [[type(event) for event in recorder.take()] for recorder in recorders] == [[Sent]] * 5


def test_an_answer_that_cannot_be_read_is_an_error_for_its_client_only() -> None:
    two = Two()
    recorders = five(two)
    two.link.harm = spoil(item.EVENT, item.EVENT_HEAD, 2)
    send_all(two, recorders)
    two.clock.run_for(500)
    assert two.link.broken == 1
    kinds = [[type(event) for event in recorder.take()] for recorder in recorders]
    assert kinds == [[Sent], [Refused], [Sent], [Sent], [Sent]]
    assert sorted(two.bodies("T")) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_client_whose_command_nobody_answers_ends_when_it_cannot_be_read() -> None:
    two = Two()
    recorders = five(two)
    two.link.harm = spoil(item.COMMAND, item.COMMAND_HEAD, 1)
    two.gateway.handle(recorders[0].connection, Send(None, [Message("T", b"lost")], wait=False))
    send_all(two, recorders[1:])
    two.clock.run_for(500)
    assert recorders[0].closing
    assert [[type(event) for event in recorder.take()] for recorder in recorders] == [[], [Sent], [Sent], [Sent], [Sent]]
    assert sorted(two.bodies("T")) == [b"1", b"2", b"3", b"4"]


def test_a_watch_of_many_peers_begins_again_when_its_message_cannot_be_read() -> None:
    two, shared, other = Two(), EventRecorder(), EventRecorder()
    shared.connection.shared = True
    two.gateway.handle(shared.connection, Watch("w", "T/#"))
    two.gateway.handle(other.connection, QueryLatest(0, "T"))
    two.clock.run_for(100)
    assert [type(event) for event in shared.take()] == [WatchStarted]
    two.link.harm = spoil(item.EVENT, item.EVENT_HEAD, 1)
    two.gateway.handle(other.connection, Send(None, [Message("T", b"x")], wait=False))
    two.clock.run_for(500)
    assert not shared.closing
    assert [type(event) for event in shared.take()] == [WatchStarted]
    two.gateway.handle(other.connection, Send(None, [Message("T", b"y")], wait=False))
    two.clock.run_for(100)
    assert [type(event) for event in shared.take()] == [WatchedMessages]


def half(kind: int) -> Callable[[int, bytes], bytes]:
    """Cuts a frame in its middle, once: of a gateway (0) or of the store (1)."""
    done = False

    def harm(way: int, frame: bytes) -> bytes:
        nonlocal done
        if done or way != kind or len(frame) < 200:
            return frame
        done = True
        return frame[: HEAD + (len(frame) - HEAD) // 2]

    return harm


@pytest.mark.parametrize("versions", [OLD, VERSIONS])
@pytest.mark.parametrize("way", [0, 1])
def test_half_a_frame_has_all_clients_begin_again(way: int, versions: tuple[int, ...]) -> None:
    two = Two(versions=versions)
    recorders = five(two)
    two.link.harm = half(way)
    send_all(two, recorders)
    two.clock.run_for(500)
    assert len(two.link.lost) == 1
    events = [event for recorder in recorders for event in recorder.take()]
    sent = {event.ticket for event in events if isinstance(event, Sent)}
    refused = {event.ticket for event in events if isinstance(event, Refused)}
    assert (len(events), sent | refused, sent & refused) == (5, {1, 2, 3, 4, 5}, set())
    assert refused
    stored = two.bodies("T")
    assert len(stored) == len(set(stored))
    assert {str(ticket).encode() for ticket in sent} <= set(stored)
    send_all(two, recorders)
    two.clock.run_for(100)
    assert [[type(event) for event in recorder.take()] for recorder in recorders] == [[Sent]] * 5


@pytest.mark.parametrize("versions", [OLD, VERSIONS])
@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_damaged_each_request_is_answered_once_and_stored_at_most_once(
    seed: int, versions: tuple[int, ...]
) -> None:
    two, chance = Two(versions=versions), random.Random(seed)
    harmed = 0

    def harm(_way: int, frame: bytes) -> bytes:
        nonlocal harmed
        if len(frame) == HEAD or chance.random() > 0.1:
            return frame
        harmed += 1
        begin, end = chance.choice(items(frame)) if two.gateway._stream.version != UNSIZED else (HEAD, len(frame))
        at = chance.randrange(begin, end)
        if versions == OLD or chance.random() < 0.3:
            return frame[:at]
        # Fields may be damaged so that they are other values: an item's end is what no reader overlooks.
        return frame[: begin - 4] + (at - begin).to_bytes(4, "big") + frame[begin:at] + frame[end:]

    recorders = [EventRecorder() for _ in range(8)]
    answers: dict[int, list[object]] = {}
    for number in range(200):
        recorder = recorders[number % len(recorders)]
        if recorder.closing:
            recorder = recorders[number % len(recorders)] = EventRecorder()
        two.link.harm = harm if number >= 8 else None
        two.gateway.handle(recorder.connection, send(number, b"%d" % number))
        two.clock.run_for(chance.choice((0, 0, 0, 5, 40)))
        collect(recorders, answers)
    two.link.harm = None
    two.clock.run_for(15_000)
    collect(recorders, answers)
    assert harmed > 5
    assert {number: len(events) for number, events in answers.items()} == dict.fromkeys(range(200), 1)
    stored = two.bodies("T")
    assert len(stored) == len(set(stored))
    assert {b"%d" % number for number, [event] in answers.items() if isinstance(event, Sent)} <= set(stored)


def collect(recorders: list[EventRecorder], answers: dict[int, list[object]]) -> None:
    for recorder in recorders:
        for event in recorder.take():
            ticket = getattr(event, "ticket", None)
            assert isinstance(ticket, int)
            assert not isinstance(event, LatestValue)
            answers.setdefault(ticket, []).append(event)
