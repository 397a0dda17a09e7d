"""One sender of each protocol, at any of several gateways, and a load of all of them that remembers what was acknowledged."""

from __future__ import annotations

import asyncio
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import aiocoap
import grpc
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from gateway.client.answer import ClientError, TopicRoute
from gateway.client.client import Client
from gateway.client.link import Link
from protocols.remoting import codes
from tests.interop.grpc.stub_consumer import StubConsumer
from tests.interop.http_api import LOST, call
from tests.interop.node import Ports
from tests.interop.rocketmq.failover.recovery import Acknowledged
from tests.interop.rocketmq.failover.send_request import send_request

ANSWER_S: Final = 10.0
ROUTE_S: Final = 5.0
JOIN_S: Final = 60.0
PATHS: Final = 8


class NotAcknowledgedError(Exception):
    """The message may be stored or not; its sender was not told that it is."""


class Sender(Protocol):
    """Sends one message after the other. Lives within one thread."""

    def send(self, gateway: Ports, topic: str, body: str) -> None:
        """Send, and wait for the acknowledgement. Raises NotAcknowledgedError."""

    def close(self) -> None:
        """End the connections."""


class HttpSender:
    """A POST for each message."""

    def send(self, gateway: Ports, topic: str, body: str) -> None:
        try:
            call(gateway, f"/v1/topics/{topic}/messages", body.encode())
        except LOST as error:
            raise NotAcknowledgedError(str(error)) from error

    def close(self) -> None:
        return


class EventSender:
    """CloudEvents by HTTP, in binary mode."""

    def send(self, gateway: Ports, topic: str, body: str) -> None:
        fields = {"ce-specversion": "1.0", "ce-id": body, "ce-source": "/load", "ce-type": "made"}
        try:
            call(gateway, f"/ce/{topic}", body.encode(), **fields)
        except LOST as error:
            raise NotAcknowledgedError(str(error)) from error

    def close(self) -> None:
        return


class MqttSender:
    """QoS 1 over several paths, as each has its queue. Each connection has a new session: nothing is sent again by itself."""

    def __init__(self) -> None:
        self._clients: dict[Ports, _MqttConnection] = {}
        self._count = 0

    def send(self, gateway: Ports, topic: str, body: str) -> None:
        self._count += 1
        try:
            if gateway not in self._clients:
                self._clients[gateway] = _MqttConnection(gateway)
            self._clients[gateway].publish(f"{topic}/{self._count % PATHS}", body.encode())
        except (OSError, RuntimeError, ValueError, NotAcknowledgedError) as error:
            if gateway in self._clients:
                self._clients.pop(gateway).close()
            raise NotAcknowledgedError(str(error)) from error

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


class _MqttConnection:
    """MQTT 3.1.1, where a refusal ends the connection: a PUBACK is always a success."""

    def __init__(self, gateway: Ports) -> None:
        self._changed = threading.Condition()
        self._answered: set[int] = set()
        self._ended = False
        self._client = paho.Client(CallbackAPIVersion.VERSION2, f"sender-{uuid.uuid4().hex}", reconnect_on_failure=False)
        self._client.on_publish = lambda _client, _data, number, *_: self._note(number)
        self._client.on_disconnect = lambda *_: self._note(None)
        self._client.connect("127.0.0.1", gateway.port("mqtt"))
        self._client.loop_start()

    def publish(self, topic: str, body: bytes) -> None:
        number = self._client.publish(topic, body, 1).mid
        with self._changed:
            self._changed.wait_for(lambda: self._ended or number in self._answered, ANSWER_S)
            if number not in self._answered:
                raise NotAcknowledgedError("the connection has ended" if self._ended else "no PUBACK")
            self._answered.remove(number)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _note(self, number: int | None) -> None:
        with self._changed:
            if number is None:
                self._ended = True
            else:
                self._answered.add(number)
            self._changed.notify_all()


