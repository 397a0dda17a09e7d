"""Limits, flapping clients and the PROXY protocol, with real clients and a real proxy."""

from __future__ import annotations

import asyncio
import http.client
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import aiocoap
import grpc
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.interop.node import Node
from tests.interop.test_reload import Client
from tests.patience import until

pytestmark = pytest.mark.interop

HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
haproxy = pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed")


def start(folder: Path, text: str, *options: str) -> Node:
    """Start a node with a configuration file that contains `text`. `options`: further ones of `headgate up`."""
    file = folder / "headgate.toml"
    file.write_text(text)
    return Node(folder / "node", "--durability", "page", "--config", str(file), *options)


def figure(node: Node, line: str) -> int:
    """The value of one line of /metrics; 0 when there is no such line."""
    found = [text for text in node.admin("/metrics").splitlines() if text.startswith(line)]
    return int(float(found[0].rpartition(" ")[2])) if found else 0


def refusal(protocol: str, reason: str) -> str:
    """The line of /metrics that counts refusals with the reason."""
    return f'headgate_refusals_total{{protocol="{protocol}",reason="{reason}"}}'


def test_mqtt_client_beyond_its_rate_waits_and_loses_nothing(tmp_path: Path) -> None:
    with start(tmp_path, "[limits]\nmessages_per_s = 20\nburst_s = 1\n") as node:
        client = Client(node)
        begun = time.monotonic()
        for _ in range(60):
            client.client.publish("t", b"x", 1)
        until(lambda: len(client.codes) == 60, 15)
        client.publish("t")
        assert time.monotonic() - begun >= 1.5
        assert set(client.codes) == {0}
        assert client.ended == []
        client.close()


@pytest.mark.parametrize(("excess", "reason"), [("refuse", "quota"), ("close", "rate")])
def test_mqtt_client_can_be_refused_or_closed(tmp_path: Path, excess: str, reason: str) -> None:
    with start(tmp_path, f'[limits]\nmessages_per_s = 1\nburst_s = 2\nmqtt_excess = "{excess}"\n') as node:
        client = Client(node)  # CONNECT counts, too
        assert client.publish("t") == 0
        if excess == "refuse":
            assert client.publish("t") == 0x97
            assert client.ended == []
            client.close()
        else:
            client.client.publish("t", b"x", 1)
            until(lambda: client.ended == [0x96], 30)
        assert figure(node, refusal("mqtt", reason)) == 1


def test_coap_peer_beyond_its_rate_is_told_when_to_come_back(tmp_path: Path) -> None:
    async def send(port: int) -> list[aiocoap.Message]:
        context = await aiocoap.Context.create_client_context()
        uri = f"coap://127.0.0.1:{port}/mq/t"
        try:
            return [await context.request(aiocoap.Message(code=aiocoap.POST, uri=uri, payload=b"x")).response for _ in range(3)]
        finally:
            await context.shutdown()

    with start(tmp_path, "[limits]\nmessages_per_s = 1\nburst_s = 1\n") as node:
        answers = asyncio.run(send(node.port("coap")))
        assert answers[0].code.is_successful()
        assert answers[1].code is aiocoap.TOO_MANY_REQUESTS
        assert answers[1].opt.max_age is not None


@pytest.mark.parametrize(("version", "code"), [(MQTTProtocolVersion.MQTTv5, 0x9F), (MQTTProtocolVersion.MQTTv311, 0x88)])
def test_flapping_client_is_held_off(tmp_path: Path, version: MQTTProtocolVersion, code: int) -> None:
    """Paho reports return code 3 of MQTT 3.1.1 as the equivalent reason code of MQTT 5.0, 0x88."""
    with start(tmp_path, "[limits]\nflapping_connects = 3\nflapping_hold_s = 2\n") as node:

        def connect(name: str) -> int:
            codes: list[int] = []
            client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=version, reconnect_on_failure=False)
            client.on_connect = lambda _c, _u, _f, reason, _p: codes.append(reason.value)
            client.connect("127.0.0.1", node.port("mqtt"))
            client.loop_start()
            until(lambda: bool(codes), 30)
            client.disconnect()
            client.loop_stop()
            return codes[0]

        assert [connect("flaps") for _ in range(4)] == [0, 0, 0, code]
        assert connect("another") == 0
        assert figure(node, "headgate_held_off_total") == 1
        time.sleep(2.1)
        assert connect("flaps") == 0


def test_address_has_its_connections_and_no_more(tmp_path: Path) -> None:
    with start(tmp_path, "[limits]\nconnections_per_address = 2\n") as node:
        address = ("127.0.0.1", node.port("mqtt"))
        held = [socket.create_connection(address, 5) for _ in range(2)]
        until(lambda: figure(node, 'headgate_connections_open{protocol="mqtt"}') == 2, 30)
        with socket.create_connection(address, 5) as third:
            assert ended(third)
        assert figure(node, refusal("mqtt", "address-connections")) == 1
        with socket.create_connection(address, 5, ("127.0.0.2", 0)) as other:
            other.settimeout(0.2)
            with pytest.raises(TimeoutError):
                other.recv(1)
        for each in held:
            each.close()
        until(lambda: figure(node, 'headgate_connections_open{protocol="mqtt"}') == 0, 30)
        again = Client(node)
        assert again.publish("t") == 0
        again.close()


def ended(peer: socket.socket) -> bool:
    """Whether the server has closed the connection without sending a byte."""
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


