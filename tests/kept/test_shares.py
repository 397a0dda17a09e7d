"""Shared subscriptions as 53e9d8e2 stored them, where all filters of one share name were one group: nothing waiting is lost.

Sessions `up` ($share/g/t/+/up), `status` ($share/g/t/+/status, QoS 2) and `anything` ($share/g/+/1/up) are kept. 0 to 3 and 10
to 13 were acknowledged; 4 and 14 were in flight to `up` and `status` when these left; 5 to 8 (t/2/up) and 15 to 18 (t/2/status)
came while nobody was there.
"""

from __future__ import annotations

from typing import Final

import pytest

from domain.address import share_group
from tests.gateway.usecase.sessions.shared.test_shared_subscriptions import member, numbers, send, sender
from tests.kept.node import disk_of, unpacked
from tests.kept.vectors import DATA
from tests.protocols.mqtt.stage import Broker

WAITING: Final = {"up": [4, 5, 6, 7, 8], "status": [14, 15, 16, 17, 18], "anything": [4]}


def opened() -> Broker:
    broker = Broker()
    broker.disk = disk_of(unpacked(DATA / "shares.tar.xz"), broker.clock)
    broker.start()
    return broker


def back(broker: Broker, name: str) -> list[int]:
    """The messages that a session gets when its client comes back."""
    client = broker.client(5)
    assert client.connect(name, clean=False, expiry_s=600).present
    broker.run(1_000)
    return numbers(client.messages())


@pytest.mark.parametrize("order", [("up", "status", "anything"), ("anything", "status", "up")])
@pytest.mark.parametrize("killed", [False, True])
def test_each_session_gets_what_waits_for_its_filter(order: tuple[str, ...], killed: bool) -> None:
    broker = opened()
    if killed:
        broker.run(1_000)
        broker.kill()
    for name in order:
        assert back(broker, name) == WAITING[name]
    send(sender(broker), 1, "t/1/up", first=20)
    assert [numbers(client.messages()) for client in broker.clients[:3]] == [[20] if name != "status" else [] for name in order]


def test_a_session_that_comes_late_misses_nothing_to_members_of_the_group_of_the_name() -> None:
    broker = opened()
    broker.run(1_000)
    assert broker.store.metadata.group(share_group("g", "t/+/up")) is not None, "they begin before any client comes"
    everything = member(broker, "new", "$share/g/t/#")
    assert len(everything.messages()) >= 9
    broker.run(1_000)
    assert back(broker, "up") == WAITING["up"]
    assert back(broker, "status") == WAITING["status"]
