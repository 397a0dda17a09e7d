"""Scripts of MQTT 3.1.1 that any pair of client and server can perform: who does what, and which packets that client then has.

    c connect kept > CONNACK 00
    c subscribe t 1
    c drop
    s connect
    s publish t 1 hello
    c connect kept > CONNACK 00 present, PUBLISH t q1 hello

After `>` are all packets that this client has received since its last `>`, in order and without packet identifiers. Answers to
a request without `>` are ignored. Messages that no `>` has listed fail the script at its end.

    NAME connect [kept] [will TOPIC QOS [retained] BODY]    a new connection; kept: CleanSession is 0
    NAME subscribe TOPIC QOS [TOPIC QOS ...]
    NAME unsubscribe TOPIC ...
    NAME publish TOPIC QOS [retained] BODY
    NAME leave                                              DISCONNECT
    NAME drop                                               the connection is lost
    NAME hears > ...

`c/2` is a second connection of client `c`. Where nothing must have come, `> nothing` says so.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from protocols.mqtt.connect import Will
from protocols.mqtt.property import NONE

TURNS = 100
"""Turns of the event loop after each step. Both ends are in this process: what a step causes has happened by then."""
POLL_S = 0.005
CONNECT_S = 10.0
DELIVERIES = ("PUBLISH", "PUBREL", "closed")
"""What comes to a client without a request."""


class Peer(Protocol):
    """One network connection of a client of MQTT 3.1.1. It acknowledges what comes, through to the end."""

    async def connect(self, kept: bool, will: Will | None) -> None:
        """CONNECT, and the answer."""

    async def subscribe(self, filters: Sequence[tuple[str, int]]) -> None:
        """SUBSCRIBE, and the answer."""

    async def unsubscribe(self, filters: Sequence[str]) -> None:
        """UNSUBSCRIBE, and the answer."""

    async def publish(self, topic: str, body: bytes, qos: int, retained: bool) -> None:
        """PUBLISH, and its acknowledgements."""

    async def leave(self) -> None:
        """DISCONNECT, and close. Harmless when the connection has ended."""

    async def drop(self) -> None:
        """Close without DISCONNECT."""

    def heard(self) -> list[str]:
        """The packets that have come, in the words of `tests.conformance.script`; `closed` when the server has closed.

        The list itself: whoever reads it removes from it.
        """


@dataclass(frozen=True)
class Step:
    """One line of a script. `heard`: the packets expected, None when they are not compared."""

    who: str
    verb: str
    arguments: tuple[str, ...]
    heard: list[str] | None


def parsed(line: str) -> Step:
    """A step from its line."""
    act, compared, heard = line.strip().partition(" > ")
    who, verb, *arguments = shlex.split(act)
    words = [] if heard == "nothing" else heard.split(", ")
    return Step(who, verb, tuple(arguments), words if compared else None)


async def perform(script: str, client: Callable[[str], Peer], patience_s: float = 5.0) -> None:
    """Perform a script with connections that `client` makes of a client's name. AssertionError when other packets come.

    patience_s   how long to wait for expected packets, and for an answer; connections have CONNECT_S, however short it is
    """
    present: dict[str, Peer] = {}
    everyone: list[tuple[str, Peer]] = []
    try:
        for step in map(parsed, filter(str.strip, script.splitlines())):
            if step.verb == "connect":
                present[step.who] = client(step.who.partition("/")[0])
                everyone.append((step.who, present[step.who]))
            peer = present[step.who]
            await asyncio.wait_for(carry_out(peer, step), CONNECT_S if step.verb == "connect" else patience_s)
            for _ in range(TURNS):
                await asyncio.sleep(0)
            if step.heard is not None:
                await compare(peer, step, patience_s)
            words = peer.heard()
            words[:] = [word for word in words if word.startswith(DELIVERIES)] if step.heard is None else []
        ignore_refusal = {who: peer.heard() for who, peer in everyone if peer.heard()}
        assert not ignore_refusal, f"the script does not name {ignore_refusal}"
    finally:
        for _, peer in everyone:
            await peer.leave()


async def carry_out(peer: Peer, step: Step) -> None:
    """Perform one step of a client."""
    match step.verb, *step.arguments:
        case ["connect", *options, "will", topic, qos, "retained", body]:
            await peer.connect("kept" in options, Will(topic, body.encode(), int(qos), True, NONE))
        case ["connect", *options, "will", topic, qos, body]:
            await peer.connect("kept" in options, Will(topic, body.encode(), int(qos), False, NONE))
        case ["connect", *options]:
            await peer.connect("kept" in options, None)
        case ["subscribe", *filters]:
            await peer.subscribe([(pattern, int(qos)) for pattern, qos in zip(filters[::2], filters[1::2], strict=True)])
        case ["unsubscribe", *filters]:
            await peer.unsubscribe(filters)
        case ["publish", topic, qos, "retained", body]:
            await peer.publish(topic, body.encode(), int(qos), True)
        case ["publish", topic, qos, body]:
            await peer.publish(topic, body.encode(), int(qos), False)
        case ["leave"]:
            await peer.leave()
        case ["drop"]:
            await peer.drop()
        case ["hears"]:
            pass
        case _:
            raise AssertionError(f"no such step: {step}")


async def compare(peer: Peer, step: Step, patience_s: float) -> None:
    """Wait until the expected packets are received, at most `patience_s` seconds, and compare."""
    end = asyncio.get_running_loop().time() + patience_s
    while peer.heard() != step.heard and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(POLL_S)
    assert peer.heard() == step.heard, f"{step.who} {step.verb} {' '.join(step.arguments)}: {peer.heard()}"
