"""What clients have begun goes on at the next leader. All of it is begun at a gateway, then the leader is killed, once.

Leases, timers, transactions, attempts and the order of message groups, sessions and QoS 2 exchanges of MQTT, wills, retained
values.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import grpc
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from protocols.grpc.messages import messaging_pb2 as pb
from tests.interop.grpc.setup import make_group, make_topic
from tests.interop.grpc.stub_consumer import StubConsumer, bodies
from tests.interop.grpc.test_stub import method
from tests.interop.http_api import call
from tests.interop.node import Node
from tests.interop.replication.group import StoreGroupNodes, read_all
from tests.interop.replication.raw_mqtt import RawMqtt
from tests.patience import until

pytestmark = pytest.mark.interop
LEASE_S: Final = 15.0
"""Of a lease that ends by itself."""
DELAY_S: Final = 12.0
KEPT_S: Final = 600.0
WAIT_S: Final = 60.0


class Lease(NamedTuple):
    """A message as a group of HTTP got it.

    asked_s, had_s   when it was asked for and when it was there, by the monotonic clock
    """

    body: str
    receipt: str
    asked_s: float
    had_s: float


class Group:
    """A group of HTTP, at a gateway."""

    def __init__(self, gateway: Node, topic: str) -> None:
        self._gateway = gateway
        self._path = f"/v1/groups/{topic}-group/topics/{topic}"

    def receive(self, invisible_s: float, most: int = 16) -> list[Lease]:
        asked_s = time.monotonic()
        query = f"max={most}&wait_ms=500&invisible_ms={invisible_s * 1e3:.0f}"
        found = call(self._gateway, f"{self._path}:receive?{query}", b"") or {"messages": []}
        times = asked_s, time.monotonic()
        return [Lease(base64.b64decode(each["body"]).decode(), each["receipt"], *times) for each in found["messages"]]

    def all_of(self, count: int, invisible_s: float) -> dict[str, Lease]:
        """Receive so many messages, each once."""
        found: dict[str, Lease] = {}
        end = time.monotonic() + WAIT_S
        while len(found) < count:
            assert time.monotonic() < end, found
            for each in self.receive(invisible_s, count - len(found)):
                assert each.body not in found
                found[each.body] = each
        return found

    def settle(self, verb: str, lease: Lease, **more: int) -> dict[str, Any]:
        [result] = call(self._gateway, f"{self._path}:{verb}", json.dumps({"receipts": [lease.receipt], **more}).encode())[
            "results"
        ]
        return dict(result)


def send(gateway: Node, topic: str, body: str, query: str = "") -> None:
    """Send by HTTP; it must be acknowledged."""
    call(gateway, f"/v1/topics/{topic}/messages{query}", body.encode())


class Subscriber:
    """A persistent session of paho with a subscription of QoS 1, which acknowledges nothing unless it is told to."""

    def __init__(self, gateway: Node, client_id: str, topic: str, acknowledges: bool) -> None:
        self.got: list[tuple[bytes, bool]] = []
        self.retained: list[bytes] = []
        self._subscribed = False
        self._client = paho.Client(CallbackAPIVersion.VERSION2, client_id, clean_session=False, manual_ack=not acknowledges)
        self._client.on_message = self._came
        self._client.on_subscribe = self._done
        self._client.connect("127.0.0.1", gateway.port("mqtt"))
        self._client.loop_start()
        self._client.subscribe(topic, 1)
        until(lambda: self._subscribed, WAIT_S)

    def _came(self, _client: object, _data: object, message: paho.MQTTMessage) -> None:
        body = bytes(message.payload)
        if message.retain:
            self.retained.append(body)
        else:
            self.got.append((body, message.dup))

    def _done(self, *_: object) -> None:
        self._subscribed = True

    def vanish(self) -> None:
        """Lose the connection."""
        self._client.loop_stop()
        sock = self._client.socket()
        if sock is not None:
            sock.close()


class Begun:
    """What is under way when the leader is killed; the tests go on with it."""

    def __init__(self, gateway: Node) -> None:
        self.gateway = gateway
        self.leases = Group(gateway, "leases")
        for body in ("settled", "kept", "extended", "left"):
            send(gateway, "leases", body)
        self.held = self.leases.all_of(3, KEPT_S)
        [self.left] = self.leases.all_of(1, LEASE_S).values()
        self.settled = next(iter(self.held))
        assert self.leases.settle("ack", self.held[self.settled])["ok"]

        self.timer_s = time.monotonic()
        send(gateway, "timers", "later", f"?delay_ms={DELAY_S * 1e3:.0f}")

        make_topic(gateway, "halves", "TRANSACTION")
        self.halves = [self._half(f"{verdict}") for verdict in ("committed", "rolled back")]

        make_topic(gateway, "plain", "NORMAL")
        make_group(gateway, "plain-group", orderly=False)
        make_topic(gateway, "ordered", "FIFO")
        make_group(gateway, "ordered-group", orderly=True)
        with StubConsumer(gateway, "plain", "plain-group") as plain:
            for number in range(6):
                plain.send(b"%d" % number)
            self.attempted = sorted(bodies(plain.attempt("one", 4)))
        assert len(self.attempted) == 4
        with StubConsumer(gateway, "ordered", "ordered-group") as ordered:
            for number in range(6):
                ordered.send(b"%d" % number, "orders of one customer")
            first = ordered.attempt("first", 2)
            assert bodies(first) == [b"0", b"1"]
            assert ordered.acknowledge(first[:1]) == [pb.OK]

        self.reader = Subscriber(gateway, "reader", "news/#", acknowledges=False)
        sender = Subscriber(gateway, "sender", "nothing", acknowledges=True)._client
        sender.publish("news/today", b"in flight", 1).wait_for_publish(WAIT_S)
        until(lambda: self.reader.got == [(b"in flight", False)], WAIT_S)
        self.reader.vanish()
        sender.publish("news/today", b"while it was away", 1).wait_for_publish(WAIT_S)
        sender.publish("state/door", b"open", 1, retain=True).wait_for_publish(WAIT_S)
        self.watcher = Subscriber(gateway, "watcher", "wills/#", acknowledges=True)
        self.dying = RawMqtt(gateway.port("mqtt"), "dying", ("wills/dying", b"it died"))
        self.exchange = RawMqtt(gateway.port("mqtt"), "exchange")
        for number in (1, 2):
            self.exchange.publish(number, "exactly/once", b"exchange %d" % number)

    def _half(self, body: str) -> tuple[pb.SendResultEntry, str]:
        message = pb.Message(topic=pb.Resource(name="halves"), body=body.encode())
        message.system_properties.message_id = uuid.uuid4().hex
        message.system_properties.message_type = pb.TRANSACTION
        with grpc.insecure_channel(f"127.0.0.1:{self.gateway.port('grpc')}") as channel:
            answer = method(channel, "SendMessage", pb.SendMessageResponse)(pb.SendMessageRequest(messages=[message]))
        assert answer.status.code == pb.OK, answer
        return answer.entries[0], body

    def end(self) -> None:
        for each in (self.reader, self.watcher):
            each.vanish()


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Begun]:
    """The leader is dead; another one leads."""
    folder = tmp_path_factory.mktemp("group")
    with StoreGroupNodes(folder, 2) as group:
        group.await_members(1, 2)
        gateway = group.gateway(folder / "gateway")
        state = Begun(gateway)
        group.kill(group.leader())
        until(lambda: again(lambda: send(gateway, "others", "the first one again")), WAIT_S)
        try:
            yield state
        finally:
            state.end()


def again(step: Callable[[], None]) -> bool:
    """True when a step succeeds."""
    try:
        step()
    except OSError:
        return False
    return True


def test_leases_hold_and_their_receipts_are_valid(begun: Begun) -> None:
    group, left = begun.leases, begun.left
    kept, extended = (lease for body, lease in begun.held.items() if body != begun.settled)
    came: list[Lease] = []

    def poll() -> set[str]:
        came.extend(group.receive(KEPT_S))
        return {each.body for each in came}

    assert poll() <= {left.body}
    result = group.settle("extend", extended, invisible_ms=1_000)
    assert result["ok"], result
    assert group.settle("ack", kept)["ok"]
    until(lambda: poll() == {extended.body, left.body}, WAIT_S)
    time.sleep(1)
    assert poll() == {extended.body, left.body}, "what was acknowledged came again"
    assert len(came) == 2
    [again] = [each for each in came if each.body == left.body]
    assert again.had_s - left.asked_s >= LEASE_S, "its lease was not over"
    assert not group.settle("ack", left)["ok"], "an old receipt settles nothing"


def test_a_timer_is_on_time(begun: Begun) -> None:
    group = Group(begun.gateway, "timers")
    found: list[Lease] = []
    while not found:
        found = group.receive(KEPT_S)
        assert time.monotonic() - begun.timer_s < DELAY_S + WAIT_S
    assert [each.body for each in found] == ["later"]
    assert time.monotonic() - begun.timer_s >= DELAY_S


def test_a_transaction_is_ended(begun: Begun) -> None:
    for (entry, body), verdict in zip(begun.halves, (pb.COMMIT, pb.ROLLBACK), strict=True):
        request = pb.EndTransactionRequest(
            topic=pb.Resource(name="halves"),
            message_id=entry.message_id,
            transaction_id=entry.transaction_id,
            resolution=verdict,
        )
        with grpc.insecure_channel(f"127.0.0.1:{begun.gateway.port('grpc')}") as channel:
            answer = method(channel, "EndTransaction", pb.EndTransactionResponse)(request)
        assert answer.status.code == pb.OK, (body, answer)
    until(lambda: read_all(begun.gateway, "halves") == ["committed"], WAIT_S)


def test_an_attempt_is_repeated(begun: Begun) -> None:
    with StubConsumer(begun.gateway, "plain", "plain-group") as plain:
        latest = plain.attempt("one", 4)
        assert sorted(bodies(latest)) == begun.attempted
        assert {message.system_properties.delivery_attempt for message in latest} == {1}
        others = plain.attempt("two", 4)
        assert sorted([*bodies(others), *begun.attempted]) == [b"%d" % number for number in range(6)]


def test_a_message_group_stays_in_order(begun: Begun) -> None:
    with StubConsumer(begun.gateway, "ordered", "ordered-group") as ordered:
        assert ordered.attempt("another", 4) == [], "message 1 is held"
        held = ordered.attempt("first", 2)
        assert bodies(held) == [b"1"]
        assert ordered.acknowledge(held) == [pb.OK]
        rest = ordered.attempt("rest", 8)
        assert bodies(rest) == [b"2", b"3", b"4", b"5"]


def test_a_session_goes_on_with_what_was_in_flight(begun: Begun) -> None:
    reader = Subscriber(begun.gateway, "reader", "news/#", acknowledges=True)
    try:
        until(lambda: len(reader.got) >= 2, WAIT_S)
        time.sleep(1)
        assert reader.got == [(b"in flight", True), (b"while it was away", False)]
    finally:
        reader.vanish()


def test_an_exchange_of_qos_2_is_stored_once(begun: Begun) -> None:
    with RawMqtt(begun.gateway.port("mqtt"), "exchange") as client:
        assert client.resumed
        client.release(1)
        client.publish(2, "exactly/once", b"exchange 2", again=True)
        client.release(2)
        client.publish(1, "exactly/once", b"exchange 3")  # the packet identifier is free again: another message
        client.release(1)
    assert sorted(read_all(begun.gateway, "exactly")) == ["exchange 1", "exchange 2", "exchange 3"]


def test_a_retained_value_is_kept(begun: Begun) -> None:
    late = Subscriber(begun.gateway, "late", "state/#", acknowledges=True)
    try:
        until(lambda: late.retained == [b"open"], WAIT_S)
    finally:
        late.vanish()


def test_a_subscription_is_kept_and_the_will_of_a_client_that_does_not_come_back_is_sent(begun: Begun) -> None:
    until(lambda: [body for body, _ in begun.watcher.got] == [b"it died"], WAIT_S)
