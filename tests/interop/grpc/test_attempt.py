"""A plain group through grpcio: a repeated receive gets its messages again, and no delivery is counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.grpc.setup import make_group, make_topic
from tests.interop.grpc.stub_consumer import StubConsumer
from tests.interop.node import Node

pytestmark = pytest.mark.interop
TOPIC, GROUP = "Plain", "plain"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path) as running:
        make_topic(running, TOPIC, "NORMAL")
        make_group(running, GROUP, orderly=False)
        yield running


def test_a_repeated_attempt_gets_the_same_messages_also_from_a_node_that_was_killed(node: Node) -> None:
    with StubConsumer(node, TOPIC, GROUP) as consumer:
        for number in range(6):
            consumer.send(b"%d" % number)
        first = sorted(message.body for message in consumer.attempt("one", 4))
        assert len(first) == 4
        again = consumer.attempt("one", 4)
        assert sorted(message.body for message in again) == first
        assert {message.system_properties.delivery_attempt for message in again} == {1}
    node.kill()
    node.start()
    with StubConsumer(node, TOPIC, GROUP) as consumer:
        latest = consumer.attempt("one", 4)
        assert sorted(message.body for message in latest) == first
        assert {message.system_properties.delivery_attempt for message in latest} == {1}
        others = consumer.attempt("two", 4)
        assert len({message.body for message in others} | set(first)) == 6
