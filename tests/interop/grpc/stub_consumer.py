"""One topic and one group through grpcio: sends, receives that can be repeated, acknowledgements."""

from __future__ import annotations

from types import TracebackType

import grpc

from protocols.grpc.messages import messaging_pb2 as pb
from tests.interop.grpc.test_stub import METADATA, SERVICE, method
from tests.interop.node import Ports


class StubConsumer:
    """A connection of its own, for a `with` statement."""

    def __init__(self, node: Ports, topic: str, group: str) -> None:
        self.topic = pb.Resource(name=topic)
        self.group = pb.Resource(name=group)
        self._channel = grpc.insecure_channel(f"127.0.0.1:{node.port('grpc')}")

    def __enter__(self) -> StubConsumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def send(self, body: bytes, message_group: str = "") -> None:
        """Send one message; with a message group it is of type FIFO."""
        message = pb.Message(topic=self.topic, body=body)
        message.system_properties.message_id = f"ID-{message_group}-{body.decode()}"
        message.system_properties.message_type = pb.FIFO if message_group else pb.NORMAL
        if message_group:
            message.system_properties.message_group = message_group
        answer = method(self._channel, "SendMessage", pb.SendMessageResponse)(pb.SendMessageRequest(messages=[message]))
        assert answer.status.code == pb.OK, answer

    def attempt(self, name: str, most: int) -> list[pb.Message]:
        """Receive, with an attempt id."""
        request = pb.ReceiveMessageRequest(batch_size=most, attempt_id=name, group=self.group)
        request.filter_expression.type = pb.TAG
        request.filter_expression.expression = "*"
        request.message_queue.topic.CopyFrom(self.topic)
        request.message_queue.id = -1
        request.invisible_duration.seconds = 60
        request.long_polling_timeout.nanos = 500_000_000
        call = self._channel.unary_stream(
            SERVICE + "ReceiveMessage",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=pb.ReceiveMessageResponse.FromString,
        )
        parts = call(request, metadata=METADATA, timeout=20)
        return [part.message for part in parts if part.WhichOneof("content") == "message"]

    def acknowledge(self, messages: list[pb.Message]) -> list[int]:
        """Acknowledge; returns a code for each message."""
        request = pb.AckMessageRequest(group=self.group, topic=self.topic)
        for message in messages:
            system = message.system_properties
            request.entries.add(message_id=system.message_id, receipt_handle=system.receipt_handle)
        answer = method(self._channel, "AckMessage", pb.AckMessageResponse)(request)
        return [entry.status.code for entry in answer.entries]


def bodies(messages: list[pb.Message]) -> list[bytes]:
    """The bodies of messages."""
    return [message.body for message in messages]
