"""A station that publishes its readings over MQTT, at least once each (QoS 1)."""

from __future__ import annotations

from collections.abc import Sequence

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from examples.weather.reading import Reading


def publish(host: str, port: int, readings: Sequence[Reading]) -> None:
    """Publish all readings; the broker has acknowledged each when this returns."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="station-seattle", protocol=mqtt.MQTTv5)
    client.connect(host, port)
    client.loop_start()
    try:
        sent = [client.publish(reading.path(), reading.body(), qos=1) for reading in readings]
        for one in sent:
            one.wait_for_publish(timeout=60)
            if not one.is_published():
                raise TimeoutError("a reading was not acknowledged within a minute")
    finally:
        client.disconnect()
        client.loop_stop()
