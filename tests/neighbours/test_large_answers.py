"""One peer asks for many large answers in one segment: a turn makes few of them, and neighbours do not wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from domain import limits
from domain.admin.group import PutGroup
from domain.admin.message import MessagesFound
from domain.admin.topic import PutTopic
from domain.command import Command, Send
from domain.errors import Failure
from domain.event import Event, LatestValue, Pulled, Received
from domain.message.message import Message
from domain.topic import attribute
from domain.topic.lite import LiteAction, ReceiveLite, SyncSubscription
from domain.topic.topic import Group, Topic
from domain.turn import READ_BYTES
from gateway.connection.client_connection import ClientConnection
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.remoting import codes
from tests.neighbours.grpc_peer import GrpcPeer, Operator
from tests.neighbours.node import SharedNode
from tests.neighbours.socket import PeerStream
from tests.neighbours.test_http import post
from tests.neighbours.test_remoting import request as frame

MESSAGES = 32
BODY = b"x" * 100_000
VALUE = b"x" * 1_000_000
CONNECTIONS = 4
REQUESTS = 12
"""Requests of one connection: they fit its first slice."""
TURN_BYTES_MAX = 2 * (READ_BYTES + limits.PULL_BYTES_MAX)
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
        elif isinstance(event, LatestValue) and event.record is not None:
            self._counted[0] += len(event.record)
        elif isinstance(event, MessagesFound):
            self._counted[0] += sum(map(len, event.records))
        self._pump.driver.answer(event)

    def close(self) -> None:
        self._pump.driver.close()

    def throttle(self, until_ns: int) -> None:
        self._pump.driver.throttle(until_ns)

    def revoke_access(self, failure: Failure) -> None:
        self._pump.driver.revoke_access(failure)


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
    most, whole = answered(node, peers, 6 * CONNECTIONS * REQUESTS)
    assert most <= TURN_BYTES_MAX, (most, whole)
    assert whole >= MESSAGES * len(BODY) * (CONNECTIONS * REQUESTS if reads else CONNECTIONS), (most, whole)


def test_many_large_receives_come_in_one_segment(node: SharedNode) -> None:
    fill(node, batches=4)
    peers = [node.connect("http") for _ in range(CONNECTIONS)]
    node.run(5)
    for peer in peers:
        peer.send(b"POST /v1/groups/bad/topics/fat:receive?max=32 HTTP/1.1\r\nHost: n\r\nContent-Length: 0\r\n\r\n" * 3)
    most, whole = answered(node, peers, 120)
    assert most <= TURN_BYTES_MAX, (most, whole)
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
    assert most <= TURN_BYTES_MAX, (most, whole)
    assert whole >= 4 * MESSAGES * len(BODY)


def test_many_large_latest_values_come_in_one_segment(node: SharedNode) -> None:
    sender = node.connect("http", "10.0.0.8")
    sender.send(post("/v1/topics/fat/messages", VALUE, "mq-retain: true"))
    for _ in range(100):
        node.turn()
    peers = [node.connect("http") for _ in range(CONNECTIONS)]
    node.run(5)
    for peer in peers:
        peer.send(b"GET /v1/latest/fat HTTP/1.1\r\nHost: n\r\n\r\n" * REQUESTS)
    most, whole = answered(node, peers, 4 * CONNECTIONS * REQUESTS)
    assert most <= TURN_BYTES_MAX, (most, whole)
    assert whole >= CONNECTIONS * REQUESTS * len(VALUE)


class LiteClient:
    """A client of one lite topic, which asks by commands. `size`: bytes of the messages that it has received."""

    def __init__(self, node: SharedNode, number: int) -> None:
        self._node = node
        self._name = f"l{number}"
        self._connection = ClientConnection("test", self)  # type: ignore[arg-type]
        self.size = 0
        self._ask(SyncSubscription(1, self._name, "lite", "parent", LiteAction.PARTIAL_ADD, [self._name]))

    def _ask(self, command: Command) -> None:
        self._node.parts.gate.handle(self._connection, command)

    def fill(self) -> None:
        """Send a large message to the lite topic."""
        self._ask(Send(2, [Message("parent", VALUE, f"__LITE_TOPIC\x01{self._name}\x02".encode())], wait=False))

    def receive(self) -> None:
        """Ask for it."""
        self._ask(ReceiveLite(3, self._name, "lite", "parent", 32, 30_000, 0))

    def answer(self, event: Event) -> None:
        """An event of the node."""
        if isinstance(event, Received):
            self.size += sum(len(leased.record) for leased in event.messages)


def test_many_large_receives_of_lite_topics_come_together(node: SharedNode) -> None:
    operator = Operator(node)
    operator.ask(PutTopic(1, Topic("parent", 1, 1, type="LITE")))
    operator.ask(PutGroup(2, Group("lite", attributes={attribute.BIND_TOPIC: "parent", attribute.CLIENT_QUOTA: "-1"})))
    clients = [LiteClient(node, number) for number in range(4 * CONNECTIONS)]
    for client in clients:
        client.fill()
        for _ in range(20):
            node.turn()
    for client in clients:
        client.receive()
    most = before = 0
    for _ in range(200):
        node.turn()
        whole = sum(client.size for client in clients)
        most, before = max(most, whole - before), whole
    assert most <= TURN_BYTES_MAX
    assert whole >= len(clients) * len(VALUE)
