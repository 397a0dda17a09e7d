"""Run it: `python -m examples.rocketmq_cluster`. It starts an Apache RocketMQ cluster of two brokers, and before it two
gateways with the state node that they have in common.

It publishes by MQTT at one gateway and receives at the other, reads the message at Apache's own side, and sends there. With
--stay it leaves everything running until Ctrl-C, and prints the ports. --home DIR: a distribution of Apache RocketMQ 5.x;
without it, Maven brings the packages.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from contextlib import ExitStack
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
                return with_gateways(folder, nameserver, given.stay)
        except NoApacheError as error:
            print(f"Apache RocketMQ was not started: {error}", file=sys.stderr)
            return 2


def with_gateways(folder: Path, nameserver: str, stay: bool) -> int:
    """Start a state node and two gateways, and show them."""
    store = ("--store", f"rocketmq://{nameserver}")
    with ExitStack() as running:
        state = NodeProcess(folder, "state", "--roles", "store", *store)
        running.callback(state.stop)
        where = f"127.0.0.1:{state.ports['remoting']}"
        gateways = []
        for name in ("gateway-1", "gateway-2"):
            gateways.append(NodeProcess(folder, name, "--roles", "gateway", *store, "--state", where))
            running.callback(gateways[-1].stop)
        for node in (state, *gateways):
            node.wait()
        for number, gateway in enumerate(gateways, 1):
            print(f"gateway {number}: " + "  ".join(f"{name} {port}" for name, port in gateway.ports.items()))
        if stay:
            threading.Event().wait()
        first, second = gateways
        return run(first, second, nameserver)


def run(first: NodeProcess, second: NodeProcess, nameserver: str) -> int:
    """MQTT in at one gateway, out at the other and at Apache's own side, and the reverse."""
    subscribed, arrived = threading.Event(), threading.Event()
    publisher, listener = mqtt.Client(CallbackAPIVersion.VERSION2), mqtt.Client(CallbackAPIVersion.VERSION2)
    listener.on_subscribe = lambda *_: subscribed.set()
    listener.on_message = lambda _client, _data, message: said(message, arrived)
    for client, gateway in ((publisher, first), (listener, second)):
        client.connect("127.0.0.1", gateway.ports["mqtt"])
        client.loop_start()
    listener.subscribe("rooms/#", 1)
    if not subscribed.wait(WAIT_S):
        print("not subscribed")
        return 1
    publisher.publish("rooms/kitchen", b"21.5", 1).wait_for_publish(WAIT_S)
    with Client(nameserver) as near:
        if not arrived.wait(WAIT_S):
            print("the message did not come back")
            return 1
        stored = sum(edges.after for edges in near.bounds(near.route("rooms").queues).values())
        print(f"published by MQTT: Apache's brokers have {stored} message of topic rooms")
        arrived.clear()
        near.send("rooms", b"sent at Apache's own side")
    came = arrived.wait(WAIT_S)
    for client in (publisher, listener):
        client.disconnect()
        client.loop_stop()
    return 0 if came and stored == 1 else 1


def said(message: mqtt.MQTTMessage, arrived: threading.Event) -> None:
    """A message has come by MQTT."""
    print(f"by MQTT: {message.topic}: {message.payload.decode()}")
    arrived.set()


if __name__ == "__main__":
    sys.exit(main())
