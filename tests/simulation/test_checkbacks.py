"""Check-backs on a whole node: their times, the producers that are asked, and transactions that are never decided."""

from __future__ import annotations

import pytest

from domain.message.record import Record
from protocols.grpc.messages import messaging_pb2 as pb
from tests.simulation.caller import bodies
from tests.simulation.sender import COMMIT, ROLLBACK, UNKNOWN, Sender
from tests.simulation.simple import Publisher
from tests.simulation.world import World

TOPIC, QUEUES = "sim", 8
FIRST_MS, INTERVAL_MS, MOST = 6_000, 30_000, 15
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"


def visible(world: World, topic: str = TOPIC) -> list[str]:
    """The bodies of everything readable in `topic`."""
    return sorted(bodies([record for queue in world.stored(topic, QUEUES) for record in queue]))


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_decided_halves_are_visible_or_gone_and_a_late_decision_counts(faults: str) -> None:
    world = World.started(31)
    sender = Sender(world, "p")
    halves = {name: sender.half(TOPIC, name) for name in ("commit", "rollback", "late", "unknown")}
    assert visible(world) == []
    assert sender.end(halves["commit"], COMMIT) == 0
    assert sender.end(halves["rollback"], ROLLBACK) == 0
    assert sender.end(halves["unknown"], UNKNOWN) == 0
    world.disturb(faults)
    assert visible(world) == ["commit"]
    world.clock.run_for(3 * INTERVAL_MS)
    asked = {Record(each.body).body.decode() for each in sender.questions()}
    assert asked == {"late", "unknown"}
    world.disturb(faults)
    assert sender.end(halves["late"], COMMIT) == 0, "offsets of a half message stay while it is asked about"
    assert sender.end(halves["late"], COMMIT) == 0, "repeated"
    if faults == "none":
        assert sender.end(halves["commit"], ROLLBACK) != 0, "the opposite, as long as it is remembered"
    else:
        sender.end(halves["commit"], ROLLBACK)
    world.clock.run_for(100)
    assert visible(world) == ["commit", "late"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_given_up_after_fifteen_questions_however_often_the_node_starts(seed: int, power: bool) -> None:
    """Check-backs are counted over restarts: some may be sent once more, none is omitted."""
    world = World.started(seed)
    sender = Sender(world, "p")
    sender.half(TOPIC, "open")
    asked = kills = 0
    for _ in range(60):
        world.clock.run_for(world.chance.randrange(5_000, 25_000))
        if world.chance.random() < 0.3:
            world.again(power)
            kills += 1
        asked += len(sender.questions())
        if visible(world, GIVEN_UP):
            break
    assert visible(world, GIVEN_UP) == ["open"]
    assert visible(world) == []
    assert MOST <= asked <= MOST + kills


def test_a_producer_that_has_gone_and_another_of_its_group_that_answers() -> None:
    world = World.started(33)
    first = Sender(world, "first", group="pair")
    first.half(TOPIC, "left")
    first.hang_up()
    world.clock.run_for(4 * INTERVAL_MS)
    stranger = Sender(world, "stranger", group="others")
    world.clock.run_for(2 * INTERVAL_MS)
    assert stranger.questions() == [], "not of the group"
    second = Sender(world, "second", group="pair")
    world.clock.run_for(1_000)
    (question,) = second.questions()
    fields = question.fields() or {}
    assert second.decide("left", fields["tranStateTableOffset"], fields["commitLogOffset"], COMMIT) == 0
    world.again()
    assert visible(world) == ["left"]
    world.clock.run_for(20 * INTERVAL_MS)
    assert second.questions() == []
    assert visible(world, GIVEN_UP) == []


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_who_comes_after_the_question_is_asked_at_once_and_once(faults: str) -> None:
    """A producer that connects after a check-back was due is asked at once, not at the next interval."""
    world = World.started(36)
    first = Sender(world, "first", group="late")
    for number in range(600):
        first.half(TOPIC, f"half{number}")
    first.hang_up()
    world.clock.run_for(FIRST_MS + 4_000)
    world.disturb(faults)
    second = Sender(world, "second", group="late")
    world.clock.run_for(1_000)
    for _ in range(50):
        second.beat()
    third = Sender(world, "third", group="late")
    world.clock.run_for(5_000)
    asked = [Record(each.body).body.decode() for each in (*second.questions(), *third.questions())]
    assert sorted(asked) == sorted(f"half{number}" for number in range(600)), "each of them, and each once"
    world.clock.run_for(INTERVAL_MS)
    again = [Record(each.body).body.decode() for each in (*second.questions(), *third.questions())]
    assert sorted(again) == sorted(asked), "nobody has decided: the next question has its own time"


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_transactions_over_grpc_are_decided_and_asked_about(faults: str) -> None:
    """A producer disconnects before it decides; another client of the same topic is asked, and decides."""
    world = World.started(35)
    first = Publisher(world, "first", TOPIC)
    kept = first.send("kept", kind=pb.TRANSACTION)
    dropped = first.send("dropped", kind=pb.TRANSACTION)
    first.send("left", kind=pb.TRANSACTION)
    assert visible(world) == []
    world.disturb(faults)
    assert first.end(kept.message_id, kept.transaction_id, commit=True) == pb.OK
    assert first.end(dropped.message_id, dropped.transaction_id, commit=False) == pb.OK
    first.hang_up()
    second = Publisher(world, "second", TOPIC)
    world.disturb(faults)
    world.clock.run_for(FIRST_MS + INTERVAL_MS + 2_000)
    question = second.questions()[0]
    assert question.message.body == b"left"
    message_id = question.message.system_properties.message_id
    assert second.end(message_id, question.transaction_id, commit=True) == pb.OK
    world.clock.run_for(100)
    assert visible(world) == ["kept", "left"]
    world.clock.run_for(2 * INTERVAL_MS)
    assert second.questions() == []
