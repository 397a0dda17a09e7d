"""What is on its way to one client: packets in order, and QoS 0 deliveries that may be shed while it does not read."""

from __future__ import annotations

from collections import deque
from typing import final

from domain.session import Delivery
from protocols.mqtt.translate import parts


@final
class Output:
    """Bytes for one client.

    packet_bytes_max   the client's Maximum Packet Size, 0: none; larger deliveries are not sent (MQTT 5, 3.1.2.11.4)
    dropped            QoS 0 deliveries shed because the client did not read, oldest first
    oversize           slots of deliveries that were too large, or unreadable: to be confirmed on the client's behalf
    """

    __slots__ = ("_bytes_max", "_low", "_low_bytes", "_ready", "dropped", "oversize", "packet_bytes_max", "version")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._ready: list[bytes] = []
        self._low: deque[bytes] = deque()
        self._low_bytes = 0
        self.packet_bytes_max = 0
        self.version = 4
        self.dropped = 0
        self.oversize: list[int] = []

    def put(self, packet: bytes) -> None:
        """One packet that must arrive."""
        self._ready.append(packet)

    def deliver(self, items: list[Delivery], now_ms: int) -> None:
        """PUBLISH packets: those with QoS 0 can be shed, the others are bounded by the window."""
        ready = self._ready
        version = self.version
        most = self.packet_bytes_max
        for item in items:
            level = item.level
            form = parts(item.parcel, version, level, item.retained, item.identifiers, now_ms)
            if form is None:
                self._skip(item.slot)
                continue
            head, tail = form
            if most and len(head) + len(tail) + (2 if level else 0) > most:
                self._skip(item.slot)
            elif level == 0:
                self._low.append(head)
                self._low_bytes += len(head)
                if self._low_bytes > self._bytes_max:
                    self._shed()
            else:
                if item.again:
                    head = bytes((head[0] | 8,)) + head[1:]
                ready.append(head)
                ready.append(item.slot.to_bytes(2, "big"))
                ready.append(tail)

    def _skip(self, slot: int) -> None:
        if slot:
            self.oversize.append(slot)
        else:
            self.dropped += 1

    def _shed(self) -> None:
        while self._low_bytes > self._bytes_max and len(self._low) > 1:
            self._low_bytes -= len(self._low.popleft())
            self.dropped += 1

    def drain(self) -> list[bytes]:
        """Everything, once."""
        out = self._ready
        self._ready = []
        if self._low:
            out.extend(self._low)
            self._low.clear()
            self._low_bytes = 0
        return out
