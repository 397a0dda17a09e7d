"""Observers that are members of a consumer group: the ACK settles, and whoever is gone gives its message back at once."""

from __future__ import annotations

from typing import Any

import pytest

from domain.command import Acknowledge, Extend, Receive
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from protocols.coap.message import message, option
from protocols.coap.message.message import Packet
from tests.protocols.coap.stage import Stage, values
from tests.protocols.taken import last

OBSERVE = (option.OBSERVE, b"")


def joined(**options: Any) -> Stage:
    stage = Stage(amplification=0, **options)
    [answer] = stage.request(message.GET, "mq/t", query=["group=g"], token=b"m", pairs=[OBSERVE])
    assert (message.name(answer.code), answer.payload, len(values(answer, option.OBSERVE))) == ("2.05", b"", 1)
    return stage


def acknowledge(stage: Stage, packet: Packet, kind: int = message.ACK) -> list[Packet]:
    return stage.push(message.empty(kind, packet.mid))


def test_ack_settles_and_the_next_message_follows() -> None:
    stage = joined()
    assert [command.wait_ms for command in stage.parked] == [30_000]
    [first] = stage.arrive(b"1")
    assert (first.kind, first.token, first.payload) == (message.CON, b"m", b"1")
    assert values(first, option.LOCATION_QUERY)[0] == b"group=g"
    assert stage.arrive(b"2") == []  # one at a time
    assert len(stage.leased) == 1
    [second] = acknowledge(stage, first)
    assert second.payload == b"2"
    assert isinstance(stage.commands[-2], Acknowledge)
    acknowledge(stage, second)
    assert stage.leased == {}
    assert len(stage.parked) == 1


def test_messages_that_wait_already_come_after_the_registration() -> None:
    stage = Stage(amplification=0)
    stage.queue = [stage.publish("t", b"1"), stage.publish("t", b"2")]
    answer, first = stage.request(message.GET, "mq/t", query=["group=g", "from=last"], token=b"m", pairs=[OBSERVE])
    assert (answer.payload, first.payload) == (b"", b"1")
    command = last(stage.commands, Receive)
    assert (command.from_first, command.limit, command.invisible_ms) == (False, 1, 120_000)


def test_reset_releases_the_message_at_once() -> None:
    stage = joined()
    [first] = stage.arrive(b"1")
    acknowledge(stage, first, message.RST)
    released = last(stage.commands, Extend)
    assert (released.group, released.topic, released.invisible_ms) == ("g", "t", 0)
    assert stage.endpoint.observations.count == 0


def test_silence_releases_the_message_when_the_last_retransmission_is_overdue() -> None:
    stage = joined()
    stage.arrive(b"1")
    assert len(stage.advance(60)) == 4
    assert not any(isinstance(command, Extend) for command in stage.commands)
    stage.advance(40)
    assert isinstance(stage.commands[-1], Extend)
    assert stage.endpoint.observations.count == 0
    assert stage.endpoint.counts["unanswered"] == 1


def test_deregistration_releases_and_a_message_that_comes_late_goes_back() -> None:
    stage = joined()
    stage.arrive(b"1")
    stage.request(message.GET, "mq/t", query=["group=g"], token=b"m", pairs=[(option.OBSERVE, b"\x01")])
    assert isinstance(stage.commands[-1], Extend)
    stage = joined()
    parked = stage.parked[0]
    stage.request(message.GET, "mq/t", query=["group=g"], token=b"m", pairs=[(option.OBSERVE, b"\x01")])
    stage.parked = [parked]
    assert stage.arrive(b"late") == []
    stage.advance(0)
    assert isinstance(stage.commands[-1], Extend)
    assert stage.leased == {}


def test_repeated_registration_is_one_member() -> None:
    stage = joined()
    stage.request(message.GET, "mq/t", query=["group=g"], token=b"m", pairs=[OBSERVE])
    assert stage.endpoint.observations.count == 1


def test_duplicate_ack_settles_once() -> None:
    stage = joined()
    [first] = stage.arrive(b"1")
    acknowledge(stage, first)
    acknowledge(stage, first)
    assert sum(isinstance(command, Acknowledge) for command in stage.commands) == 1


@pytest.mark.parametrize("later", [False, True])
def test_refusal_answers_the_registration_or_ends_the_observation(later: bool) -> None:
    stage = Stage(amplification=0)
    stage.hold = not later
    answers = stage.request(message.GET, "mq/t", query=["group=g"], token=b"m", pairs=[OBSERVE])
    command = stage.parked[0] if later else stage.held[0]
    assert isinstance(command, Receive)
    stage.endpoint.answer(Refused(command.ticket, Failure(ErrorCode.NOT_ALLOWED, "no")), stage.now)
    stage.settle()
    answers = stage.out()
    assert [(message.name(packet.code), packet.token) for packet in answers] == [("4.03", b"m")]
    if later:
        acknowledge(stage, answers[0])
    assert stage.endpoint.observations.count == 0


def test_two_members_are_told_apart() -> None:
    stage = joined()
    stage.request(message.GET, "mq/t", query=["group=g"], token=b"n", pairs=[OBSERVE])
    assert len(stage.parked) == 2
    assert stage.endpoint.observations.count == 2


def test_an_address_that_may_not_exist_gets_no_lease() -> None:
    stage = Stage()
    [answer] = stage.request(message.GET, "mq/t", query=["group=g"], token=b"m", pairs=[OBSERVE])
    assert (message.name(answer.code), len(values(answer, option.ECHO))) == ("4.01", 1)
    assert not stage.commands


def test_a_message_that_finds_no_memory_goes_back_and_ends_the_observation() -> None:
    stage = joined(backlogs_bytes_max=2_000)
    stage.request(message.GET, "mq/t", query=["group=g"], token=b"n", pairs=[OBSERVE])
    [first] = stage.arrive(b"x" * 900)  # sent to one member; the other waits behind it
    second = stage.arrive(b"y" * 900)
    assert second == []
    stage.arrive(b"z" * 900)
    assert len(stage.endpoint.observations.feeds) == 2
    after = acknowledge(stage, first)
    while after:
        after = [packet for each in after for packet in acknowledge(stage, each)]
    assert stage.endpoint.observations.audience.bytes <= 2_000
    assert len(stage.leased) <= 2
