"""Rights to end a transaction, over gRPC and remoting, each with its own credentials."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator

import grpc
import pytest

from gateway.client.link import Link
from protocols.grpc.messages import messaging_pb2 as pb
from tests.interop.node import Node

pytestmark = pytest.mark.interop

ROOT_PASSWORD = "r00t-and-branch"
TOPIC = "deals"
CONFIGURATION = f"""
durability = "page"
[[access.policies]]
subject = "User:reader"
resource = "Topic:{TOPIC}"
actions = ["Sub"]
[[access.policies]]
subject = "User:reader"
resource = "Topic:other"
actions = ["Pub"]
"""
COMMIT = "8"
"""commitOrRollback of END_TRANSACTION."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with the users root (Super) and reader, who may not send to the topic of the transactions."""
    folder = tmp_path_factory.mktemp("access")
    file = folder / "headgate.toml"
    file.write_text(CONFIGURATION)
    with Node(folder, "--config", str(file), environment={"HEADGATE_ADMIN": f"root:{ROOT_PASSWORD}"}) as running:
        made = {"username": "reader", "password": "only-reads", "userType": "Normal", "userStatus": "enable"}
        assert remoting(running, "root", 3001, {"username": "reader"}, str(made).replace("'", '"').encode()) == 0
        topic = {
            "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
            "topicFilterType": "SINGLE_TAG", "order": "false", "attributes": "+message.type=TRANSACTION",
        }  # fmt: skip
        assert remoting(running, "root", 17, topic) == 0
        yield running


def password(user: str) -> bytes:
    return ROOT_PASSWORD.encode() if user == "root" else b"only-reads"


def remoting(node: Node, user: str, code: int, fields: dict[str, str], body: bytes = b"") -> int:
    """Send one signed request. Returns the code of the answer."""
    signed = {**fields, "AccessKey": user}
    content = b"".join(signed[name].encode() for name in sorted(signed)) + body
    signed["Signature"] = base64.b64encode(hmac.digest(password(user), content, "sha1")).decode()
    link = Link(f"127.0.0.1:{node.port('remoting')}", 10)
    try:
        (reply,) = link.ask([(code, signed, body)])
        return reply.code
    finally:
        link.close()


def call(node: Node, user: str, name: str, request: object, kind: type) -> object:
    """Make one signed gRPC call."""
    date = "20261121T101010Z"
    mac = hmac.digest(password(user), date.encode(), "sha1").hex().upper()
    signature = f"MQv2-HMAC-SHA1 Credential={user}//Rocketmq, SignedHeaders=x-mq-date-time, Signature={mac}"
    metadata = [("x-mq-client-id", f"stub-{user}"), ("x-mq-date-time", date), ("authorization", signature)]
    with grpc.insecure_channel(f"127.0.0.1:{node.port('grpc')}") as channel:
        unary = channel.unary_unary(
            f"/apache.rocketmq.v2.MessagingService/{name}",
            request_serializer=type(request).SerializeToString,  # type: ignore[attr-defined]
            response_deserializer=kind.FromString,  # type: ignore[attr-defined]
        )
        return unary(request, metadata=metadata, timeout=10)


def prepare(node: Node, message_id: str) -> str:
    """Send a half message as root. Returns its transaction id."""
    message = pb.Message(body=b"half")
    message.topic.name = TOPIC
    message.system_properties.message_id = message_id
    message.system_properties.message_type = pb.TRANSACTION
    answer = call(node, "root", "SendMessage", pb.SendMessageRequest(messages=[message]), pb.SendMessageResponse)
    assert isinstance(answer, pb.SendMessageResponse)
    assert answer.status.code == pb.OK
    transaction: str = answer.entries[0].transaction_id
    return transaction


def end(node: Node, user: str, transaction: str, topic: str = TOPIC) -> int:
    request = pb.EndTransactionRequest(transaction_id=transaction, message_id=transaction, resolution=pb.COMMIT)
    request.topic.name = topic
    answer = call(node, user, "EndTransaction", request, pb.EndTransactionResponse)
    assert isinstance(answer, pb.EndTransactionResponse)
    return int(answer.status.code)


def test_grpc_decisions_need_pub_on_the_topic_of_the_half_message(node: Node) -> None:
    transaction = prepare(node, "A" * 32)
    assert end(node, "reader", transaction) == pb.UNAUTHORIZED
    assert end(node, "root", transaction) == pb.OK


def test_remoting_decisions_need_it_whatever_they_say_of_the_message(node: Node) -> None:
    transaction = prepare(node, "B" * 32)
    fields = {
        "producerGroup": TOPIC, "tranStateTableOffset": "", "commitLogOffset": "-1", "commitOrRollback": COMMIT,
        "fromTransactionCheck": "false", "msgId": "X", "transactionId": "X", "topic": "other",
    }  # fmt: skip
    told = [remoting(node, "reader", 37, {**fields, "tranStateTableOffset": str(offset)}) for offset in range(2)]
    assert told[1] == 16, told
    fields |= {"msgId": transaction, "transactionId": transaction, "tranStateTableOffset": "-1"}
    assert remoting(node, "reader", 37, fields) == 16
    assert end(node, "root", transaction) == pb.OK
