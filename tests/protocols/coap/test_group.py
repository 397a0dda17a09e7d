"""Receiving one message for a consumer group: GET with `group=`, DELETE with If-Match."""

from __future__ import annotations

import pytest

from domain.command import Extend, Receive
from protocols.coap import message, option
from tests.protocols.coap.stage import Stage, values


def test_receive_and_acknowledge() -> None:
    stage = Stage(amplification=0)
    stage.queue = [stage.publish("t", b"1", stored=b"HG_CONTENT_TYPE\x01application/json\x02")]
    [answer] = stage.request(message.GET, "mq/t", query=["group=g", "wait=5", "invisible_ms=60000"])
    assert (message.name(answer.code), answer.payload, values(answer, option.CONTENT_FORMAT)) == ("2.05", b"1", [bytes([50])])
    command = stage.commands[-1]
    assert isinstance(command, Receive)
    assert (command.group, command.topic, command.limit, command.wait_ms, command.invisible_ms) == ("g", "t", 1, 5000, 60_000)
    [etag] = values(answer, option.ETAG)
    [done] = stage.request(message.DELETE, "mq/t", query=["group=g"], pairs=[(option.IF_MATCH, etag)])
    assert message.name(done.code) == "2.02"
    assert stage.leased == {}
    [again] = stage.request(message.DELETE, "mq/t", query=["group=g"], pairs=[(option.IF_MATCH, etag)])
    assert message.name(again.code) == "4.12"


def test_nothing_to_receive() -> None:
    assert message.name(Stage().request(message.GET, "mq/t", query=["group=g"])[0].code) == "4.04"


def test_acknowledging_for_another_group_is_refused() -> None:
    stage = Stage(amplification=0)
    stage.queue = [stage.publish("t", b"1")]
    [answer] = stage.request(message.GET, "mq/t", query=["group=g"])
    guard = [(option.IF_MATCH, values(answer, option.ETAG)[0])]
    assert message.name(stage.request(message.DELETE, "mq/t", query=["group=h"], pairs=guard)[0].code) == "4.12"
    assert message.name(stage.request(message.DELETE, "mq/t", query=["group=g"])[0].code) == "4.12"
    assert len(stage.leased) == 1


def test_large_message_comes_in_blocks_and_is_leased_once() -> None:
    stage = Stage()
    stage.queue = [stage.publish("t", b"x" * 40)]
    [first] = stage.request(message.GET, "mq/t", query=["group=g"], pairs=[(option.BLOCK2, b"\x00")])
    [second] = stage.request(message.GET, "mq/t", query=["group=g"], pairs=[(option.BLOCK2, b"\x10")])
    [third] = stage.request(message.GET, "mq/t", query=["group=g"], pairs=[(option.BLOCK2, b"\x20")])
    assert first.payload + second.payload + third.payload == b"x" * 40
    assert len(stage.leased) == 1


def test_message_that_nobody_took_goes_back_at_once() -> None:
    stage = Stage(amplification=0)
    stage.hold = True
    stage.queue = [stage.publish("t", b"1")]
    stage.request(message.GET, "mq/t", query=["group=g", "wait_ms=5000"])
    stage.advance(2)
    stage.hold = False
    stage.play()
    assert len(stage.leased) == 1
    stage.advance(120)
    assert isinstance(stage.commands[-1], Extend)
    assert stage.leased == {}


@pytest.mark.parametrize(
    "query",
    [
        ["group="],
        ["group=a b"],
        ["group=g", "wait=x"],
        ["group=g", "wait=31"],
        ["group=g", "invisible_ms=0"],
        ["group=g", "group=h"],
    ],
)
def test_bad_queries(query: list[str]) -> None:
    assert message.name(Stage().request(message.GET, "mq/t", query=query)[0].code) == "4.00"


def test_group_receives_from_a_whole_topic() -> None:
    assert message.name(Stage().request(message.GET, "mq/t/sub", query=["group=g"])[0].code) == "4.00"
