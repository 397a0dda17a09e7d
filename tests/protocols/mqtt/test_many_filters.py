"""Many filters in one SUBSCRIBE or UNSUBSCRIBE: each is answered by its own code [MQTT-3.8.4-6], [MQTT-3.11.3-1]."""

from __future__ import annotations

import pytest

from protocols.mqtt.connect import Disconnect
from protocols.mqtt.publish import Publish
from protocols.mqtt.subscribe import FILTERS_MAX, Suback, Subscribe, Unsubscribe
from protocols.mqtt.subscriptions import SUBSCRIBED_MAX
from tests.protocols.mqtt.stage import Broker


@pytest.mark.parametrize(("version", "refused"), [(4, 0x80), (5, 0x97)])
@pytest.mark.parametrize("beyond", [0, 1, FILTERS_MAX - SUBSCRIBED_MAX])
def test_filters_beyond_those_of_a_session_are_refused_each(version: int, refused: int, beyond: int) -> None:
    client = Broker().joined("c", version)
    client.put(Subscribe(1, [(f"t/m/{number}", 1) for number in range(SUBSCRIBED_MAX + beyond)]))
    answer = client.only(Suback)
    assert answer.codes == b"\x01" * SUBSCRIBED_MAX + bytes([refused]) * beyond
    client.publish(f"t/m/{SUBSCRIBED_MAX - 1}", b"x", 0)
    assert [packet.body for packet in client.take() if isinstance(packet, Publish)] == [b"x"]


def test_a_session_that_is_full_is_refused_more() -> None:
    client = Broker().joined("c", 5)
    client.put(Subscribe(1, [(f"t/m/{number}", 0) for number in range(SUBSCRIBED_MAX)]))
    client.take()
    client.put(Subscribe(2, [("t/m/0", 1), ("t/other", 1)]))
    assert client.only(Suback).codes == b"\x01\x97"


def test_all_filters_of_an_unsubscribe_are_removed() -> None:
    client = Broker().joined("c", 5)
    client.put(Subscribe(1, [(f"t/m/{number}", 0) for number in range(SUBSCRIBED_MAX)]))
    client.take()
    client.put(Unsubscribe(2, [f"t/m/{number}" for number in reversed(range(FILTERS_MAX))]))
    answer = client.only(Suback)
    assert answer.codes == b"\x11" * (FILTERS_MAX - SUBSCRIBED_MAX) + b"\x00" * SUBSCRIBED_MAX


@pytest.mark.parametrize("un", [False, True])
def test_a_packet_with_more_filters_than_a_turn_handles_ends_the_connection(un: bool) -> None:
    client = Broker().joined("c", 5)
    names = ["t"] * (FILTERS_MAX + 1)
    client.put(Unsubscribe(1, names) if un else Subscribe(1, [(name, 1) for name in names]))
    assert client.only(Disconnect).code == 0x97
    assert client.gone
