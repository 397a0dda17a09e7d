"""MQTT over WebSocket: MQTT.js and paho, on the port of its own and on the HTTP port, in the clear and in TLS."""

from __future__ import annotations

import http.client
import ssl
import subprocess
import threading
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.interop.node import Node
from tests.interop.workshop import CLIENTS, node_scripts

PROJECT = CLIENTS / "javascript" / "mqtt"
PLACES = [("ws", "websocket"), ("wss", "websocket"), ("wss", "websockets"), ("ws", "http"), ("wss", "http")]
"""Scheme, and the listener that it is spoken to."""


@pytest.fixture(scope="module")
def program() -> Path:
    """MQTT.js, installed outside of the tree."""
    return node_scripts(PROJECT, "MQTT.js") / "talk.js"


@pytest.mark.parametrize("version", ["4", "5"])
@pytest.mark.parametrize(("scheme", "listener"), PLACES)
def test_mqtt_js(node: Node, program: Path, scheme: str, listener: str, version: str) -> None:
    url = f"{scheme}://127.0.0.1:{node.port(listener)}/mqtt"
    command = ["node", str(program), url, version]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == "OK 30"


@pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5])
@pytest.mark.parametrize(("scheme", "listener"), PLACES)
def test_paho(node: Node, scheme: str, listener: str, version: MQTTProtocolVersion) -> None:
    got: list[bytes] = []
    done, ready = threading.Event(), threading.Event()
    client = paho.Client(CallbackAPIVersion.VERSION2, transport="websockets", protocol=version)
    client.ws_set_options("/mqtt")
    if scheme == "wss":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        client.tls_set_context(context)

    def heard(client: paho.Client, data: object, message: paho.MQTTMessage) -> None:
        got.append(bytes(message.payload))
        if len(got) == 20:
            done.set()

    client.on_message = heard
    client.on_subscribe = lambda *rest: ready.set()
    client.connect("127.0.0.1", node.port(listener))
    client.loop_start()
    client.subscribe(f"ws{version}/{scheme}/{listener}", 1)
    assert ready.wait(10)
    for number in range(20):
        client.publish(f"ws{version}/{scheme}/{listener}", b"%d" % number * 10_000, 1).wait_for_publish(10)
    assert done.wait(10)
    assert got == [b"%d" % number * 10_000 for number in range(20)]
    client.disconnect()
    client.loop_stop()


@pytest.mark.parametrize(("listener", "path"), [("websocket", "/"), ("websocket", "/mqtt"), ("http", "/mqtt")])
def test_plain_requests_are_told_to_upgrade(node: Node, listener: str, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", node.port(listener), timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("upgrade")) == (426, "websocket")
    assert answer.read()
    connection.close()
