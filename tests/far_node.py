"""A gateway before a node with a store, in one process: the frames between them are late, come twice, and get lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from random import Random
from typing import Final

from domain.access.principal import GATEWAY
from domain.client.node import GreetNode, NodeFrame, NodeFrameOut, NodeGreeted
from domain.command import Command, Disconnected
from domain.event import Event, Refused
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock
from gateway.cluster.forwarding.forwarder import Forwarder
from gateway.cluster.forwarding.traffic import OwnTraffic, Traffic
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler
from protocols.remoting.nodes.calls.octets import WireError
from protocols.remoting.nodes.forwarding.stream import VERSIONS
from tests.connection_driver import StrictDriver

_lives: Final = count(256)
"""Numbers of streams; that of a recorded gateway is 1 (tests/gateway/cluster/forwarding/test_version_1.py)."""
DELAY_NS: Final = MILLISECOND_NS // 5
"""Time that a frame takes, on average."""
AGAIN_NS: Final = 20 * MILLISECOND_NS


def life() -> bytes:
    """The name of a stream."""
    return next(_lives).to_bytes(16, "big")


class Wire:
    """One connection of a gateway: frames arrive in order, each after a while."""

    def __init__(self, link: NodeLink, number: int) -> None:
        self._link = link
        self._number = number
        self._last_ns = [0, 0]
        self.open = True

    def carry(self, way: int, arrive: Callable[[], None]) -> None:
        """Have a frame arrive after those of the same way; or break the connection."""
        if not self.open:
            return
        link = self._link
        if link.random.random() < link.loss:
            link.broken += 1
            link.hang_up()
            return
        now = link.clock.monotonic_ns()
        when = max(self._last_ns[way], now + int(link.random.expovariate(1.0) * DELAY_NS))
        self._last_ns[way] = when
        link.clock.call_at(when, partial(self._arrive, arrive))

    def hang(self, until_ns: int) -> None:
        """Carry nothing more until then, in either direction."""
        self._last_ns = [max(last, until_ns) for last in self._last_ns]

    def _arrive(self, arrive: Callable[[], None]) -> None:
        if self.open:
            arrive()


class StoreEnd(StrictDriver):
    """The store's driver of a connection of a gateway."""

    def __init__(self, link: NodeLink, wire: Wire) -> None:
        self._link = link
        self._wire = wire

    def answer(self, event: Event) -> None:
        if isinstance(event, NodeGreeted):
            self._wire.carry(1, partial(self._link.greeted, event.greeting))
        elif isinstance(event, NodeFrameOut):
            self._wire.carry(1, partial(self._link.frame, self._link.harmed(1, event.body)))
        elif isinstance(event, Refused):
            raise AssertionError(event.failure)

    def close(self) -> None:
        self._link.broken += 1
        self._link.hang_up()


class NodeLink:
    """A gateway's connections to a store's node, one after the other. `store`: takes the commands of connections there.

    loss     share of the frames that get lost, each with its connection
    broken   connections that broke
    counted  traffic on the ports of the gateway, when it has a forwarder of its own
    lost     what its own forwarder has said of clients that the store has dropped
    harm     makes another body of a frame; 0: it goes to the store, 1: to the gateway
    """

    def __init__(
        self,
        store: Handler,
        clock: Clock,
        seed: int,
        loss: float = 0.0,
        versions: tuple[int, ...] = VERSIONS,
        forwarder: Forwarder | None = None,
    ) -> None:
        """`forwarder`: the gateway's end; None: one of its own, which speaks `versions`."""
        self.clock = clock
        self.random = Random(seed)
        self.loss = loss
        self.broken = 0
        self.lost: list[tuple[str, Sequence[ClientConnection]]] = []
        self.store = store
        self.counted = Traffic()
        own = life()
        self.forwarder = forwarder or Forwarder(
            clock, "DefaultCluster", "gateway-1", own, lambda *lost: self.lost.append(lost),
            OwnTraffic(own, lambda: self.counted), versions,
        )  # fmt: skip
        self.harm: Callable[[int, bytes], bytes] | None = None
        self._wires = 0
        self._wire: Wire | None = None
        self._end: ClientConnection | None = None
        self.dial()

    def dial(self) -> None:
        """Connect."""
        self._wires += 1
        wire = self._wire = Wire(self, self._wires)
        end = self._end = ClientConnection("remoting", StoreEnd(self, wire))
        end.host = "10.0.0.9"
        self._ask(wire, end, GreetNode(1, self.forwarder.greeting()))

    def _ask(self, wire: Wire, end: ClientConnection, command: Command) -> None:
        command.principal = GATEWAY
        wire.carry(0, partial(self.store.handle, end, command))

    def greeted(self, body: bytes) -> None:
        """The store's node has answered."""
        wire, end = self._wire, self._end
        assert wire is not None
        assert end is not None
        self.forwarder.greeted(body)
        self.forwarder.connected(lambda frame: self._ask(wire, end, NodeFrame(self.harmed(0, frame))))

    def harmed(self, way: int, body: bytes) -> bytes:
        """The body of a frame as it arrives."""
        return body if self.harm is None else self.harm(way, body)

    def frame(self, body: bytes) -> None:
        """A frame of the store has come."""
        try:
            self.forwarder.received(body)
        except WireError:
            self.broken += 1
            self.hang_up()

    def hang_up(self, again_ns: int = AGAIN_NS) -> None:
        """The connection breaks; both ends hear of it, and the gateway connects again after `again_ns`."""
        wire, end = self._wire, self._end
        if wire is None or end is None:
            return
        wire.open = False
        self._wire = self._end = None
        self.forwarder.lost()
        self.clock.call_soon(partial(self.store.handle, end, Disconnected("lost")))
        self.clock.call_at(self.clock.monotonic_ns() + again_ns, self.dial)

    def hang(self, hang_ns: int) -> None:
        """The connection stays, and carries nothing for a while; after ten seconds of it the gateway connects again."""
        wire = self._wire
        if wire is None:
            return
        now = self.clock.monotonic_ns()
        wire.hang(now + hang_ns)
        if hang_ns > 10 * SECOND_NS:
            self.clock.call_at(now + 10 * SECOND_NS, lambda: self.hang_up() if self._wire is wire else None)

    def die(self) -> None:
        """The gateway is killed: the store's node hears that the connection has ended."""
        wire, end = self._wire, self._end
        self._wire = self._end = None
        if wire is not None and end is not None:
            wire.open = False
            self.store.handle(end, Disconnected("lost"))