@contextmanager
def proxy(folder: Path, node: Node, word: str) -> Iterator[dict[str, int]]:
    """Run HAProxy before the MQTT and HTTP ports. Yields its ports."""
    assert HAPROXY is not None
    ports: dict[str, int] = {}
    sections: list[str] = []
    for name in ("mqtt", "http", "mqtts"):
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            ports[name] = free.getsockname()[1]
        server = f"server s 127.0.0.1:{node.port(name)} {word}"
        sections.append(f"listen {name}\n  bind 127.0.0.1:{ports[name]}\n  {server}\n")
    file = folder / "haproxy.cfg"
    defaults = "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n"
    file.write_text(defaults + "".join(sections))
    process = subprocess.Popen([HAPROXY, "-db", "-f", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: all(reachable(port) for port in ports.values()), 30)
        yield ports
    finally:
        process.terminate()
        process.wait(10)


def reachable(port: int) -> bool:
    """Whether a process listens on the port."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def sends_from(host: str, port: int) -> int:
    """Send a message by HTTP from the loopback address `host`. Returns the status."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5, source_address=(host, 0))
    connection.request("POST", "/v1/topics/t/messages", b"x")
    status = connection.getresponse().status
    connection.close()
    return status


@haproxy
@pytest.mark.parametrize("word", ["send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options crc32c,unique-id"])
def test_client_behind_haproxy_is_known_by_its_own_address(tmp_path: Path, word: str) -> None:
    configuration = """
[proxy]
peers = ["127.0.0.1"]
[access]
enabled = true
anonymous = "guest"
[[access.policies]]
subject = "User:guest"
resource = "Topic:t"
actions = ["Pub"]
sources = ["127.0.0.2"]
"""
    with start(tmp_path, configuration) as node, proxy(tmp_path, node, word) as ports:
        assert sends_from("127.0.0.2", ports["http"]) == 201
        assert sends_from("127.0.0.3", ports["http"]) == 403
        assert sends_from("127.0.0.2", node.port("http")) == 201
        assert sends_from("127.0.0.1", node.port("http")) == 403


@haproxy
def test_proxied_connections_are_limited_by_their_own_addresses(tmp_path: Path) -> None:
    configuration = '[proxy]\npeers = ["127.0.0.1"]\nrequired = true\n[limits]\nconnections_per_address = 1\n'
    with start(tmp_path, configuration) as node, proxy(tmp_path, node, "send-proxy-v2") as ports:
        stays = http.client.HTTPConnection("127.0.0.1", ports["http"], timeout=5, source_address=("127.0.0.2", 0))
        stays.request("POST", "/v1/topics/t/messages", b"x")
        assert stays.getresponse().read() is not None
        assert sends_from("127.0.0.3", ports["http"]) == 201
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            sends_from("127.0.0.2", ports["http"])
        assert figure(node, refusal("http", "address-connections")) == 1
        stays.close()
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            sends_from("127.0.0.1", node.port("http"))
        assert figure(node, refusal("http", "proxy-missing")) == 1


@pytest.mark.parametrize(
    "header", [b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes(12)]
)
def test_header_from_somebody_else_is_refused_on_every_stream_port(tmp_path: Path, header: bytes) -> None:
    with start(tmp_path, '[proxy]\npeers = ["10.0.0.0/8"]\n') as node:
        for name in ("nameserver", "remoting", "grpc", "http", "mqtt", "mqtts", "websocket", "websockets"):
            with socket.create_connection(("127.0.0.1", node.port(name)), 5) as peer:
                peer.sendall(header)
                assert ended(peer)
            assert figure(node, refusal(name, "proxy-refused")) == 1, name


def test_facts_that_operators_of_a_broker_expect(tmp_path: Path) -> None:
    with start(tmp_path, "[limits]\nburst_s = 2\n") as node:
        clients = [Client(node, name=f"c{number}") for number in range(3)]
        clients[0].client.subscribe("t/#", 1)
        until(lambda: clients[0].granted == [1], 30)
        clients[1].client.publish("t/kept", b"12345", 1, retain=True)
        until(lambda: clients[1].codes == [0], 30)
        clients[2].close()
        until(lambda: figure(node, "headgate_mqtt_sessions_connected ") == 2, 30)
        assert figure(node, "headgate_mqtt_sessions_connected_max ") == 3
        assert figure(node, "headgate_mqtt_subscriptions ") == 1
        assert figure(node, "headgate_mqtt_retained ") == 1
        assert figure(node, "headgate_mqtt_retained_bytes ") >= 5
        assert figure(node, 'headgate_disconnects_total{protocol="mqtt",reason="goodbye"}') == 1
        told: dict[str, bytes] = {}
        clients[0].client.on_message = lambda _c, _u, message: told.update({message.topic: bytes(message.payload)})
        clients[0].client.subscribe("$SYS/broker/#", 0)
        wanted = {"clients/maximum": b"3", "clients/connected": b"2", "retained messages/count": b"1"}
        for reason in ("", "/refused", "/slow-reader", "/too-large", "/expired", "/gone"):
            wanted["publish/messages/dropped" + reason] = b"0"
        until(lambda: all(told.get("$SYS/broker/" + name) == value for name, value in wanted.items()), 30, lambda: str(told))
        for client in clients[:2]:
            client.close()


def test_grpc_is_counted_as_grpc_on_the_port_of_all_protocols(tmp_path: Path) -> None:
    with start(tmp_path, "port_offset = 0\n") as node:
        with grpc.insecure_channel(f"127.0.0.1:{node.port('http')}") as channel:
            call = channel.unary_unary("/apache.rocketmq.v2.MessagingService/QueryRoute")
            call(b"", timeout=5)
            until(lambda: figure(node, 'headgate_connections_open{protocol="grpc"}') == 1, 30)
        assert figure(node, 'headgate_connections_opened_total{protocol="http"}') == 0
