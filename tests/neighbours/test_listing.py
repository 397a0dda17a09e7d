"""Questions about all topics, groups and queues of a node that has thousands: asked again and again they delay nobody."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest

from domain.topic.topic import Group, Topic
from protocols.remoting import codes
from protocols.remoting.wire.frame import FrameDecoder, encode
from protocols.remoting.wire.header import JSON
from tests.neighbours.node import SharedNode

COUNT = 3_000
QUEUES = 4
ASKED = 50
"""Questions that one connection sends at once."""
FIELDS = {"topic": "topic-1", "group": "group-1", "consumerGroup": "group-1", "cluster": "DefaultCluster"}
LISTINGS = {
    "topics": codes.GET_ALL_TOPICS,
    "names": codes.GET_TOPICS,
    "cluster": codes.GET_TOPICS_OF_CLUSTER,
    "system": codes.GET_BROKER_SYSTEM_TOPICS,
    "units": codes.GET_UNIT_TOPICS,
    "groups": codes.GET_ALL_GROUPS,
    "consumers": codes.GET_CONSUMERS,
    "consumed": codes.GET_CONSUMED,
    "backlog": codes.GET_BACKLOG,
    "offsets": codes.GET_ALL_OFFSETS,
    "progress": codes.GET_PROGRESS,
}


@pytest.fixture(scope="module")
def node() -> Iterator[SharedNode]:
    with SharedNode() as made:
        store = made.parts.store
        for number in range(COUNT):
            store.metadata.put_topic(Topic(f"topic-{number}", QUEUES, QUEUES), lambda _: None)
            store.metadata.put_group(Group(f"group-{number}"), lambda _: None)
        made.run(60)
        store.positions.commit("group-1", [(f"topic-{number}", 0, 0) for number in range(COUNT)], lambda _: None)
        made.run(60)
        assert store.metadata.topic_count() > COUNT
        yield made


def request(code: int, fields: dict[str, str] | None = None) -> bytes:
    return encode(code, 1, fields=FIELDS if fields is None else fields, serialize=JSON)


def carry(node: SharedNode, turns: int) -> None:
    node.run(turns).check()


@pytest.mark.parametrize("name", LISTINGS)
def test_listings_asked_again_and_again_take_many_turns(node: SharedNode, name: str) -> None:
    fields = {**FIELDS, "topic": ""} if name == "progress" else None
    streams = [node.connect("remoting") for _ in range(4)]
    for stream in streams:
        stream.send(request(LISTINGS[name], fields) * ASKED)
    carry(node, 40)
    for _ in range(40):
        if streams[0].taken:
            break
        carry(node, 40)
    assert streams[0].taken
    for stream in streams:
        stream.hang_up(reset=True)
    carry(node, 10)


def test_an_answer_has_every_topic_once(node: SharedNode) -> None:
    decoder = FrameDecoder()
    stream = node.connect("nameserver")
    stream.send(request(codes.GET_TOPICS))
    received = b""
    for _ in range(400):
        node.run(1)
        received += bytes(stream.received)
        stream.received.clear()
        frames = decoder.feed(received)
        received = b""
        if frames:
            break
    [frame] = frames
    for number in (0, 1, 2_999):
        assert frame.body.count(b'"topic-%d"' % number) == 1
    assert frame.body.count(b'"topic-') == COUNT


def test_listings_that_are_not_read_are_written_one_by_one(node: SharedNode) -> None:
    stream = node.connect("remoting")
    stream.reads = False
    stream.send(request(codes.GET_ALL_TOPICS) * ASKED)
    for _ in range(10):
        carry(node, 40)
    assert stream.unread < 16 * 1024 * 1024
    stream.hang_up(reset=True)
    carry(node, 10)


def test_the_queues_of_a_wide_topic_are_asked_in_slices() -> None:
    count = 65_536
    with SharedNode() as node:
        node.parts.store.metadata.put_topic(Topic("wide", count, count), lambda _: None)
        node.run(20)
        stream = node.connect("http")
        stream.kept_bytes = 1 << 30
        stream.send(b"GET /v1/topics/wide/queues HTTP/1.1\r\nHost: n\r\n\r\n")
        for _ in range(200):
            carry(node, 40)
            if stream.taken:
                break
        carry(node, 10)
        queues = orjson.loads(bytes(stream.received).partition(b"\r\n\r\n")[2])["queues"]
        assert [each["queue"] for each in queues] == list(range(count))