class CoapSender:
    """A confirmable POST for each message."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._context = self._runner.run(aiocoap.Context.create_client_context())

    def send(self, gateway: Ports, topic: str, body: str) -> None:
        uri = f"coap://127.0.0.1:{gateway.port('coap')}/mq/{topic}"

        async def run() -> None:
            request = self._context.request(aiocoap.Message(code=aiocoap.POST, uri=uri, payload=body.encode()))
            answer = await asyncio.wait_for(request.response, ANSWER_S)
            if answer.code != aiocoap.CREATED:
                raise NotAcknowledgedError(str(answer.code))

        try:
            self._runner.run(run())
        except (aiocoap.error.Error, TimeoutError, OSError) as error:
            raise NotAcknowledgedError(str(error)) from error

    def close(self) -> None:
        self._runner.run(self._context.shutdown())
        self._runner.close()


class GrpcSender:
    """A channel to each gateway."""

    def __init__(self) -> None:
        self._clients: dict[Ports, StubConsumer] = {}

    def send(self, gateway: Ports, topic: str, body: str) -> None:
        client = self._clients.setdefault(gateway, StubConsumer(gateway, topic, "none"))
        try:
            client.send(body.encode())
        except (grpc.RpcError, AssertionError) as error:
            self._clients.pop(gateway).close()
            raise NotAcknowledgedError(str(error)) from error

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


class RemotingSender:
    """Queues in turn, as an SDK has them; brokers are reached through the gateway. Routes are asked for again, as by SDKs."""

    def __init__(self) -> None:
        self._connections: dict[Ports, tuple[float, TopicRoute, Link]] = {}
        self._count = 0

    def send(self, gateway: Ports, topic: str, body: str) -> None:
        try:
            route, link = self._connection(gateway, topic)
            self._count += 1
            queue = route.queues[self._count % len(route.queues)]
            answer = link.ask([send_request(queue, body)])[0]
        except (ClientError, OSError) as error:
            self._end(gateway)
            raise NotAcknowledgedError(str(error)) from error
        # An answer that is no success, as FLUSH_SLAVE_TIMEOUT, promises nothing.
        if answer.code != codes.SUCCESS:
            self._end(gateway)
            raise NotAcknowledgedError(f"code {answer.code}: {answer.remark}")

    def close(self) -> None:
        for gateway in list(self._connections):
            self._end(gateway)

    def _connection(self, gateway: Ports, topic: str) -> tuple[TopicRoute, Link]:
        now = time.monotonic()
        if gateway in self._connections and now - self._connections[gateway][0] > ROUTE_S:
            self._end(gateway)
        if gateway not in self._connections:
            with Client(f"127.0.0.1:{gateway.port('nameserver')}", timeout_s=ANSWER_S, retry_s=0.1) as client:
                route = client.route(topic)
            # As Java clients since 4.9.5: one address for all brokers, and the field `n` says which one is meant.
            self._connections[gateway] = now, route, Link(f"127.0.0.1:{gateway.port('remoting')}", ANSWER_S)
        return self._connections[gateway][1:]

    def _end(self, gateway: Ports) -> None:
        if gateway in self._connections:
            self._connections.pop(gateway)[2].close()


SENDERS: Final[dict[str, Callable[[], Sender]]] = {
    "MQTT QoS 1": MqttSender, "CloudEvents": EventSender, "HTTP": HttpSender, "CoAP": CoapSender, "gRPC": GrpcSender,
    "remoting": RemotingSender,
}  # fmt: skip


class Senders:
    """A thread for each protocol, which sends a message about every `pause_s` at any gateway, one at a time.

    gateways  a test may add to them
    sent      what was acknowledged, by protocol
    faults    what ended a thread
    refused   protocol -> why messages were not acknowledged -> how many
    """

    def __init__(self, gateways: Sequence[Ports], topic: str, pause_s: float, names: Sequence[str] = tuple(SENDERS)) -> None:
        """`names`: the protocols."""
        self.gateways = gateways
        self.sent: dict[str, list[Acknowledged]] = {name: [] for name in names}
        self.refused: dict[str, Counter[str]] = {name: Counter() for name in names}
        self.faults: list[BaseException] = []
        self._topic = topic
        self._pause_s = pause_s
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._guarded, args=(name,), daemon=True) for name in names]

    def start(self) -> None:
        """Begin."""
        for each in self._threads:
            each.start()

    def end(self) -> None:
        """Send no more."""
        self._ended.set()

    def stop(self) -> None:
        """Send no more; what is under way is waited for. Raises what ended a thread."""
        self.end()
        for each in self._threads:
            each.join(JOIN_S)
        assert not any(each.is_alive() for each in self._threads)
        if self.faults:
            raise self.faults[0]

    def bodies(self) -> set[str]:
        """What was acknowledged."""
        return {each.body for messages in self.sent.values() for each in messages}

    def each_has_sent_since(self, since_s: float, count: int) -> bool:
        """Each protocol has had `count` messages acknowledged that it sent after `since_s`, or a thread has failed."""
        return bool(self.faults) or all(
            len(messages) >= count and messages[-count].asked_s >= since_s for messages in self.sent.values()
        )

    def counts(self) -> str:
        """How many messages of each protocol are acknowledged, as text."""
        return str({name: len(messages) for name, messages in self.sent.items()})

    def refusals(self) -> str:
        """Why messages of each protocol were not acknowledged, and how many, as text."""
        return "; ".join(f"{name}: {dict(reasons)}" for name, reasons in self.refused.items() if reasons)

    def _guarded(self, name: str) -> None:
        try:
            self._run(name)
        except BaseException as error:
            self.faults.append(error)
            raise

    def _run(self, name: str) -> None:
        chance, sender, count = random.Random(name), SENDERS[name](), 0
        try:
            while not self._ended.wait(self._pause_s):
                body = f"{name.replace(' ', '-')}/{count}"
                count += 1
                begun = time.monotonic()
                try:
                    sender.send(chance.choice(self.gateways), self._topic, body)
                except NotAcknowledgedError as error:
                    self.refused[name][str(error)[:80]] += 1
                else:
                    self.sent[name].append(Acknowledged(body, begun, time.monotonic()))
        finally:
            sender.close()


def groups_of(bodies: Sequence[tuple[str, bytes]]) -> dict[str, set[str]]:
    """Body -> broker groups that have it. `bodies`: (broker group, body)."""
    found: dict[str, set[str]] = {}
    for group, body in bodies:
        found.setdefault(body.decode(), set()).add(group)
    return found
