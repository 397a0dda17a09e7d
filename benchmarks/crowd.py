"""The longest turn of a node's loop while thousands of clients join, are answered and go, in the benchmark's own process.

    python -m benchmarks.crowd 50000           clients of the node: a fifth of them leave, and a fifth are lost
    python -m benchmarks.crowd 15000 --lost    clients of a gateway that is killed: the node with the store ends them

Clients have no sockets; their work is in the same process, some microseconds for each packet. A turn is the time between two
polls of the selector. Its processor time has no waits for disks and other programs, and turns in which the host of a virtual
machine took time are left out. Durability `page`, in memory where the machine has /dev/shm.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.inside import Node, Wire, packet, resident, table, text
from benchmarks.turns import WatchedSelector, watched_loop
from domain.access.principal import GATEWAY
from domain.client.membership import Heartbeat, Membership, Subscription
from domain.client.mqtt_session import Attach, ConfirmDeliveries, Deliveries, MqttSubscription, Subscribe, Will
from domain.client.node import GreetNode, NodeFrame, NodeFrameOut, NodeGreeted
from domain.command import Command, Disconnected, QueryLatest, Receive, Send
from domain.event import Event
from domain.message.message import Message
from gateway.cluster.forwarding.forwarder import Forwarder
from gateway.cluster.forwarding.traffic import OwnTraffic, Traffic
from gateway.connection.client_connection import ClientConnection
from protocols.remoting.nodes.forwarding.stream import AWAY_NS
from tests.connection_driver import StrictDriver

TOGETHER: Final = 16
"""Clients that act in one turn."""
UNANSWERED: Final = 512
"""Clients that may wait for the answer to their subscriptions."""
DONE_S: Final = 600.0
SHARED: Final = 1_000
"""Messages of the shared subscription that nobody acknowledges."""
DISCONNECT: Final = packet(0xE0, b"")
Rows = list[tuple[str, str]]


class Device(Wire):
    """One MQTT client: it acknowledges what it gets.

    packets   number of packets that it was sent, by the first four bits of each
    """

    __slots__ = ("loop", "packets", "pump")

    def __init__(self, number: int, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(number)
        self.packets = [0] * 16
        self.loop = loop
        connect = text("MQTT") + bytes((4, 2, 0, 0)) + text(f"device-{number}")  # without keep-alive
        self.pump = node.dial(self, packet(0x10, connect))
        filters = b"".join(text(each) + b"\x01" for each in (f"cmd/{number}/#", "$share/g/jobs/#"))
        self.pump.data_received(packet(0x82, b"\x00\x01" + filters))

    def write(self, data: bytes) -> None:
        """Take packets of less than 128 bytes."""
        at = 0
        while at < len(data):
            kind, size = data[at] >> 4, data[at + 1]
            self.packets[kind] += 1
            if kind == 3 and data[at] & 6:
                name = int.from_bytes(data[at + 2 : at + 4], "big")
                self.loop.call_soon(self.pump.data_received, packet(0x40, data[at + 4 + name : at + 6 + name]))
            at += 2 + size

    def writelines(self, parts: Any) -> None:
        """Take the parts as `write` does."""
        self.write(b"".join(parts))


class Phases:
    """Rows of what was measured, a phase after the other."""

    def __init__(self, selector: WatchedSelector) -> None:
        self._selector = selector
        self._began = time.monotonic()
        self.rows: Rows = []
        self.longest_s = 0.0

    def begin(self) -> None:
        """A phase begins; what was between the phases does not count."""
        self._selector.reset()
        self._began = time.monotonic()

    def end(self, what: str, count: int) -> None:
        """A phase has ended in which `count` clients have done something."""
        took = time.monotonic() - self._began
        cpu, longest = self._selector.undisturbed_s, self._selector.longest_s
        self.longest_s = max(self.longest_s, cpu)
        figures = f"{took:.1f} s, longest turn {cpu * 1e3:.1f} ms of processor time, {longest * 1e3:.1f} ms in all"
        self.rows.append((f"{count:,} {what}", figures))
        self.begin()


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait. TimeoutError, with `what` has not come, after DONE_S."""
    end = time.monotonic() + DONE_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        await asyncio.sleep(0.005)


async def some(devices: list[Device], act: Callable[[Device], object]) -> None:
    """Have clients act, TOGETHER in a turn."""
    for first in range(0, len(devices), TOGETHER):
        for each in devices[first : first + TOGETHER]:
            act(each)
        await asyncio.sleep(0)


