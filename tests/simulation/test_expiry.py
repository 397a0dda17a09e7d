"""An expired message reaches nobody, by whatever protocol it is read (docs/model.md)."""

from __future__ import annotations

import pytest

from tests.simulation.carried import table
from tests.simulation.speakers import DELIVERY, EVENT, EXPIRY, Said, speakers
from tests.simulation.world import World

LIVE = ("MQTT 3.1.1", "MQTT 5", "CloudEvents, MQTT 5")
"""Readers that get a message when it arrives."""
AN_EVENT = {"specversion": "1.0", "id": "i", "source": "/s", "type": "t"}


@pytest.mark.parametrize("reader", table())
@pytest.mark.parametrize("sender", ["Remoting", "gRPC", "HTTP", "CloudEvents, MQTT 5"])
def test_nobody_gets_a_message_after_its_expiry(sender: str, reader: str) -> None:
    world = World.started(7)
    world.clock.run_for(200)
    clients = speakers(world)
    now_ms = world.clock.wall_ms()
    lives: list[tuple[bytes, dict[str, int]]] = [
        (b'"brief"', {EXPIRY: now_ms + 2_000}),
        (b'"too late"', {EXPIRY: now_ms + 2_000, DELIVERY: now_ms + 4_000}),
        (b'"long"', {EXPIRY: now_ms + 60_000}),
        (b'"endless"', {}),
    ]
    for body, times in lives:
        clients[sender].send(Said(body, {EVENT: AN_EVENT, "content type": "application/json", **times}))
    world.clock.run_for(6_000)
    told = [said.body for said in clients[reader].heard()]
    assert told == ([b'"brief"', b'"long"', b'"endless"'] if reader in LIVE else [b'"long"', b'"endless"'])
