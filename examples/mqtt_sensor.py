"""MQTT 5 with paho-mqtt: subscribe, publish, and receive the message: `python -m examples.mqtt_sensor [host:port]`."""

from __future__ import annotations

import sys
import threading

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion


def main(address: str = "127.0.0.1:1883") -> None:
    """Publish to home/kitchen/temperature, which any other protocol reads in topic `home`."""
    host, _, port = address.rpartition(":")
    arrived = threading.Event()

    def connected(client: mqtt.Client, *_: object) -> None:
        client.subscribe("home/+/temperature", qos=1)

    def subscribed(client: mqtt.Client, *_: object) -> None:
        client.publish("home/kitchen/temperature", b"21.5", qos=1)

    def received(_client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
        print(f"{message.topic}: {message.payload.decode()}")
        arrived.set()

    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="example", protocol=mqtt.MQTTv5)
    client.on_connect, client.on_subscribe, client.on_message = connected, subscribed, received
    client.connect(host, int(port))
    client.loop_start()
    try:
        if not arrived.wait(10):
            raise TimeoutError("the message did not come back within 10 s")
    finally:
        client.disconnect()
        client.loop_stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
