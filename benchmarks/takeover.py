"""Time from the kill of a gateway to the first acknowledgement at another one, for each protocol.

    python -m benchmarks.takeover --rounds 5

A store and two gateways run, and one gateway is killed. By HTTP and by MQTT, the client has got a message from it that is
not yet acknowledged, and acknowledges it at the other gateway. By the other protocols a client begins there and has a
message acknowledged; that time has the start of its process in it, some milliseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from benchmarks.generator import load
from benchmarks.servers import Server, gateway_and_store, gateway_before
from benchmarks.shapes import SHAPES

BEGINNING = ("remoting-send", "grpc-send", "coap")
"""Shapes of which one message is sent at the other gateway."""
WAIT_S = 30.0


def post(port: int, path: str, body: bytes = b"") -> dict[str, list[dict[str, str]]]:
    """The JSON of the answer to a POST."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        text = answer.read()
    found: dict[str, list[dict[str, str]]] = json.loads(text) if text else {}
    return found


def by_http(first: Server, second: Server) -> Callable[[], None]:
    """Receive at the first gateway; acknowledge at the second one."""
    post(first.ports["http"], "/v1/topics/moved/messages", b"x")
    found = post(first.ports["http"], "/v1/groups/moved/topics/moved:receive?max=1&wait_ms=5000&from=first")
    receipts = json.dumps({"receipts": [each["receipt"] for each in found["messages"]]}).encode()

    def acknowledge() -> None:
        post(second.ports["http"], "/v1/groups/moved/topics/moved:ack", receipts)

    return acknowledge


def session(on_message: Callable[[mqtt.Client, mqtt.MQTTMessage], None], port: int) -> mqtt.Client:
    """A connection of one client with a session that lasts; deliveries are acknowledged by hand."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, "moved", protocol=MQTTProtocolVersion.MQTTv5, manual_ack=True)
    lasting = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    lasting.SessionExpiryInterval = 600
    client.on_message = lambda _client, _data, message: on_message(client, message)
    client.connect("127.0.0.1", port, clean_start=False, properties=lasting)
    client.loop_start()
    return client


def by_mqtt(first: Server, second: Server) -> Callable[[], None]:
    """A delivery that the client had not acknowledged when its gateway died comes again at the second one."""
    came, acknowledged = threading.Event(), threading.Event()

    def take(client: mqtt.Client, message: mqtt.MQTTMessage) -> None:
        client.ack(message.mid, message.qos)
        acknowledged.set()

    client = session(lambda _client, _message: came.set(), first.ports["mqtt"])
    client.subscribe("moved/#", 1)
    client.publish("moved/1", b"x", 1).wait_for_publish(WAIT_S)
    if not came.wait(WAIT_S):
        raise RuntimeError("nothing was delivered")
    client.loop_stop()

    def acknowledge() -> None:
        again = session(take, second.ports["mqtt"])
        if not acknowledged.wait(WAIT_S):
            raise RuntimeError("nothing came at the other gateway")
        again.disconnect()
        again.loop_stop()

    return acknowledge


def beginning(name: str) -> Callable[[Server, Server], Callable[[], None]]:
    """A client that begins at the second gateway."""

    def prepare(_first: Server, second: Server) -> Callable[[], None]:
        one = replace(SHAPES[name], conns=1, window=1)
        load(second, one, 1)
        return lambda: _sent(second, name)

    return prepare


def _sent(second: Server, name: str) -> None:
    if load(second, replace(SHAPES[name], conns=1, window=1), 1)["errors"]:
        raise RuntimeError(f"{name}: the message was not acknowledged")


def once(prepare: Callable[[Server, Server], Callable[[], None]]) -> float:
    """Milliseconds of one round."""
    with tempfile.TemporaryDirectory(prefix="takeover-") as folder:
        first = gateway_and_store(Path(folder), "flushed")
        try:
            second = gateway_before(Path(folder), first)
            try:
                acknowledge = prepare(first, second)
                began = time.perf_counter()
                first.roles["gateway"][0].kill()
                acknowledge()
                return (time.perf_counter() - began) * 1_000
            finally:
                second.stop()
        finally:
            first.stop()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print("| Protocol | Median ms | Longest ms |\n|---|---|---|", flush=True)
    table: dict[str, Callable[[Server, Server], Callable[[], None]]] = {
        "HTTP: a receipt of the killed one": by_http,
        "MQTT: the session, a delivery again": by_mqtt,
        **{f"{name}: a client begins": beginning(name) for name in BEGINNING},
    }
    for name, prepare in table.items():
        try:
            took = [once(prepare) for _ in range(options.rounds)]
        except (OSError, RuntimeError, ValueError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        print(f"| {name} | {statistics.median(took):.0f} | {max(took):.0f} |", flush=True)


if __name__ == "__main__":
    main()
