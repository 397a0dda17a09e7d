"""What is on its way to one client: packets in order, and QoS 0 deliveries that may be shed while it does not read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.mqtt_session import Delivery
from protocols.mqtt.translate import parts

REFUSED: Final = "refused"
SLOW: Final = "slow-reader"
TOO_LARGE: Final = "too-large"
LOSSES: Final = (REFUSED, SLOW, TOO_LARGE)
"""Why QoS 0 is lost: it came and was refused, its receiver did not read, or takes no packet of that size."""


@final
class Output:
    """Bytes for one client.

    alias_maximum      aliases that the client takes; the first topics that it is sent get one each (3.3.2.3.4)
    packet_bytes_max   the client's Maximum Packet Size, 0: none; larger deliveries are not sent (MQTT 5, 3.1.2.11.4)
    lose               counts messages that are lost, by one of LOSSES; the oldest are shed first
    oversize           deliveries above QoS 0 that were too large, or unreadable: to be declined on the client's behalf
    """

    __slots__ = (
        "_aliases", "_bytes_max", "_low", "_low_bytes", "_ready", "alias_maximum", "lose", "oversize", "packet_bytes_max",
        "version",
    )  # fmt: skip

    def __init__(self, bytes_max: int, lose: Callable[[str, int], None]) -> None:
        self._bytes_max = bytes_max
        self._ready: list[bytes] = []
        self._low: list[bytes] = []
        self._low_bytes = 0
        self._aliases: dict[str, int] = {}
        self.alias_maximum = 0
        self.packet_bytes_max = 0
        self.version = 4
        self.lose = lose
        self.oversize: list[Delivery] = []

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
            alias = 0 if self.alias_maximum == 0 else self._alias(item.routed.path)
            form = parts(item.routed, version, level, item.retained, item.identifiers, now_ms, alias)
            if form is None or (most and len(form[0]) + len(form[1]) + (2 if level else 0) > most):
                self._skip(item, alias)
                continue
            head, tail = form
            if level == 0 and alias <= 0:
                self._low.append(head)
                self._low_bytes += len(head)
                if self._low_bytes > self._bytes_max:
                    self._shed()
            elif level == 0:
                # What makes an alias must not be shed.
                ready.append(head)
            else:
                if item.duplicate:
                    head = bytes((head[0] | 8,)) + head[1:]
                ready.append(head)
                ready.append(item.slot.to_bytes(2, "big"))
                ready.append(tail)

    def _alias(self, path: str) -> int:
        """Minus the alias of `path`; a new one, positive, while there are any; else 0."""
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

    def _shed(self) -> None:
        low = self._low
        shed = 0
        while self._low_bytes > self._bytes_max and shed < len(low) - 1:
            self._low_bytes -= len(low[shed])
            shed += 1
        del low[:shed]
        self.lose(SLOW, shed)

    def drain(self) -> list[bytes]:
        """Everything, once."""
        out = self._ready
        self._ready = []
        if self._low:
            out.extend(self._low)
            self._low.clear()
            self._low_bytes = 0
        return out
