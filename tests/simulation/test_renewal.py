"""Leases over gRPC on a whole node: renewed for up to 3 h while the push consumer works, released when it or the node ends."""

from __future__ import annotations

import pytest

from protocols.grpc.messages import messaging_pb2 as pb
from tests.simulation.simple import Publisher, Receiver, said
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP = "sim", "sim-renewal"
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
LEASE_MS = 60_000


def at_work(seed: int) -> tuple[World, Receiver, pb.Message]:
    """A push consumer that has received a message."""
    world = World.started(seed)
    Tool(world, "tool").topic(TOPIC, 1)
    Publisher(world, "p", TOPIC).send("slow")
    worker = Receiver(world, "worker", GROUP, TOPIC, kind=pb.PUSH_CONSUMER)
    world.clock.run_for(100)
    (message,) = worker.receive()
    return world, worker, message


def work(world: World, worker: Receiver, ms: int) -> None:
    """Advance the time, with a heartbeat every 20 s."""
    end = world.clock.wall_ms() + ms
    while world.clock.wall_ms() < end:
        worker.beat()
        world.clock.run_for(min(20_000, end - world.clock.wall_ms()))


def test_renewed_while_the_consumer_works_and_acknowledged_by_its_first_handle() -> None:
    world, worker, message = at_work(131)
    other = Receiver(world, "other", GROUP, TOPIC)
    for _ in range(3):
        work(world, worker, 20 * MINUTE_MS)
        assert other.receive() == []
    assert worker.ack(message) == pb.OK
    world.again()
    world.clock.run_for(2 * LEASE_MS)
    assert other.receive() == []


def test_after_three_hours_it_is_another_ones() -> None:
    world, worker, _ = at_work(132)
    work(world, worker, 3 * HOUR_MS - 2 * MINUTE_MS)
    other = Receiver(world, "other", GROUP, TOPIC)
    assert other.receive() == []
    work(world, worker, 5 * MINUTE_MS)
    (again,) = other.receive()
    assert again.system_properties.delivery_attempt == 2


@pytest.mark.parametrize("faults", ["gone", "kill", "power"])
def test_free_within_a_minute_when_the_consumer_or_the_node_is_gone(faults: str) -> None:
    world, worker, _ = at_work(133)
    work(world, worker, 10 * MINUTE_MS)
    if faults != "gone":
        world.again(power=faults == "power")
    worker.hang_up()
    other = Receiver(world, "other", GROUP, TOPIC)
    gone_ms = world.clock.wall_ms()
    while not (found := other.receive()):
        assert world.clock.wall_ms() - gone_ms <= LEASE_MS + 6_000
    assert said(found) == ["slow"]
    assert other.ack(found[0]) == pb.OK