async def joined(folder: Path, count: int, selector: WatchedSelector) -> Phases:
    """Clients of the node join, get a message each, and two fifths of them go."""
    node, loop = Node(folder), asyncio.get_running_loop()
    await asyncio.sleep(0.5)
    before, phases, devices = resident(), Phases(selector), list[Device]()
    phases.begin()
    for first in range(0, count, TOGETHER):
        devices.extend(Device(number, node, loop) for number in range(first, min(first + TOGETHER, count)))
        await asyncio.sleep(0)
        await until(lambda: sum(not each.packets[9] for each in devices[-2 * UNANSWERED :]) < UNANSWERED, "answers")
    await until(lambda: all(each.packets[9] for each in devices), "the answers to all subscriptions")
    phases.end("clients join, and are answered", count)
    source = Device(count, node, loop)
    numbers = itertools.count(1)

    def publish(each: Device) -> None:
        packet_id = (next(numbers) % 60_000 + 1).to_bytes(2, "big")
        source.pump.data_received(packet(0x32, text(f"cmd/{each.number}/x") + packet_id + b"message"))

    phases.begin()
    await some(devices, publish)
    await until(lambda: all(each.packets[3] for each in devices) and source.packets[4] == count, "a message for each")
    phases.end("messages, one for each client, which acknowledges it", count)
    fifth = count // 5
    await some(devices[:fifth], lambda each: each.pump.data_received(DISCONNECT))
    await until(lambda: node.parts.sessions.attached == count + 1 - fifth, "the end of those that leave")
    phases.end("clients leave", fifth)
    await some(devices[fifth : 2 * fifth], lambda each: each.pump.connection_lost(None))
    await until(lambda: node.parts.sessions.attached == count + 1 - 2 * fifth, "the end of those that are lost")
    phases.end("clients are lost", fifth)
    got = [each.packets[3] for each in devices[2 * fifth :]]
    await some(devices[2 * fifth :], publish)
    await until(lambda: all(each.packets[3] > 1 for each in devices[2 * fifth :]), "a message for each that has stayed")
    phases.end("messages, one for each that has stayed", len(got))
    phases.rows.append(("memory of a client", f"{(resident() - before) / count:,.0f} bytes"))
    await node.stop()
    return phases


