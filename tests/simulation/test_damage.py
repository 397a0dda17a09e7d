"""A whole node on a full disk, and with a damaged record: who is not concerned notices nothing, and nothing is lost."""

from __future__ import annotations

import errno
import os

import pytest

from domain.store.store_event import StoreEventKind
from gateway.node.settings import Config
from protocols.remoting import codes
from tests.simulation.caller import bodies
from tests.simulation.http_caller import HttpCaller
from tests.simulation.kit.disk import Operation
from tests.simulation.sender import Sender
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC = "sim"


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
@pytest.mark.parametrize("seed", range(6))
def test_a_disk_that_fills_up_and_gets_room_again(seed: int, power: bool) -> None:
    """Sends are refused or time out meanwhile, and succeed afterwards without a restart; what was acknowledged is there."""
    world = World.started(seed)
    Tool(world, "tool").topic(TOPIC, 1)
    sender = Sender(world, "p")
    opaques: dict[int, str] = {}
    full = False

    def refuse(operation: Operation) -> None:
        if full and operation.kind in ("append", "create", "replace"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    world.disk.watch = refuse
    for number in range(60):
        full = 20 <= number < 40
        opaques[sender.begin(TOPIC, b"%d" % number, queue=0)] = str(number)
        world.clock.run_for(world.chance.choice((1, 150, 600)))
        if number == 40:
            world.clock.run_for(2_000)
    world.clock.run_for(8_000)
    answers = {text: sender.answer(opaque) for opaque, text in opaques.items()}
    assert all(answer is not None for answer in answers.values()), "every send is answered"
    acknowledged = [text for text, answer in answers.items() if answer is not None and answer.code == 0]
    assert set(acknowledged) >= {str(number) for number in range(45, 60)}, "writes go on by themselves"
    refused = {text for text, answer in answers.items() if answer is not None and answer.code not in (0, 10)}
    assert refused, "a full disk refuses"
    kinds = [event.kind for event in world.events]
    assert kinds == [StoreEventKind.FULL, StoreEventKind.RESUMED]
    world.disk.watch = None
    world.again(power)
    found = bodies(world.stored(TOPIC, 1)[0])
    assert len(found) == len(set(found)), "once"
    assert set(found) >= set(acknowledged)
    assert not refused & set(found), "a refused send is not stored"


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_a_deletion_that_is_refused_for_want_of_room_deletes_nothing(power: bool) -> None:
    """mqadmin is told why; then messages go on at the next offset, and all are there after the end."""
    world = World.started(1)
    tool = Tool(world, "tool")
    tool.topic(TOPIC, 1)
    sender = Sender(world, "p")
    for number in range(5):
        sender.send(TOPIC, b"%d" % number, queue=0)
    world.disk.free = 0.01
    world.clock.run_for(1_100)
    answer = tool.call(codes.DELETE_TOPIC, {"topic": TOPIC})
    assert answer.code != 0
    assert "of the volume is free" in answer.remark
    assert tool.route(TOPIC) is not None
    world.disk.free = 0.5
    world.clock.run_for(1_100)
    assert int(sender.send(TOPIC, b"5", queue=0)["queueOffset"]) == 5
    world.again(power)
    assert bodies(world.stored(TOPIC, 1)[0]) == [str(number) for number in range(6)]


def test_a_record_that_cannot_be_read_costs_the_parked_receive_an_error_and_nobody_else() -> None:
    """The message that wakes a parked receive cannot be read: the sends of the same sync are answered, and later ones too."""
    world = World.started(3, Config(tables={"store": {"cache_bytes": 0}}))
    tool = Tool(world, "tool")
    tool.topic(TOPIC, 1)
    tool.topic("other", 1)
    sender = Sender(world, "p")
    caller = HttpCaller(world)
    assert caller.receive("g", TOPIC) == []
    assert caller.link is not None
    caller.link.send(f"POST /v1/groups/g/topics/{TOPIC}:receive?wait_ms=20000 HTTP/1.1\r\nhost: sim\r\n\r\n".encode())
    world.clock.run_for(50)
    caller._data = b""
    (name,) = [name for name in world.disk.files if name.startswith("log/")]
    world.disk.unreadable.append((name, 0, 1 << 40))
    opaques = [sender.begin(topic, b"1", queue=0) for topic in (TOPIC, "other", TOPIC)]
    world.clock.run_for(500)
    answers = [sender.answer(opaque) for opaque in opaques]
    assert [answer and answer.code for answer in answers] == [0, 0, 0]
    assert caller._data.startswith(b"HTTP/1.1 50"), caller._data
    assert [event.kind for event in world.events] == [StoreEventKind.UNREADABLE]
    world.disk.unreadable.clear()
    sender.send("other", b"2", queue=0)
    assert bodies(world.stored("other", 1)[0]) == ["1", "2"]
    world.clock.run_for(31_000)
    assert len(caller.receive("g", TOPIC)) == 2, "readable again, and delivered"
