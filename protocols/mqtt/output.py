"""The output queue of one client: packets in order, and QoS 0 deliveries that are dropped while the client does not read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.mqtt_session import Delivery
from protocols.mqtt.translate import parts

REFUSED: Final = "refused"
SLOW: Final = "slow-reader"
TOO_LARGE: Final = "too-large"
LOSSES: Final = (REFUSED, SLOW, TOO_LARGE)
"""Why a QoS 0 message is lost: a refused PUBLISH, a receiver that does not read, a packet above the receiver's maximum."""


@final
class Output:
    """Bytes that wait to be written to one client.

    alias_maximum      the client's Topic Alias Maximum; the first topics that are sent get one alias each (3.3.2.3.4)
    packet_bytes_max   the client's Maximum Packet Size, 0: none; larger deliveries are not sent (MQTT 5, 3.1.2.11.4)
    version            protocol version of the client: 3, 4 or 5
    lose               counts lost messages: called with one of LOSSES and a number
    oversize           QoS 1 and 2 deliveries that were too large or unreadable; the connection rejects them for the client
    """

    __slots__ = (
        "_aliases", "_bytes_max", "_qos0", "_qos0_bytes", "_ready", "alias_maximum", "lose", "oversize", "packet_bytes_max",
        "version",
    )  # fmt: skip

    def __init__(self, bytes_max: int, lose: Callable[[str, int], None]) -> None:
        self._bytes_max = bytes_max
        self._ready: list[bytes] = []
        self._qos0: list[bytes] = []
        self._qos0_bytes = 0
        self._aliases: dict[str, int] = {}
        self.alias_maximum = 0
        self.packet_bytes_max = 0
        self.version = 4
        self.lose = lose
        self.oversize: list[Delivery] = []

    def put(self, packet: bytes) -> None:
        """Append one packet that must not be dropped."""
        self._ready.append(packet)

    def deliver(self, items: list[Delivery], now_ms: int) -> None:
        """Append a PUBLISH for each delivery, in order. QoS 0 may be dropped; the in-flight window bounds QoS 1 and 2."""
        ready = self._ready
        version = self.version
        most = self.packet_bytes_max
        for item in items:
            level = item.level
            alias = 0 if self.alias_maximum == 0 else self._alias(item.routed.path)
            form = parts(item.routed, version, level, item.retained, item.identifiers, now_ms, alias)
            if form is None or (most and len(form[0]) + len(form[1]) + (2 if level else 0) > most):
                self._skip(item, alias)
                continue
            head, tail = form
            if level == 0 and alias <= 0:
                self._qos0.append(head)
                self._qos0_bytes += len(head)
                if self._qos0_bytes > self._bytes_max:
                    self._drop_oldest()
            elif level == 0:
                # This packet sets a topic alias: later packets depend on it, so it must not be dropped.
                ready.append(head)
            else:
                if item.duplicate:
                    head = bytes((head[0] | 8,)) + head[1:]
                ready.append(head)
                ready.append(item.slot.to_bytes(2, "big"))
                ready.append(tail)

    def _alias(self, path: str) -> int:
        """Topic alias of `path`: negative when the client knows it, positive when it is new, 0 when none is left."""
        known = self._aliases.get(path)
        if known is not None:
            return -known
        if len(self._aliases) >= self.alias_maximum:
            return 0
        self._aliases[path] = len(self._aliases) + 1
        return len(self._aliases)

    def _skip(self, item: Delivery, alias: int) -> None:
        if alias > 0:
            del self._aliases[item.routed.path]
        if item.slot:
            self.oversize.append(item)
        else:
            self.lose(TOO_LARGE, 1)

    def _drop_oldest(self) -> None:
        low = self._qos0
        shed = 0
        while self._qos0_bytes > self._bytes_max and shed < len(low) - 1:
            self._qos0_bytes -= len(low[shed])
            shed += 1
        del low[:shed]
        self.lose(SLOW, shed)

    def drain(self) -> list[bytes]:
        """Take all bytes: packets first, then the QoS 0 deliveries."""
        out = self._ready
        self._ready = []
        if self._qos0:
            out.extend(self._qos0)
            self._qos0.clear()
            self._qos0_bytes = 0
        return out
