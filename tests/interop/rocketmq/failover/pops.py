"""Receives, acknowledgements and changes of leases by gRPC and by HTTP, each at any of several places.

A place has ports: a gateway, or for gRPC Apache's own proxy.
"""

from __future__ import annotations

import base64
import json
import queue
import time
import urllib.error
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

import grpc

from protocols.grpc.messages import messaging_pb2 as pb
from tests.interop.grpc.test_stub import SERVICE
from tests.interop.http_api import LOST, call
from tests.interop.node import Ports
from tests.interop.rocketmq.failover.leases import Answer

INVISIBLE_S: Final = 10
"""The shortest lease of gRPC clients, at gateways as at Apache's proxy."""
WAIT_S: Final = 0.3
"""Of a receive that finds nothing: short, as a lease may begin at any time within."""
MOST: Final = 8
CALL_S: Final = 15.0


class Received(NamedTuple):
    """A message as it arrived.

    answered_s  when it was there
    """

    message_id: str
    receipt: str
    body: str
    answered_s: float


class Pop(Protocol):
    """The calls of a consumer; `at`: the number of the place. What fails for want of an answer is ConnectionError."""

    def receive(self, at: int) -> list[Received]:
        """Lease at most MOST messages for INVISIBLE_S."""

    def acknowledge(self, at: int, received: Received) -> Answer:
        """Settle a message."""

    def change(self, at: int, received: Received) -> tuple[Answer, str]:
        """Lease it for INVISIBLE_S from now on. Returns the receipt from then on, too."""

    def close(self) -> None:
        """End the connections."""


class HttpPop:
    """At gateways."""

    def __init__(self, gateways: Sequence[Ports], topic: str, group: str) -> None:
        self._gateways = gateways
        self._path = f"/v1/groups/{group}/topics/{topic}"

    def receive(self, at: int) -> list[Received]:
        query = f"max={MOST}&wait_ms={WAIT_S * 1e3:.0f}&invisible_ms={INVISIBLE_S * 1_000}"
        found = self._call(at, f"receive?{query}", b"")
        now = time.monotonic()
        return [
            Received(each["id"], each["receipt"], base64.b64decode(each["body"]).decode(), now)
            for each in (found or {"messages": []})["messages"]
        ]

    def acknowledge(self, at: int, received: Received) -> Answer:
        return self._settle(at, "ack", received)[0]

    def change(self, at: int, received: Received) -> tuple[Answer, str]:
        answer, result = self._settle(at, "extend", received, invisible_ms=INVISIBLE_S * 1_000)
        return answer, result.get("next", received.receipt)

    def close(self) -> None:
        return

    def _settle(self, at: int, verb: str, received: Received, **more: int) -> tuple[Answer, dict[str, Any]]:
        [result] = self._call(at, verb, json.dumps({"receipts": [received.receipt], **more}).encode())["results"]
        if result["ok"]:
            return Answer.DONE, result
        refused = result.get("code") in ("receipt-expired", "receipt-invalid")
        return Answer.REFUSED if refused else Answer.NONE, result

    def _call(self, at: int, verb: str, body: bytes) -> Any:
        try:
            return call(self._gateways[at], f"{self._path}:{verb}", body)
        except urllib.error.HTTPError as error:
            raise ConnectionError(f"{error}: {error.read()[:200]!r}") from error
        except LOST as error:
            raise ConnectionError(str(error)) from error


