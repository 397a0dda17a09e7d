"""Receiving one message for a consumer group: GET with `group=`, DELETE with If-Match."""

from __future__ import annotations

import pytest

from domain.command import Acknowledge, Extend, Receive
from domain.message.receipt import Receipt
from protocols.coap.message import message, option
from tests.protocols.coap.stage import Stage, values
from tests.protocols.taken import last


def test_receive_and_acknowledge() -> None:
    stage = Stage(amplification=0)
    stage.queue = [stage.publish("t", b"1", stored=b"HG_CONTENT_TYPE\x01application/json\x02")]
    [answer] = stage.request(message.GET, "mq/t", query=["group=g", "wait=5", "invisible_ms=60000"])
    assert (message.name(answer.code), answer.payload, values(answer, option.CONTENT_FORMAT)) == ("2.05", b"1", [bytes([50])])
    command = last(stage.commands, Receive)
    assert (command.group, command.topic, command.limit, command.wait_ms, command.invisible_ms) == ("g", "t", 1, 5000, 60_000)
    queries = [query.decode() for query in values(answer, option.LOCATION_QUERY)]
    assert queries == ["group=g", f"receipt={next(iter(stage.leased))}"]
    [done] = stage.request(message.DELETE, "mq/t", query=queries)
    assert message.name(done.code) == "2.02"
    assert stage.leased == {}
    [again] = stage.request(message.DELETE, "mq/t", query=queries)
    assert message.name(again.code) == "4.12"


def test_receipt_is_that_of_every_protocol_and_no_endpoint_keeps_it() -> None:
    stage = Stage(amplification=0)
    receipt = Receipt(7, 1_700_000_000_000, 30_000, 0, 0, "broker-a", 3, 7)
    stage.leased[receipt.text()] = receipt
    [done] = stage.request(message.DELETE, "mq/t", query=["group=h", f"receipt={receipt.text()}"])
    assert message.name(done.code) == "2.02"
    command = last(stage.commands, Acknowledge)
    assert (command.group, command.topic, [each.text() for each in command.receipts]) == ("h", "t", [receipt.text()])


@pytest.mark.parametrize(("query", "first"), [([], True), (["from=first"], True), (["from=last"], False)])
def test_where_a_new_group_begins(query: list[str], first: bool) -> None:
    stage = Stage(amplification=0)
    stage.request(message.GET, "mq/t", query=["group=g", *query])
    command = last(stage.commands, Receive)
    assert command.from_first == first


def test_nothing_to_receive() -> None:
    assert message.name(Stage(amplification=0).request(message.GET, "mq/t", query=["group=g"])[0].code) == "4.04"


@pytest.mark.parametrize("query", [[], ["receipt="], ["receipt=1 2 3"]])
def test_settling_without_a_receipt_is_refused(query: list[str]) -> None:
    stage = Stage(amplification=0)
    stage.queue = [stage.publish("t", b"1")]
    stage.request(message.GET, "mq/t", query=["group=g"])
    assert message.name(stage.request(message.DELETE, "mq/t", query=["group=g", *query])[0].code) == "4.00"
    assert len(stage.leased) == 1


def test_large_message_comes_in_blocks_and_is_leased_once() -> None:
    stage = Stage()
    stage.queue = [stage.publish("t", b"x" * 40)]
    [challenge] = stage.request(message.GET, "mq/t", query=["group=g"], pairs=[(option.BLOCK2, b"\x00")])
    assert message.name(challenge.code) == "4.01"
    assert stage.leased == {}, "an address that may be somebody else's gets no lease"
    echo = [(option.ECHO, values(challenge, option.ECHO)[0])]
    [first] = stage.request(message.GET, "mq/t", query=["group=g"], pairs=[*echo, (option.BLOCK2, b"\x00")])
    [second] = stage.request(message.GET, "mq/t", query=["group=g"], pairs=[(option.BLOCK2, b"\x10")])
    [third] = stage.request(message.GET, "mq/t", query=["group=g"], pairs=[(option.BLOCK2, b"\x20")])
    assert first.payload + second.payload + third.payload == b"x" * 40
    assert [len(values(block, option.LOCATION_QUERY)) for block in (first, second, third)] == [2, 0, 0]
    assert len(stage.leased) == 1


def test_message_of_a_format_that_the_client_does_not_accept_goes_back_at_once() -> None:
    stage = Stage(amplification=0)
    stage.queue = [stage.publish("t", b"1", stored=b"HG_CONTENT_TYPE\x01application/json\x02")]
    [answer] = stage.request(message.GET, "mq/t", query=["group=g"], pairs=[(option.ACCEPT, bytes([60]))])
    assert message.name(answer.code) == "4.06"
    assert isinstance(stage.commands[-1], Extend)
    assert stage.leased == {}


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
        ["group=g", "from=middle"],
    ],
)
def test_bad_queries(query: list[str]) -> None:
    assert message.name(Stage().request(message.GET, "mq/t", query=query)[0].code) == "4.00"


def test_group_receives_from_a_whole_topic() -> None:
    assert message.name(Stage().request(message.GET, "mq/t/sub", query=["group=g"])[0].code) == "4.00"
