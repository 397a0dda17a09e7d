"""One CoAP peer makes, subscribes to and ends topics of the publish-subscribe draft; the neighbours are answered as before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from protocols.coap.message import cbor, message, option
from tests.gateway.pubsub.book import book_of
from tests.neighbours.node import SharedNode
from tests.neighbours.test_coap import HOST, acknowledge, request

KIND = "core.ps.data"
PORTS = 200


@pytest.fixture
def node() -> Iterator[SharedNode]:
    with SharedNode() as made:
        yield made


def make(node: SharedNode, name: str) -> str:
    """The id of a new topic, which has data."""
    body = cbor.encode({0: name, 2: KIND, 3: 0, 8: b"first"})
    node.datagram(request(message.CON, message.POST, 1, "ps", body), port=3_000)
    for _ in range(100):  # compiled, turns are short: a sync takes more of them
        node.run(5)
        if (HOST, 3_000) in node.datagrams.last:
            break
    packet = message.decode(node.datagrams.last[(HOST, 3_000)])
    assert packet is not None
    return [value for number, value in packet.options if number == option.LOCATION_PATH][1].decode()


@pytest.mark.parametrize("end", ["data", "topic"])
def test_thousands_of_subscribers_and_the_end_of_their_topic(node: SharedNode, end: str) -> None:
    identity = make(node, "t/many")
    path = f"ps/data/{identity}"
    for number in range(1_600):
        port = 5_000 + number % PORTS
        pairs = ((option.OBSERVE, b""),)
        node.datagram(
            request(message.CON, message.GET, number // PORTS, path, b"", number.to_bytes(3, "big"), pairs), port=port
        )
        if number % 400 == 399:
            node.run(4).check()
            for each in range(PORTS):
                acknowledge(node, 5_000 + each)
    node.run(10).check()
    assert book_of(node.parts).subscribers.count >= PORTS
    node.datagram(request(message.CON, message.DELETE, 2, path if end == "data" else f"ps/{identity}"), port=3_000)
    for _ in range(20):
        node.run(3).check()
        for each in range(PORTS):
            acknowledge(node, 5_000 + each)
    assert book_of(node.parts).subscribers.count == 0


def test_topics_without_end_are_bounded_and_listed_in_turns(node: SharedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.pubsub.quota.TOPICS_MAX", 500)
    for number in range(350):
        body = cbor.encode({0: f"t/{number:04}" + "x" * 490, 2: KIND, 3: 0, 8: bytes(2_000)})
        node.datagram(request(message.CON, message.POST, number, "ps", body), port=6_000 + number % 50)
        if number % 100 == 99:
            node.run(4).check()
    book = book_of(node.parts)
    assert book is not None
    while len(book) + book.refused < 350:
        node.run(4).check()
    assert (len(book), book.refused) == (250, 100), "one host has half"
    for number in range(200):
        node.datagram(request(message.CON, message.GET, number, "ps", pairs=((option.URI_QUERY, b"topic-name=t*"),)))
        node.datagram(request(message.CON, message.FETCH, number, "ps", cbor.encode({3: 0})), port=7_000)
        if number % 50 == 49:
            node.run(3).check()
