"""Run it: `python -m examples.cluster`. It starts a store and three gateways, and shows what holds across them.

With --stay it leaves them running until Ctrl-C, and prints their ports.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from examples.cluster.processes import NodeProcess, cluster


def main() -> int:
    """Start the processes, and send through one gateway what another one delivers and a third one acknowledges."""
    parser = argparse.ArgumentParser(prog="python -m examples.cluster", description=__doc__)
    parser.add_argument("--stay", action="store_true", help="leave the cluster running until Ctrl-C")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cluster-") as temporary, cluster(Path(temporary), 3) as gateways:
        for number, node in enumerate(gateways, 1):
            print(f"gateway {number}: " + "  ".join(f"{name} {port}" for name, port in node.ports.items()))
        if given.stay:
            threading.Event().wait()
        return run(gateways)


def run(gateways: list[NodeProcess]) -> int:
    """The exit status: 0 when all came as it should."""
    first, second, third = gateways
    telephone(first, second)
    post(first, "/v1/topics/orders/messages", b"one bicycle")
    taken = post(second, "/v1/groups/shop/topics/orders:receive?max=1&wait_ms=10000&invisible_ms=60000")["messages"][0]
    print(f"sent at gateway 1, received at gateway 2: {base64.b64decode(taken['body']).decode()}")
    second.kill()
    print("gateway 2 is killed, with the message in hand")
    settled = post(third, "/v1/groups/shop/topics/orders:ack", json.dumps({"receipts": [taken["receipt"]]}).encode())
    if any(result.get("error") for result in settled["results"]):
        print(f"not acknowledged: {settled}")
        return 1
    print("acknowledged at gateway 3")
    if post(first, "/v1/groups/shop/topics/orders:receive?max=1&wait_ms=500") is not None:
        print("the message came again")
        return 1
    print("gateway 1 has nothing left to deliver")
    return 0


def telephone(here: NodeProcess, there: NodeProcess) -> None:
    """Publish by MQTT at one gateway, and receive at another."""
    listens, arrived = threading.Event(), threading.Event()
    listener = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="listener")
    caller = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="caller")

    def received(_client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
        print(f"published at gateway 1, received at gateway 2: {message.topic}: {message.payload.decode()}")
        arrived.set()

    listener.on_connect = lambda client, *_: client.subscribe("hall/#", qos=1)
    listener.on_subscribe = lambda *_: listens.set()
    listener.on_message = received
    for client, node in ((listener, there), (caller, here)):
        client.connect("127.0.0.1", node.ports["mqtt"])
        client.loop_start()
    try:
        listens.wait(10)
        caller.publish("hall/telephone", b"hello", qos=1)
        if not arrived.wait(10):
            raise TimeoutError("the message did not come within 10 s")
    finally:
        for client in (listener, caller):
            client.disconnect()
            client.loop_stop()


def post(node: NodeProcess, path: str, body: bytes = b"") -> Any:
    """Send a POST. Returns the JSON of the answer; None: it has no body."""
    request = urllib.request.Request(f"http://127.0.0.1:{node.ports['http']}{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text else None


if __name__ == "__main__":
    sys.exit(main())
