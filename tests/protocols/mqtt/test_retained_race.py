"""A retained message that is published while its topic is subscribed: it comes once, as the value or live (MQTT 5.0, 4.3.3)."""

from __future__ import annotations

import pytest

from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Publish
from protocols.mqtt.subscribe import Subscribe
from tests.protocols.mqtt.stage import Broker, Client, bodies

STEPS = 60
STEP_MS = 0.01


def raced(broker: Broker, number: int, version: int, clean: bool, first: str, ms: float) -> tuple[Client, list[bytes]]:
    """Publish and subscribe `ms` apart, `first` first; returns the subscriber and what it has received."""
    path = f"t/{number}"
    sender = broker.joined(f"sender{number}", version)
    sender.publish(path, b"old", 2, 1, retain=True)
    sender.take()
    client = broker.client(version)
    client.connect(f"listener{number}", clean, expiry_s=1_000 if version == 5 and not clean else None)
    publish = Publish(path.encode(), b"new", 2, True, False, 2, NONE)
    subscribe = Subscribe(7, [(path, 2)], NONE)
    for each in ("publish", "subscribe") if first == "publish" else ("subscribe", "publish"):
        if each == "publish":
            sender.put(publish, wait=False)
        else:
            client.put(subscribe, wait=False)
        broker.run(ms)
    broker.run(100)
    got = client.messages()
    broker.run(100)
    return client, bodies(got + client.messages())


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("first", ["publish", "subscribe"])
def test_it_comes_once_and_nothing_older_after_it(version: int, clean: bool, first: str) -> None:
    broker = Broker()
    seen = [raced(broker, number, version, clean, first, number * STEP_MS)[1] for number in range(STEPS)]
    assert [each for each in seen if each not in ([b"new"], [b"old", b"new"])] == []
