"""Transactions under a seed: the node is killed, links break, producers forget and repeat decisions.

Invariants of every run: at the end no transaction is open; a committed message is visible exactly once, a rolled back message
never; producers are asked about undecided transactions. A timer of 300 days is delivered at its time, with restarts.
"""

from __future__ import annotations

import random

import pytest

from domain.errors import Failure
from domain.message.message import Message, Placed
from domain.message.record import Record
from domain.transaction import Recalled, RecallMessage
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.simulation.transactor import COMMIT, Transactor
from tests.simulation.world import World

TOPIC, QUEUES = "sim", 8
FAULTS_S = 20.0
END_MS = 400_000
DAY_MS = 86_400_000


def run(seed: int, power: bool) -> tuple[World, list[Transactor]]:
    """Run once: transactions with faults, then without faults until all are decided."""
    world = World.started(seed)
    dial = lambda client: world.dial("remoting", client)  # noqa: E731 - one client after another gets it
    decisions: dict[str, int] = {}
    clients = [
        Transactor(f"t{number}", world.clock, random.Random(seed * 100 + number), dial, TOPIC, 40, decisions)
        for number in range(3)
    ]
    for client in clients:
        client.start()
    world.endure(FAULTS_S, power)

    def over() -> bool:
        assert world.parts is not None
        return all(client.done for client in clients) and world.parts.store.figures()["transactions_open"] == 0

    world.clock.run_until(over, END_MS)
    world.clock.run_for(1_000)  # the last decisions become durable
    return world, clients


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_every_transaction_is_decided_once(seed: int, power: bool) -> None:
    world, clients = run(seed, power)
    assert world.parts is not None
    decisions = clients[0].decisions
    assert len(decisions) == 120
    seen = sorted(record.body.decode() for queue in world.stored(TOPIC, QUEUES) for record in queue)
    assert seen == sorted(message for message, what in decisions.items() if what == COMMIT)
    assert sum(len(client.asked) for client in clients) > 10, "what is left open is asked about"


def test_a_seed_repeats_exactly() -> None:
    assert run(3, power=False)[0].ledger.digest() == run(3, power=False)[0].ledger.digest()


def test_a_timer_of_300_days_comes_at_its_time_and_a_recalled_one_never() -> None:
    world = World.started(1)
    assert world.parts is not None
    world.clock.run_for(100)
    due = world.clock.wall_ms() + 300 * DAY_MS
    found: list[list[Placed] | Failure] = []
    messages = [
        Message(TOPIC, name.encode(), f"UNIQ_KEY\x01{name}\x02TIMER_DELIVER_MS\x01{due}\x02".encode(), message_id=name)
        for name in ("kept", "gone")
    ]
    world.parts.handler.sending.submit(messages, found.append)
    world.clock.run_for(100)
    placed = found[0]
    assert isinstance(placed, list)
    recorder = EventRecorder()
    world.parts.handler.handle(recorder.connection, RecallMessage(1, TOPIC, placed[1].recall_handle))
    world.clock.run_for(100)
    assert recorder.take() == [Recalled(1, "gone")]
    for _ in range(10):
        world.kill(power=False)
        world.clock.step_wall(29 * DAY_MS)
        world.start()
        world.clock.run_for(15_000)
        assert bodies(world) == []
    world.clock.stall(due - world.clock.wall_ms() - 2_000)
    world.clock.run_for(1_990)
    assert bodies(world) == []
    world.clock.run_for(3_000)
    assert bodies(world) == ["kept"]
    [record] = [record for queue in world.stored(TOPIC, QUEUES) for record in queue]
    assert due <= record.store_ms <= due + 1_500
    world.clock.run_for(60_000)
    assert bodies(world) == ["kept"]


def bodies(world: World) -> list[str]:
    """The bodies of all visible messages."""
    return [Record(record.data).body.decode() for queue in world.stored(TOPIC, QUEUES) for record in queue]