class GrpcPop:
    """At gateways, or at Apache's proxies. Each place is told the settings of a simple consumer, as by SDKs."""

    def __init__(self, places: Sequence[Ports], topic: str, group: str) -> None:
        self._where = places
        self._topic, self._group = pb.Resource(name=topic), pb.Resource(name=group)
        self._metadata = (
            ("x-mq-client-id", f"pop-{uuid.uuid4().hex}"), ("x-mq-language", "PYTHON"), ("x-mq-client-version", "5.1.2"),
        )  # fmt: skip
        self._channels: dict[int, tuple[grpc.Channel, queue.Queue[pb.TelemetryCommand | None]]] = {}

    def receive(self, at: int) -> list[Received]:
        request = pb.ReceiveMessageRequest(batch_size=MOST, attempt_id=uuid.uuid4().hex, group=self._group)
        request.filter_expression.type = pb.TAG
        request.filter_expression.expression = "*"
        request.message_queue.topic.CopyFrom(self._topic)
        request.message_queue.id = -1
        request.invisible_duration.seconds = INVISIBLE_S
        request.long_polling_timeout.nanos = int(WAIT_S * 1e9)
        found = []
        try:
            parts = self._channel(at).unary_stream(
                SERVICE + "ReceiveMessage", request_serializer=pb.ReceiveMessageRequest.SerializeToString,
                response_deserializer=pb.ReceiveMessageResponse.FromString,
            )(request, metadata=self._metadata, timeout=CALL_S)  # fmt: skip
            for part in parts:
                if part.WhichOneof("content") == "message":
                    system = part.message.system_properties
                    body = part.message.body.decode()
                    found.append(Received(system.message_id, system.receipt_handle, body, time.monotonic()))
        except grpc.RpcError as error:
            self._end(at)
            if not found:
                raise ConnectionError(str(error)) from error
        return found

    def acknowledge(self, at: int, received: Received) -> Answer:
        request = pb.AckMessageRequest(group=self._group, topic=self._topic)
        request.entries.add(message_id=received.message_id, receipt_handle=received.receipt)
        answer = self._unary(at, "AckMessage", request, pb.AckMessageResponse)
        return _answer_of(answer.entries[0].status.code if answer.entries else answer.status.code)

    def change(self, at: int, received: Received) -> tuple[Answer, str]:
        request = pb.ChangeInvisibleDurationRequest(
            group=self._group, topic=self._topic, receipt_handle=received.receipt, message_id=received.message_id
        )
        request.invisible_duration.seconds = INVISIBLE_S
        answer = self._unary(at, "ChangeInvisibleDuration", request, pb.ChangeInvisibleDurationResponse)
        return _answer_of(answer.status.code), answer.receipt_handle or received.receipt

    def close(self) -> None:
        for at in list(self._channels):
            self._end(at)

    def _unary(self, at: int, name: str, request: Any, kind: Any) -> Any:
        try:
            stub = self._channel(at).unary_unary(
                SERVICE + name, request_serializer=type(request).SerializeToString, response_deserializer=kind.FromString
            )
            return stub(request, metadata=self._metadata, timeout=CALL_S)
        except grpc.RpcError as error:
            self._end(at)
            raise ConnectionError(str(error)) from error

    def _channel(self, at: int) -> grpc.Channel:
        if at not in self._channels:
            channel = grpc.insecure_channel(f"127.0.0.1:{self._where[at].port('grpc')}")
            commands: queue.Queue[pb.TelemetryCommand | None] = queue.Queue()
            commands.put(pb.TelemetryCommand(settings=self._settings()))
            stream = channel.stream_stream(
                SERVICE + "Telemetry", request_serializer=pb.TelemetryCommand.SerializeToString,
                response_deserializer=pb.TelemetryCommand.FromString,
            )(_until_none(commands), metadata=self._metadata)  # fmt: skip
            self._channels[at] = channel, commands
            while next(stream).WhichOneof("command") != "settings":
                pass
        return self._channels[at][0]

    def _settings(self) -> pb.Settings:
        settings = pb.Settings(client_type=pb.SIMPLE_CONSUMER)
        settings.request_timeout.seconds = 3
        settings.subscription.group.CopyFrom(self._group)
        entry = settings.subscription.subscriptions.add()
        entry.topic.CopyFrom(self._topic)
        entry.expression.type = pb.TAG
        entry.expression.expression = "*"
        return settings

    def _end(self, at: int) -> None:
        if at in self._channels:
            channel, commands = self._channels.pop(at)
            commands.put(None)
            channel.close()


def _until_none(commands: queue.Queue[pb.TelemetryCommand | None]) -> Iterator[pb.TelemetryCommand]:
    while (command := commands.get()) is not None:
        yield command


def _answer_of(code: int) -> Answer:
    if code == pb.OK:
        return Answer.DONE
    return Answer.REFUSED if code == pb.INVALID_RECEIPT_HANDLE else Answer.NONE
