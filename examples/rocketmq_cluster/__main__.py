"""Run it: `python -m examples.rocketmq_cluster`. It starts an Apache RocketMQ cluster of two brokers and a gateway before it.

It publishes by MQTT and reads the message at Apache's own side, sends there and receives by MQTT. With --stay it leaves
everything running until Ctrl-C, and prints the ports. --home DIR: a distribution of Apache RocketMQ 5.x; without it, Maven
brings the packages.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from examples.cluster.processes import NodeProcess
from examples.rocketmq_cluster.apache import NoApacheError, apache
from gateway.client.client import Client

WAIT_S = 60.0


def main() -> int:
    """The exit status: 0 when all came as it should, 2 when Apache RocketMQ cannot be started."""
    parser = argparse.ArgumentParser(prog="python -m examples.rocketmq_cluster", description=__doc__)
    parser.add_argument("--stay", action="store_true", help="leave everything running until Ctrl-C")
    parser.add_argument("--home", default="", metavar="DIR", help="a distribution of Apache RocketMQ 5.x")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rocketmq-cluster-") as temporary:
        folder = Path(temporary)
        try:
            with apache(folder / "apache", given.home) as (nameserver, brokers):
                print(f"name server {nameserver}, brokers {', '.join(each.address for each in brokers)}")
                return with_gateway(folder, nameserver, given.stay)
        except NoApacheError as error:
            print(f"Apache RocketMQ was not started: {error}", file=sys.stderr)
            return 2


def with_gateway(folder: Path, nameserver: str, stay: bool) -> int:
    """Start a gateway, and show it."""
    gateway = NodeProcess(folder, "gateway", "--roles", "gateway", "--store", f"rocketmq://{nameserver}")
    try:
        gateway.wait()
        print("gateway: " + "  ".join(f"{name} {port}" for name, port in gateway.ports.items()))
        if stay:
            threading.Event().wait()
        return run(gateway, nameserver)
    finally:
        gateway.stop()


def run(gateway: NodeProcess, nameserver: str) -> int:
    """MQTT in, Apache's own side out, and the reverse."""
    subscribed, arrived = threading.Event(), threading.Event()
    listener = mqtt.Client(CallbackAPIVersion.VERSION2)
    listener.on_subscribe = lambda *_: subscribed.set()
    listener.on_message = lambda _client, _data, message: said(message, arrived)
    listener.connect("127.0.0.1", gateway.ports["mqtt"])
    listener.loop_start()
    listener.subscribe("rooms/#", 1)
    if not subscribed.wait(WAIT_S):
        print("not subscribed")
        return 1
    listener.publish("rooms/kitchen", b"21.5", 1).wait_for_publish(WAIT_S)
    with Client(nameserver) as near:
        if not arrived.wait(WAIT_S):
            print("the message did not come back")
            return 1
        stored = sum(edges.after for edges in near.bounds(near.route("rooms").queues).values())
        print(f"published by MQTT: Apache's brokers have {stored} message of topic rooms")
        arrived.clear()
        near.send("rooms", b"sent at Apache's own side")
    came = arrived.wait(WAIT_S)
    listener.disconnect()
    listener.loop_stop()
    return 0 if came and stored == 1 else 1


def said(message: mqtt.MQTTMessage, arrived: threading.Event) -> None:
    """A message has come by MQTT."""
    print(f"by MQTT: {message.topic}: {message.payload.decode()}")
    arrived.set()


if __name__ == "__main__":
    sys.exit(main())
