"""Messages without a body at brokers that store none: sent with a marked body, read without it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.message import property as properties
from domain.message import record
from domain.message.message import Message
from domain.message.record import Record
from domain.store.store_request import KeyQuery
from gateway.brokers.empty_body import MARKED_BODY, restored, sendable
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame
from tests.gateway.apache.scripted_cluster import Reply
from tests.gateway.brokers.test_message_log import World
from tests.store.driver import sure

MARK = b"IS_EMPTY_MSG\x01true\x02"


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("props", [b"", b"KEYS\x01k\x02", b"KEYS\x01k", b"KEYS\x01\xff\x02"])
def test_a_message_without_a_body_is_stored_and_read_as_it_was_sent(world: World, props: bytes) -> None:
    """Also in a batch of one, in which properties go that are no text."""
    sure(world.append(world.message(b"", props=props)))
    [kept] = world.queues["broker-a"].records[0]
    assert Record(kept).body == MARKED_BODY
    assert Record(kept).properties == properties.terminated(props) + MARK
    [read] = sure(world.read(0, 0)).records
    assert record.check(read)
    assert (Record(read).body, Record(read).properties) == (b"", properties.terminated(props))


def test_it_is_stored_in_a_batch_with_others(world: World) -> None:
    sure(world.append(world.message(b"a"), world.message(b""), world.message(b"b")))
    assert [Record(each).body for each in world.queues["broker-a"].records[0]] == [b"a", MARKED_BODY, b"b"]
    found = sure(world.read(0, 0)).records
    assert [Record(each).body for each in found] == [b"a", b"", b"b"]
    assert all(record.check(each) and not Record(each).properties for each in found)


def test_it_is_found_by_its_key(world: World) -> None:
    sure(world.append(world.message(b"", props=b"KEYS\x01k\x02")))

    def answer(_: Frame) -> Reply:
        return codes.SUCCESS, {"a": "b"}, b"".join(world.queues["broker-a"].records[0])

    for server in world.cluster.brokers.values():
        server.on(codes.QUERY_MESSAGE, answer)
    found = sure(world.driver.call(world.log.find, KeyQuery("T", "k", 10, 0, 1 << 60, 1 << 20, False)))
    assert {Record(each).body for each in found} == {b""}


@given(
    st.binary(max_size=20),
    st.binary(max_size=40).map(lambda data: data.replace(b"\x01", b"").replace(b"\x02", b"")),
    st.sampled_from(["t", "t" * 200]),
    st.sampled_from([b"\x7f\x00\x00\x01\x00\x00\x01\x00", bytes(20)]),
)
def test_every_message_comes_back_as_it_was(body: bytes, value: bytes, topic: str, host: bytes) -> None:
    stored = b"A\x01" + value + b"\x02" if value else b""
    message = Message(topic, body, stored, queue_id=3, born_ms=5, born_host=host, flag=-1)
    wanted = record.encode(message, 7, 9, 11, host)
    message.body, message.properties = sendable(message)
    assert restored(record.encode(message, 7, 9, 11, host)) == wanted


@pytest.mark.parametrize(
    ("body", "stored"),
    [(MARKED_BODY, b""), (b"x", MARK), (MARKED_BODY, b"IS_EMPTY_MSG\x01false\x02"), (MARKED_BODY, b"A\x01" + MARK)],
)
def test_only_mark_and_body_together_are_a_message_without_a_body(body: bytes, stored: bytes) -> None:
    data = record.encode(Message("t", body, stored), 0, 0, 0, bytes(8))
    assert restored(data) is data
