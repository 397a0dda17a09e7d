"""Enhanced authentication with MQTT.js, whose cryptography is Node's; and signatures of rocketmq-mqtt's kind by paho."""

from __future__ import annotations

import base64
import hmac
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.interop.mqtt.test_websocket import program  # noqa: F401  the fixture that installs MQTT.js
from tests.interop.node import Node


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    options = ("--durability", "page", "--admin", "ann:secret")
    environment = {"HEADGATE_MQTT_HMAC_PASSWORDS": "true"}
    with Node(tmp_path_factory.mktemp("node"), *options, environment=environment) as running:
        yield running


@pytest.mark.parametrize(
    ("scheme", "listener", "path"), [("mqtt", "mqtt", ""), ("mqtts", "mqtts", ""), ("ws", "websocket", "/mqtt")]
)
@pytest.mark.parametrize(("password", "wanted"), [("secret", "OK"), ("wrong", "REFUSED 134")])
def test_scram(node: Node, program: Path, scheme: str, listener: str, path: str, password: str, wanted: str) -> None:  # noqa: F811
    url = f"{scheme}://127.0.0.1:{node.port(listener)}{path}"
    command = ["node", str(program.with_name("scram.js")), url, "ann", password]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == wanted, done.stdout + done.stderr


@pytest.mark.parametrize(("secret", "accepted"), [("secret", True), ("other", False)])
def test_a_signature_of_the_client_id_in_the_place_of_the_password(node: Node, secret: str, accepted: bool) -> None:
    answered = threading.Event()
    reasons: list[Any] = []
    client = paho.Client(CallbackAPIVersion.VERSION2, "GID_x@@@1", reconnect_on_failure=False)
    client.username_pw_set("ann", base64.b64encode(hmac.digest(secret.encode(), b"GID_x@@@1", "sha1")).decode())

    def connected(client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        reasons.append(reason)
        answered.set()

    client.on_connect = connected
    client.connect("127.0.0.1", node.port("mqtt"))
    client.loop_start()
    assert answered.wait(10)
    assert reasons[0].is_failure is not accepted
    client.disconnect()
    client.loop_stop()
