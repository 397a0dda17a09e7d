"""The values of `$SYS` for MQTT clients, and the metrics about MQTT clients."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from tests.interop.node import Node
from tests.patience import until


def test_a_node_that_stops_tells_its_clients_and_has_counted_their_messages(tmp_path: Path) -> None:
    reasons: list[int] = []
    got: list[Any] = []
    ready, heard, gone = threading.Event(), threading.Event(), threading.Event()
    with Node(tmp_path, "--durability", "page") as node:
        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5, reconnect_on_failure=False)

        def disconnected(client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
            reasons.append(reason.value)
            gone.set()

        def on_message(client: Any, data: Any, message: paho.MQTTMessage) -> None:
            got.append(message.payload)
            if len(got) == 4:
                heard.set()

        client.on_disconnect = disconnected
        client.on_message = on_message
        client.on_subscribe = lambda *rest: ready.set()
        client.connect("127.0.0.1", node.port("mqtt"))
        client.loop_start()
        client.subscribe("t/#", 2)
        assert ready.wait(10)
        for qos in (0, 1, 2, 2):
            client.publish("t/x", b"1", qos).wait_for_publish(10)
        assert heard.wait(10)
        lines = node.admin("/metrics").splitlines()
        assert 'headgate_messages_in_total{protocol="mqtt"} 4.0' in lines
        assert 'headgate_messages_out_total{protocol="mqtt"} 4.0' in lines
        assert 'headgate_mqtt_lost_total{reason="slow-reader"} 0.0' in lines
        assert "headgate_watch_dropped_total 0.0" in lines
        facts: dict[str, Any] = {}
        client.on_message = lambda client, data, message: facts.update({message.topic: message.payload})
        client.subscribe("$SYS/broker/#", 0)
        until(lambda: "$SYS/broker/version" in facts, 15)
        assert facts["$SYS/broker/clients/connected"] == b"1"
        assert facts["$SYS/broker/messages/received"] == b"4"
        assert node.stop() == 0
        assert gone.wait(10)
    client.loop_stop()
    assert reasons == [0x8B]
