"""Blocking gRPC clients: a producer and a consumer whose calls go over a `Channel`."""

from __future__ import annotations

from collections.abc import Callable

from domain.limits import MILLISECOND_NS
from protocols.grpc.messages import messaging_pb2 as pb
from tests.simulation.channel import Channel
from tests.simulation.world import World


class Publisher(Channel):
    """A producer over gRPC. `space`: its namespace; "": none."""

    def __init__(self, world: World, name: str, topic: str, space: str = "") -> None:
        self.topic, self.space = topic, space
        settings = pb.Settings(client_type=pb.PRODUCER)
        settings.publishing.topics.add(name=topic, resource_namespace=space)
        super().__init__(world, name, settings)
        self._number = 0

    def send(
        self, body: str, kind: int = pb.NORMAL, group: str = "", tag: str = "", key: str = "", **pairs: str
    ) -> pb.SendResultEntry:
        """Send one message. Returns its entry of the answer."""

        def fill(message: pb.Message) -> None:
            system = message.system_properties
            if group:
                system.message_group = group
            if tag:
                system.tag = tag
            if key:
                system.keys.append(key)
            message.user_properties.update(pairs)

        return self.send_message(body.encode(), kind, fill)

    def send_message(self, body: bytes, kind: int, fill: Callable[[pb.Message], None]) -> pb.SendResultEntry:
        """Send one message of a type, with what `fill` adds to it. Returns its entry of the answer."""
        self._number += 1
        message = pb.Message(body=body)
        message.topic.name, message.topic.resource_namespace = self.topic, self.space
        system = message.system_properties
        system.message_id = f"{self.name}{self._number:08}"
        system.message_type = kind  # type: ignore[assignment]
        system.body_encoding = pb.IDENTITY
        system.born_timestamp.FromMilliseconds(self.world.clock.wall_ms())
        system.born_host = "sim"
        fill(message)
        answer = self.call("SendMessage", pb.SendMessageRequest(messages=[message]), pb.SendMessageResponse)
        assert answer.status.code == pb.OK, answer.status.message
        entry: pb.SendResultEntry = answer.entries[0]
        return entry

    def end(self, message_id: str, transaction_id: str, commit: bool) -> int:
        """End a transaction. Returns the code of the answer."""
        request = pb.EndTransactionRequest(message_id=message_id, transaction_id=transaction_id)
        request.topic.name = self.topic
        request.resolution = pb.COMMIT if commit else pb.ROLLBACK
        return int(self.call("EndTransaction", request, pb.EndTransactionResponse).status.code)

    def questions(self) -> list[pb.RecoverOrphanedTransactionCommand]:
        """Check-backs since the last call."""
        asked = [each.recover_orphaned_transaction_command for each in self.notified
                 if each.HasField("recover_orphaned_transaction_command")]  # fmt: skip
        self.notified.clear()
        return asked


class Receiver(Channel):
    """A consumer over gRPC of any client type."""

    def __init__(
        self, world: World, name: str, group: str, topic: str, kind: int = pb.SIMPLE_CONSUMER, expression: str = "*",
        sql: bool = False, space: str = "",
    ) -> None:  # fmt: skip
        self.group, self.topic, self.space = group, topic, space
        self.filter = pb.FilterExpression(type=pb.SQL if sql else pb.TAG, expression=expression)
        self.renewed = kind == pb.PUSH_CONSUMER
        settings = pb.Settings(client_type=kind)  # type: ignore[arg-type]
        settings.request_timeout.seconds = 3
        settings.subscription.group.CopyFrom(self._named(group))
        entry = settings.subscription.subscriptions.add(topic=self._named(topic))
        entry.expression.CopyFrom(self.filter)
        super().__init__(world, name, settings)

    def _named(self, name: str) -> pb.Resource:
        return pb.Resource(name=name, resource_namespace=self.space)

    def beat(self) -> None:
        """Send a heartbeat."""
        request = pb.HeartbeatRequest(client_type=pb.PUSH_CONSUMER if self.renewed else pb.SIMPLE_CONSUMER)
        request.group.CopyFrom(self._named(self.group))
        self.call("Heartbeat", request, pb.HeartbeatResponse)

    def receive(
        self, wait_ms: int = 5_000, invisible_ms: int = 60_000, most: int = 32, attempt: str = "", queue: int = -1
    ) -> list[pb.Message]:
        """Receive. The server waits at least 5 s. A lease lasts at least 10 s; the server decides if it renews it."""
        request = pb.ReceiveMessageRequest(batch_size=most, auto_renew=self.renewed)
        request.group.CopyFrom(self._named(self.group))
        request.message_queue.topic.CopyFrom(self._named(self.topic))
        request.message_queue.id = queue
        request.message_queue.broker.name = "broker-a"
        request.filter_expression.CopyFrom(self.filter)
        request.long_polling_timeout.FromMilliseconds(wait_ms)
        if attempt:
            request.attempt_id = attempt
        if not self.renewed:
            request.invisible_duration.FromMilliseconds(invisible_ms)
        found = self.stream("ReceiveMessage", request, pb.ReceiveMessageResponse)
        told = [each.status.code for each in found if each.HasField("status")]
        assert told[0] in (pb.OK, pb.MESSAGE_NOT_FOUND), found
        return [each.message for each in found if each.HasField("message")]

    def ack(self, message: pb.Message) -> int:
        """Settle. Returns the code of the entry."""
        request = pb.AckMessageRequest(group=self._named(self.group), topic=self._named(self.topic))
        request.entries.add(
            message_id=message.system_properties.message_id, receipt_handle=message.system_properties.receipt_handle
        )
        return int(self.call("AckMessage", request, pb.AckMessageResponse).entries[0].status.code)

    def change(self, message: pb.Message, invisible_ms: int) -> int:
        """Change the end of the lease. Returns the code and stores the new handle in the message."""
        request = pb.ChangeInvisibleDurationRequest(
            receipt_handle=message.system_properties.receipt_handle, message_id=message.system_properties.message_id
        )
        request.group.CopyFrom(self._named(self.group))
        request.topic.CopyFrom(self._named(self.topic))
        request.invisible_duration.FromNanoseconds(invisible_ms * MILLISECOND_NS)
        answer = self.call("ChangeInvisibleDuration", request, pb.ChangeInvisibleDurationResponse)
        if answer.receipt_handle:
            message.system_properties.receipt_handle = answer.receipt_handle
        return int(answer.status.code)


def said(messages: list[pb.Message]) -> list[str]:
    """The bodies of the messages, as text."""
    return [message.body.decode() for message in messages]
