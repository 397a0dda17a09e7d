"""What a message costs in a pull of many: the function calls that the node makes for it, of Python and of C."""

from __future__ import annotations

import random
import sys
from types import FrameType

from protocols.remoting import codes
from tests.simulation.caller import Caller, records
from tests.simulation.sender import Sender
from tests.simulation.tool import Tool
from tests.simulation.world import World
from tests.tidy.source import PACKAGES, ROOT

OURS = tuple(f"{ROOT}/{package}/" for package in PACKAGES)
FRAMES = f"{ROOT}/protocols/remoting/wire/frame.py"
"""Left out: the client decodes its answers with it, in as many pieces as the network makes of them."""
CALLS_MAX = 11


def calls_of_a_pull(caller: Caller, offset: int, count: int) -> int:
    """Function calls of a pull of `count` messages that are in memory."""
    fields = {
        "consumerGroup": "g", "topic": "sim", "queueId": "0", "queueOffset": str(offset), "maxMsgNums": str(count),
        "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
        "expressionType": "TAG",
    }  # fmt: skip
    calls = 0

    def count_one(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        file = frame.f_code.co_filename
        calls += event in ("call", "c_call") and file.startswith(OURS) and file != FRAMES

    caller.chance = random.Random(1)  # the same encoding of the header each time
    sys.setprofile(count_one)
    try:
        answer = caller.call(codes.PULL, fields)
    finally:
        sys.setprofile(None)
    assert len(records(answer.body)) == count
    return calls


def test_a_message_of_a_pull_by_32_costs_few_calls() -> None:
    world = World.started(5)
    Tool(world, "tool").topic("sim", 1)
    sender = Sender(world, "p")
    for _ in range(8):
        assert sender._wait(sender.batch("sim", [b"x" * 100] * 32)).code == 0
    caller = Caller(world, "c")
    few, many = [[calls_of_a_pull(caller, 32 * number, count) for number in range(8)] for count in (2, 32)]
    assert (min(many) - min(few)) / 30 <= CALLS_MAX, (few, many)
