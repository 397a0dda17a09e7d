"""An MQTT client that comes to another gateway while its connection to the first one is still there."""

from __future__ import annotations

from typing import Any

from domain.limits import SECOND_NS
from protocols.mqtt.packet import Packet
from tests.simulation.device import Device, Listener

GRACE_NS = 12 * SECOND_NS
"""How long a connection that has lost its session may still be there: its gateway may be out of reach of the store."""


class Hop:
    """One connection of a device that may have several."""

    def __init__(self, device: RoamingListener) -> None:
        self._device = device
        self.link: Any = None
        self.open = False
        self.left_ns = 0

    def connected(self, link: Any) -> None:
        """Party.connected."""
        self.link, self.open = link, True
        self._device.hopped(self)

    def received(self, data: bytes) -> None:
        """Party.received."""
        if self._device.hop is self:
            Device.received(self._device, data)

    def lost(self) -> None:
        """Party.lost."""
        self.open = False
        if self._device.hop is self or self.link is None:
            self._device.hop_lost(self)


class RoamingListener(Listener):
    """A listener whose session is taken over by its next connection.

    hop     the connection that it uses
    left    connections that it has left open
    roams   how often it has
    """

    hop: Hop | None = None

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.left: list[Hop] = []
        self.roams = 0

    def start(self) -> None:
        """Connect now, or as soon as a gateway serves."""
        self._dial(Hop(self))  # type: ignore[arg-type]

    def roam(self) -> None:
        """Connect again while the connection is there."""
        if self.link is not None:
            self.roams += 1
            self.start()

    def hopped(self, hop: Hop) -> None:
        """A connection is there."""
        before, self.hop = self.hop, hop
        if before is not None and before.open:
            before.left_ns = self.clock.monotonic_ns()
            self.left.append(before)
        self.connected(hop.link)

    def hop_lost(self, hop: Hop) -> None:
        """The connection in use has ended, or one could not be made."""
        if self.hop is hop or self.link is None:
            self.lost()

    def heard(self, packet: Packet) -> None:
        """Device.heard; a session has one owner."""
        now = self.clock.monotonic_ns()
        self.left = [each for each in self.left if each.open]
        for each in self.left:
            if now - each.left_ns > GRACE_NS:
                self.ledger.faults.append(f"{self.name}: a connection that has lost its session is there after {GRACE_NS} ns")
        super().heard(packet)
