"""Real clients at several gateways before one store: what one takes, another delivers and acknowledges."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiocoap
import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from gateway.client.client import Client
from tests.interop.cluster.cluster import Cluster
from tests.interop.grpc.setup import python_client
from tests.interop.http_api import acknowledge, body_of, call, receive
from tests.interop.node import Node
from tests.interop.remoting.test_go import client
from tests.patience import until

__all__ = ["client"]
pytestmark = pytest.mark.interop
WAIT_S = 60.0
WAIT_MS = 20_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), 2) as running:
        yield running


class Listener:
    """An MQTT client with a session that lasts; `manual`: it does not acknowledge."""

    def __init__(self, name: str, node: Node, pattern: str = "", manual: bool = False) -> None:
        self.got: list[tuple[str, bytes]] = []
        self.present = False
        self.left: list[int] = []
        self._ready = threading.Event()
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5, manual_ack=manual,
            reconnect_on_failure=False,
        )  # fmt: skip
        lasting = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        lasting.SessionExpiryInterval = 600
        self.client.on_connect = self._connected
        self.client.on_subscribe = lambda *_: self._ready.set()
        self.client.on_message = lambda _client, _data, message: self.got.append((message.topic, bytes(message.payload)))
        self.client.on_disconnect = lambda _c, _d, _f, reason, _p: self.left.append(reason.value)
        self._pattern = pattern
        self.client.connect("127.0.0.1", node.port("mqtt"), clean_start=bool(pattern), properties=lasting)
        self.client.loop_start()
        assert self._ready.wait(WAIT_S), node.text()

    def _connected(self, client: mqtt.Client, _data: object, flags: Any, _reason: object, _properties: object) -> None:
        self.present = flags.session_present
        if self._pattern:
            client.subscribe(self._pattern, 1)
        else:
            self._ready.set()

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def publish(node: Node, topic: str, payload: bytes) -> None:
    """Publish at QoS 1, until it is acknowledged."""
    one = Listener(f"publisher of {topic}", node, "none/of/these")
    one.client.publish(topic, payload, 1).wait_for_publish(WAIT_S)
    one.leave()


def test_bytes_and_messages_of_all_gateways_are_in_the_sums_of_the_store(cluster: Cluster) -> None:
    first, second = cluster.gateways
    listener = Listener("statistics", second, "$SYS/broker/+/received")

    def notified(what: str) -> int:
        return int([value for topic, value in listener.got if topic == f"$SYS/broker/{what}/received"][-1])

    until(lambda: len({topic for topic, _ in listener.got}) == 2, WAIT_S)
    before = notified("bytes"), notified("messages")
    for number in range(4):
        publish(first, f"counted/{number}", bytes(100_000))
    until(lambda: notified("bytes") - before[0] > 400_000 and notified("messages") - before[1] >= 4, WAIT_S)
    assert notified("bytes") - before[0] < 800_000, "what goes between gateway and store does not count"
    listener.leave()


def test_mqtt_published_at_one_gateway_is_received_at_another(cluster: Cluster) -> None:
    first, second = cluster.gateways
    listener = Listener("across", second, "across/#")
    publish(first, "across/1", b"one")
    until(lambda: listener.got == [("across/1", b"one")], WAIT_S)
    listener.leave()
    publish(second, "across/2", b"two")
    again = Listener("across", first)
    until(lambda: again.got == [("across/2", b"two")], WAIT_S)
    assert again.present, "the session is the store's, so it goes on at any gateway"
    again.leave()


def test_a_session_is_taken_over_from_another_gateway(cluster: Cluster) -> None:
    first, second = cluster.gateways
    old = Listener("moved", first, "moved/#")
    new = Listener("moved", second)
    until(lambda: old.left == [0x8E], WAIT_S)
    publish(first, "moved/1", b"one")
    until(lambda: new.got == [("moved/1", b"one")], WAIT_S)
    new.leave()


def test_http_sent_at_one_gateway_is_settled_at_another(cluster: Cluster) -> None:
    first, second = cluster.gateways
    call(first, "/v1/topics/parcels/messages", b"parcel")
    (message,) = receive(second, "carriers", "parcels", wait_ms=WAIT_MS)
    assert body_of(message) == b"parcel"
    (result,) = acknowledge(first, "carriers", "parcels", [message["receipt"]])
    assert result.get("error") is None, result


def test_the_python_sdk_sends_at_one_gateway_and_receives_at_another(cluster: Cluster, tmp_path: Path) -> None:
    first, second = cluster.gateways
    sent = python_client(first, "send", "ledger", "-", tmp_path)["sent"]
    seen = python_client(second, "drain", "ledger", "readers", tmp_path)["seen"]
    assert sorted(message["id"] for message in seen) == sorted(sent)


@pytest.mark.parametrize("scenario", ["send", "push", "retry", "transact"])
def test_the_go_client_of_remoting_works_with_a_gateway(cluster: Cluster, client: Path, scenario: str, tmp_path: Path) -> None:
    """It asks one gateway for routes, which name that gateway, and tools talk to another one."""
    first, second = cluster.gateways
    command = [
        str(client), scenario, f"127.0.0.1:{first.port('nameserver')}", f"Apart{scenario}",
        f"127.0.0.1:{second.port('remoting')}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False, env={"HOME": str(tmp_path)})
    assert done.stdout.startswith(f"OK {scenario}"), f"{done.stdout[-4000:]}{done.stderr[-4000:]}{first.text()[-4000:]}"


def test_remoting_routes_name_the_gateway_and_any_gateway_has_the_messages(cluster: Cluster) -> None:
    first, second = cluster.gateways
    with Client(f"127.0.0.1:{first.port('nameserver')}") as sender, Client(f"127.0.0.1:{second.port('nameserver')}") as reader:
        sent = sender.send("letters", b"letter")
        route = reader.route("letters")
        assert set(route.addresses.values()) == {f"127.0.0.1:{second.port('remoting')}"}
        (reply,) = reader.scan(sent.queue, sent.offset, sent.offset + 1)
        assert b"letter" in reply.body


def test_coap_put_at_one_gateway_is_observed_at_another(cluster: Cluster) -> None:
    first, second = (f"coap://127.0.0.1:{node.port('coap')}/mq/lamps/1" for node in cluster.gateways)

    async def scene() -> None:
        context = await aiocoap.Context.create_client_context()
        try:
            put = aiocoap.Message(code=aiocoap.PUT, payload=b"on", uri=first)
            assert (await context.request(put).response).code.is_successful()
            watch = context.request(aiocoap.Message(code=aiocoap.GET, uri=second, observe=0))
            assert (await watch.response).payload == b"on"
            put = aiocoap.Message(code=aiocoap.PUT, payload=b"off", uri=first)
            assert (await context.request(put).response).code.is_successful()
            async for answer in watch.observation:
                assert answer.payload == b"off"
                break
        finally:
            await context.shutdown()

    asyncio.run(asyncio.wait_for(scene(), WAIT_S))


def test_what_a_killed_gateway_has_delivered_another_acknowledges(cluster: Cluster) -> None:
    first, second = cluster.gateways
    for number in range(4):
        call(first, "/v1/topics/cargo/messages", b"parcel %d" % number)
    taken: list[dict[str, Any]] = []
    while len(taken) < 4:
        taken += receive(first, "carriers", "cargo", wait_ms=WAIT_MS)
    listener = Listener("interrupted", first, "rooms/#", manual=True)
    publish(second, "rooms/1", b"warm")
    until(lambda: listener.got == [("rooms/1", b"warm")], WAIT_S)
    first.kill()
    receipts = [message["receipt"] for message in taken]
    results = acknowledge(second, "carriers", "cargo", receipts)
    assert [result.get("error") for result in results] == [None] * 4, results
    assert receive(second, "carriers", "cargo", wait_ms=100) == [], "the leases were not broken, and all are settled"
    resumed = Listener("interrupted", second)
    assert resumed.present
    until(lambda: resumed.got == [("rooms/1", b"warm")], WAIT_S)
    listener.client.loop_stop()
    resumed.leave()
    first.start()
    call(first, "/v1/topics/cargo/messages", b"after the restart")
    (message,) = receive(second, "carriers", "cargo", wait_ms=WAIT_MS)
    assert body_of(message) == b"after the restart"


def test_gateways_come_back_to_a_store_that_was_killed(cluster: Cluster) -> None:
    first, second = cluster.gateways
    listener = Listener("patient", first, "halls/#")
    call(second, "/v1/topics/freight/messages", b"before")
    cluster.store.kill()

    until(lambda: not first.serves() and not second.serves(), WAIT_S)
    cluster.store.start()
    until(lambda: first.serves() and second.serves(), WAIT_S)
    until(lambda: listener.left == [0x8B], WAIT_S, first.text)
    (message,) = receive(second, "carriers", "freight", wait_ms=WAIT_MS)
    assert body_of(message) == b"before"
    publish(second, "halls/1", b"warm")
    resumed = Listener("patient", first)
    assert resumed.present
    until(lambda: resumed.got == [("halls/1", b"warm")], WAIT_S)
    resumed.leave()
    listener.client.loop_stop()
