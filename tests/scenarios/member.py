"""One member of a consumer group in a process of its own, so that it can be killed.

Arguments: kind (mqtt, http or grpc), port, group, topic. For each message it prints `got <body> <wall clock>`, waits a
little, acknowledges, and prints `done <body> <wall clock>`.
"""

from __future__ import annotations

import base64
import json
import sys
import time
import urllib.request

LEASE_MS = 10_000
"""Lease of HTTP and gRPC members in ms; 10 s is the shortest that the gRPC SDK requests."""
WORK_S = 0.01


def say(word: str, body: str) -> None:
    print(word, body, f"{time.time():.3f}", flush=True)


def by_mqtt(port: int, group: str, topic: str) -> None:
    """Consume with paho without its thread: outside of callbacks paho writes an acknowledgement to the socket at once."""
    import paho.mqtt.client as paho
    from paho.mqtt.enums import CallbackAPIVersion

    came: list[paho.MQTTMessage] = []
    client = paho.Client(CallbackAPIVersion.VERSION2, manual_ack=True)
    client.on_message = lambda client, data, message: came.append(message)
    client.on_subscribe = lambda *rest: say("ready", "-")
    client.connect("127.0.0.1", port)
    client.subscribe(f"$share/{group}/{topic}/#", 1)
    while client.loop(0.5) == paho.MQTT_ERR_SUCCESS:
        while came:
            message = came.pop(0)
            say("got", message.payload.decode())
            time.sleep(WORK_S)
            client.ack(message.mid, message.qos)
            say("done", message.payload.decode())


def by_http(port: int, group: str, topic: str) -> None:
    """Consume with the HTTP API, a few messages at a time."""
    place = f"http://127.0.0.1:{port}/v1/groups/{group}/topics/{topic}"

    def post(path: str, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(place + path, body, headers), timeout=40) as answer:
            return bytes(answer.read())

    say("ready", "-")
    while True:
        answer = post(f":receive?max=4&wait_ms=2000&invisible_ms={LEASE_MS}", b"")
        for message in json.loads(answer)["messages"] if answer else ():
            body = base64.b64decode(message["body"]).decode()
            say("got", body)
            time.sleep(WORK_S)
            post(":ack", json.dumps({"receipts": [message["receipt"]]}).encode())
            say("done", body)


def by_grpc(port: int, group: str, topic: str) -> None:
    """Consume with the official Python SDK."""
    from rocketmq import (
        ClientConfiguration,
        Credentials,
        FilterExpression,
        SimpleConsumer,
    )

    configuration = ClientConfiguration(f"127.0.0.1:{port}", Credentials())
    consumer = SimpleConsumer(configuration, group, {topic: FilterExpression("*")}, await_duration=2)
    consumer.startup()
    say("ready", "-")
    while True:
        for message in consumer.receive(4, LEASE_MS // 1000) or ():
            say("got", message.body.decode())
            time.sleep(WORK_S)
            consumer.ack(message)
            say("done", message.body.decode())


if __name__ == "__main__":
    kind, port, group, topic = sys.argv[1:]
    {"mqtt": by_mqtt, "http": by_http, "grpc": by_grpc}[kind](int(port), group, topic)
