"""One peer asks for many large answers in one segment: a turn makes few of them, and neighbours do not wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from domain import limits
from domain.admin.message import MessagesFound
from domain.errors import Failure
from domain.event import Event, Pulled, Received
from gateway.usecase.consume.read_turns import BYTES_PER_TURN
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.remoting import codes
from tests.neighbours.grpc_peer import GrpcPeer
from tests.neighbours.node import SharedNode
from tests.neighbours.socket import PeerStream
from tests.neighbours.test_http import post
from tests.neighbours.test_remoting import request as frame

MESSAGES = 32
BODY = b"x" * 100_000
CONNECTIONS = 4
REQUESTS = 12
"""Requests of one connection: they fit its first slice."""
TURN_BYTES_MAX = 2 * (BYTES_PER_TURN + limits.PULL_BYTES_MAX)
"""Bytes of messages that one turn answers with: those of the last read come on top. A simulated turn is parts of two real ones:
timers that its sockets set run in it.
"""

PULL_FIELDS = {
    "consumerGroup": "bad", "topic": "fat", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4",
    "maxMsgBytes": "4194304", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*",
    "expressionType": "TAG",
}  # fmt: skip
PULLS = {
    "HTTP": ("http", b"GET /v1/topics/fat/queues/0?max=32 HTTP/1.1\r\nHost: n\r\n\r\n" * REQUESTS),
    "remoting": ("remoting", frame(codes.PULL, 1, PULL_FIELDS) * REQUESTS),
}


@pytest.fixture
def node() -> Iterator[SharedNode]:
    with SharedNode() as made:
        yield made


def fill(node: SharedNode, batches: int = 1) -> None:
    """Store MESSAGES large messages in one queue, `batches` times."""
    for _ in range(batches):
        sender = node.connect("http", "10.0.0.8")
        sender.send(post("/v1/topics/fat/messages", BODY, "mq-queue: 0") * MESSAGES)
        for _ in range(400):
            node.turn()
            if sender.received.count(b"HTTP/1.1 20") == MESSAGES:
                break
        assert sender.received.count(b"HTTP/1.1 20") == MESSAGES
        sender.hang_up()


class CountingDriver:
    """Hands the answers of a connection on to its pump, and counts the bytes of their messages."""

    def __init__(self, stream: PeerStream, counted: list[int]) -> None:
        self._pump = stream.pump
        self._counted = counted
        self._pump.client.driver = self

    def answer(self, event: Event) -> None:
        if isinstance(event, Pulled):
            self._counted[0] += sum(map(len, event.records))
        elif isinstance(event, Received):
            self._counted[0] += sum(len(leased.record) for leased in event.messages)
        elif isinstance(event, MessagesFound):
            self._counted[0] += sum(map(len, event.records))
        self._pump.answer(event)

    def close(self) -> None:
        self._pump.close()

    def throttle(self, until_ns: int) -> None:
        self._pump.throttle(until_ns)

    def revoke_access(self, failure: Failure) -> None:
        self._pump.revoke_access(failure)


def answered(node: SharedNode, peers: list[PeerStream], turns: int) -> tuple[int, int]:
    """(most bytes of messages that one of the next `turns` turns has answered the peers with, bytes in all)."""
    counted, most, whole = [0], 0, 0
    for peer in peers:
        CountingDriver(peer, counted)
    for _ in range(turns):
        counted[0] = 0
        node.run(1).check()
        most = max(most, counted[0])
        whole += counted[0]
    return most, whole


@pytest.mark.parametrize("kind", PULLS)
@pytest.mark.parametrize("reads", [True, False])
def test_many_large_pulls_come_in_one_segment(node: SharedNode, kind: str, reads: bool) -> None:
    listener, data = PULLS[kind]
    fill(node)
    peers = [node.connect(listener) for _ in range(CONNECTIONS)]
    node.run(5)
    for peer in peers:
        peer.reads = reads
        peer.send(data)
    most, whole = answered(node, peers, 3 * CONNECTIONS * REQUESTS)
    assert most <= TURN_BYTES_MAX
    assert whole >= MESSAGES * len(BODY) * (CONNECTIONS * REQUESTS if reads else CONNECTIONS), (most, whole)


def test_many_large_receives_come_in_one_segment(node: SharedNode) -> None:
    fill(node, batches=4)
    peers = [node.connect("http") for _ in range(CONNECTIONS)]
    node.run(5)
    for peer in peers:
        peer.send(b"POST /v1/groups/bad/topics/fat:receive?max=32 HTTP/1.1\r\nHost: n\r\nContent-Length: 0\r\n\r\n" * 3)
    most, whole = answered(node, peers, 120)
    assert most <= TURN_BYTES_MAX
    assert whole >= 4 * MESSAGES * len(BODY)


def test_many_large_polls_of_grpc_come_in_one_segment(node: SharedNode) -> None:
    fill(node, batches=4)
    peer = GrpcPeer(node)
    poll = pb.ReceiveMessageRequest(batch_size=32)
    poll.group.name = "bad"
    poll.message_queue.topic.name = "fat"
    poll.invisible_duration.seconds = 30
    for _ in range(8):
        peer.call("ReceiveMessage", poll, wait=False)
    peer.stream.send(peer.take_output())
    most, whole = answered(node, [peer.stream], 120)
    assert most <= TURN_BYTES_MAX
    assert whole >= 4 * MESSAGES * len(BODY)