class Link(StrictDriver):
    """The connection of a gateway to the node with the store: frames arrive in the next turn, in their order.

    forwarder   of the gateway
    """

    def __init__(self, node: Node, number: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._handler = node.parts.gate
        own = number.to_bytes(16, "big")
        traffic = OwnTraffic(own, Traffic)
        self.forwarder = Forwarder(node.clock, "DefaultCluster", f"gateway-{number}", own, self._store_lost, traffic)
        self._end = ClientConnection("remoting", self)
        self._ask(GreetNode(1, self.forwarder.greeting()))

    def _store_lost(self, why: str, clients: Sequence[ClientConnection]) -> None:
        """Does nothing: a gateway that was killed is not there."""

    def _ask(self, command: Command) -> None:
        command.principal = GATEWAY
        self._loop.call_soon(self._handler.handle, self._end, command)

    def answer(self, event: Event) -> None:
        """Carry a frame of the store."""
        if isinstance(event, NodeGreeted):
            self.forwarder.greeted(event.greeting)
            self.forwarder.connected(lambda frame: self._ask(NodeFrame(frame)))
        elif isinstance(event, NodeFrameOut):
            self._loop.call_soon(self.forwarder.received, event.body)

    def die(self) -> None:
        """The gateway is killed. What it was to get is not read; it is silent."""
        self.forwarder.lost()
        self._handler.handle(self._end, Disconnected("lost"))


class Remote(StrictDriver):
    """One client of a gateway. It acknowledges MQTT deliveries that are not of the shared subscription.

    answers   events that it has got so far
    """

    def __init__(self, link: Link, protocol: str) -> None:
        self.link = link
        self.answers = 0
        self.connection = ClientConnection(protocol, self)

    def ask(self, command: Command) -> None:
        """Send a command to the gateway."""
        self.link.forwarder.handle(self.connection, command)

    def answer(self, event: Event) -> None:
        """Count an event."""
        self.answers += 1
        if isinstance(event, Deliveries):
            own = [each.slot for each in event.items if not each.routed.path.startswith("jobs")]
            if own:
                self.ask(ConfirmDeliveries(own))

    def close(self) -> None:
        """Nothing is open."""


def _join(link: Link, number: int) -> Remote:
    """One client of a gateway.

    Of five, two are MQTT devices with wills and sessions that stay, one of which shares a subscription; one has a will and a
    session that ends with its connection; two are consumers of a group, one of which waits for messages.
    """
    kind = number % 5
    device = Remote(link, "remoting" if kind > 2 else "mqtt")
    if kind <= 2:
        will = Will(Message("wills", b"gone"), 0)
        device.ask(Attach(1, f"device-{number}", kind == 2, 0 if kind == 2 else 3_600, 100, will))
        filters = [MqttSubscription(f"cmd/{number}/#", 1)]
        if kind == 1:
            filters.append(MqttSubscription("jobs/#", 1, group="g"))
        device.ask(Subscribe(2, filters))
    else:
        member = Membership("consumers", subscriptions=[Subscription("T", "*", "TAG", 1)])
        device.ask(Heartbeat(1, f"consumer-{number}", producers=["senders"], consumers=[member]))
        if kind == 4:
            device.ask(Receive(2, "consumers", "T", 1, 60_000, 3_600_000, client_id=f"consumer-{number}"))
        else:
            device.ask(QueryLatest(2, "T"))
    return device


async def lost(folder: Path, count: int, selector: WatchedSelector) -> Phases:
    """A gateway with `count` clients is killed; the node with the store ends all of them. Another one goes on."""
    node = Node(folder)
    await asyncio.sleep(0.5)
    phases = Phases(selector)
    gone, other = Link(node, 1), Link(node, 2)
    await asyncio.sleep(0.5)
    devices: list[Remote] = []
    phases.begin()
    for first in range(0, count, TOGETHER):
        devices += [_join(gone, number) for number in range(first, min(first + TOGETHER, count))]
        await asyncio.sleep(0.001)
    waiting = 4
    await until(
        lambda: all(each.answers >= (1 if at % 5 == waiting else 2) for at, each in enumerate(devices)), "the answers to all"
    )
    phases.end("clients of a gateway join, and are answered", count)
    asker = Remote(other, "mqtt")
    for number in range(SHARED):
        asker.ask(Send(number, [Message("jobs", b"job", queue_id=0)]))
        await asyncio.sleep(0)
    await asyncio.sleep(2)
    forwarded = node.parts.forwarded
    ids = iter(range(SHARED, 1 << 30))
    slowest = 0.0

    async def ask() -> None:
        nonlocal slowest
        while True:
            seen, began = asker.answers, time.monotonic()
            asker.ask(QueryLatest(next(ids), "T"))
            while asker.answers == seen:
                await asyncio.sleep(0.001)
            slowest = max(slowest, time.monotonic() - began)
            await asyncio.sleep(0.002)

    asking = asyncio.get_running_loop().create_task(ask())
    gone.die()
    await asyncio.sleep(AWAY_NS / 1e9 - 1)
    slowest = 0.0
    phases.begin()
    await until(lambda: len(forwarded.gateways) == 1, "the loss of the gateway")
    while node.parts.sessions.attached or node.parts.handler.registry.groups() or node.parts.handler.walks.waiting:
        await asyncio.sleep(0.005)
    phases.end("clients of the gateway are ended", count)
    await asyncio.sleep(3)
    phases.end("clients have gone: 3 s afterwards", count)
    phases.rows.append(("slowest answer to another client meanwhile", f"{slowest * 1e3:.0f} ms"))
    asking.cancel()
    await node.stop()
    return phases


def measured(work: Callable[[Path, int, WatchedSelector], Any], count: int) -> Phases:
    """Run a part to its end in a folder of its own."""
    loop, selector = watched_loop()
    where = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a shared disk makes each write take long
    with tempfile.TemporaryDirectory(prefix="crowd-", dir=where) as folder, asyncio.Runner(loop_factory=lambda: loop) as runner:
        found: Phases = runner.run(work(Path(folder), count, selector))
    return found


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=50_000, help="clients (50,000)")
    parser.add_argument("--lost", action="store_true", help="of a gateway that is lost")
    given = parser.parse_args()
    print(f"{time.strftime('%d %B %Y %H:%M UTC', time.gmtime())}, load {os.getloadavg()[0]:.1f}", flush=True)
    table(measured(lost if given.lost else joined, given.count).rows)


if __name__ == "__main__":
    main()
