"""An orderly group through grpcio: a repeated attempt gets the same messages again, also from a node that was killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocols.grpc.messages import messaging_pb2 as pb
from tests.interop.grpc.setup import make_group, make_topic
from tests.interop.grpc.stub_consumer import StubConsumer, bodies
from tests.interop.node import Node

pytestmark = pytest.mark.interop
TOPIC, GROUP = "Ordered", "ordered"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path) as running:
        make_topic(running, TOPIC, "FIFO")
        make_group(running, GROUP, orderly=True)
        yield running


def test_a_repeated_attempt_gets_the_same_and_nobody_else_what_follows(node: Node) -> None:
    with StubConsumer(node, TOPIC, GROUP) as consumer:
        for number in range(3):
            consumer.send(b"%d" % number, "A")
        first = consumer.attempt("one", 2)
        assert bodies(first) == [b"0", b"1"]
        again = consumer.attempt("one", 2)
        assert bodies(again) == [b"0", b"1"], "its answer may have been lost"
        assert [each.system_properties.delivery_attempt for each in again] == [1, 1]
        assert consumer.attempt("two", 2) == []
        assert consumer.acknowledge(first) == [pb.INVALID_RECEIPT_HANDLE] * 2, "it is the answer that came which counts"
    node.kill()
    node.start()
    with StubConsumer(node, TOPIC, GROUP) as consumer:
        assert consumer.attempt("two", 2) == []
        latest = consumer.attempt("one", 2)
        assert bodies(latest) == [b"0", b"1"]
        assert consumer.acknowledge(latest) == [pb.OK, pb.OK]
        assert bodies(consumer.attempt("two", 2)) == [b"2"]


def test_a_message_group_that_waits_holds_back_no_other(node: Node) -> None:
    with StubConsumer(node, TOPIC, GROUP) as consumer:
        for number in range(4):
            for name in ("A", "B", "C"):
                consumer.send(name.encode() + b"%d" % number, name)
        stuck = consumer.attempt("slow", 1)
        message_group = stuck[0].body[:1]
        seen: list[bytes] = []
        for turn in range(40):
            found = consumer.attempt(f"turn{turn}", 4)
            seen += bodies(found)
            if found:
                assert set(consumer.acknowledge(found)) == {pb.OK}
            if len(seen) == 8:
                break
        assert not [body for body in seen if body.startswith(message_group)]
        for other in {b"A", b"B", b"C"} - {message_group}:
            assert [body for body in seen if body.startswith(other)] == [other + b"%d" % number for number in range(4)]
        assert consumer.acknowledge(stuck) == [pb.OK]
        assert bodies(consumer.attempt("last", 4)) == [message_group + b"%d" % number for number in range(1, 4)]
