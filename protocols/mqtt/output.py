"""The output queue of one client: packets in order, and QoS 0 deliveries that are dropped while the client does not read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, final

from domain.client.mqtt_session import RejectDeliveries
from domain.delivery.routed import Delivery
from protocols.host_shares import UNCOUNTED_BYTES_MAX, HostShare, HostShares
from protocols.mqtt.inflated import InflatedForms
from protocols.mqtt.translate import parts

REFUSED: Final = "refused"
SLOW: Final = "slow-reader"
TOO_LARGE: Final = "too-large"
INFLATED_BYTES: Final = 1024 * 1024
"""Bytes that compressed messages inflate to, after which the deliveries behind them wait until these bytes are written."""
LOSSES: Final = (REFUSED, SLOW, TOO_LARGE)
"""Losses of a QoS 0 message: a refused PUBLISH, a receiver that does not read, a packet above the receiver's maximum."""


@final
class Output:
    """Bytes that wait to be written to one client.

    alias_maximum      the client's Topic Alias Maximum; the first topics that are sent get one alias each (3.3.2.3.4)
    packet_bytes_max   the client's Maximum Packet Size, 0: none; larger deliveries are not sent (MQTT 5, 3.1.2.11.4)
    lose               counts lost messages: called with one of LOSSES and a number
    oversize           QoS 1 and 2 deliveries that were too large or unreadable; the connection rejects them for the client
    behind             True when deliveries wait for `encode_more`
    _later             these deliveries: a compressed message, and all that came after it
    _later_bytes       bytes of the stored records of those at QoS 0
    _inflated_bytes    bytes that compressed messages have inflated to since the last `drain`; a bound of their own, so that
                       a client that reads loses none of them
    _ready_bytes       bytes of the QoS 1 and 2 deliveries among those that wait
    _unread            counts the bytes of a client that does not read, of the bound that all connections share; None:
                       it has always read
    _inflated          bodies decompressed for other clients, too
    """

    def __init__(
        self, bytes_max: int, lose: Callable[[str, int], None], inflated: InflatedForms, unread: HostShares, host: str
    ) -> None:
        """`unread` bounds the unread bytes of clients, by host; `host` is this client's address."""
        self._bound = unread
        self._host = host
        self._unread: HostShare | None = None
        self._ready_bytes: int = 0
        self._bytes_max = bytes_max
        self._ready: list[bytes] = []
        self._qos0: list[bytes] = []
        self._qos0_bytes = 0
        self._aliases: dict[str, int] = {}
        self._inflated = inflated
        self._inflated_bytes = self._later_bytes = 0
        self._later: deque[Delivery] = deque()
        self.behind = False
        self.alias_maximum = 0
        self.packet_bytes_max = 0
        self.version = 4
        self.lose = lose
        self.oversize: list[Delivery] = []

    def rejected(self) -> RejectDeliveries:
        """The command for the deliveries in `oversize`, which becomes empty."""
        items, self.oversize = self.oversize, []
        return RejectDeliveries(items)

    def put(self, packet: bytes) -> None:
        """Append one packet that must not be dropped."""
        self._ready.append(packet)

    def deliver(self, items: list[Delivery], now_ms: int) -> None:
        """Append a PUBLISH for each delivery, in order. QoS 0 may be dropped; the in-flight window bounds QoS 1 and 2."""
        if self._qos0_bytes + self._ready_bytes > UNCOUNTED_BYTES_MAX:
            self._count()
        for at, item in enumerate(items):
            if self.behind or self._inflated_bytes > INFLATED_BYTES:
                self._postpone(items[at:])
                return
            self._encode(item, now_ms)

    def encode_more(self, now_ms: int) -> None:
        """Append the PUBLISH packets of deliveries that wait, as far as one `drain` may take them."""
        later = self._later
        while later and self._inflated_bytes <= INFLATED_BYTES:
            item = later.popleft()
            if item.level == 0:
                self._later_bytes -= len(item.routed.record.data)
            self._encode(item, now_ms)
        self.behind = len(later) > 0

    def _postpone(self, items: list[Delivery]) -> None:
        """Keep deliveries for `encode_more`. At QoS 0 those that find no room are lost."""
        for item in items:
            if item.level == 0:
                size = len(item.routed.record.data)
                if self._later_bytes + size > self._bytes_max:
                    self.lose(SLOW, 1)
                    continue
                self._later_bytes += size
            self._later.append(item)
        self.behind = len(self._later) > 0

    def _encode(self, item: Delivery, now_ms: int) -> None:
        """Append one PUBLISH."""
        level = item.level
        routed = item.routed
        alias = 0 if self.alias_maximum == 0 else self._alias(routed.path)
        form = parts(routed, self.version, level, item.retained, item.identifiers, now_ms, alias, self._inflated)
        most = self.packet_bytes_max
        if form is None or (most and len(form[0]) + len(form[1]) + (2 if level else 0) > most):
            self._skip(item, alias)
            return
        head, tail = form
        if routed.compressed:
            self._inflated_bytes += len(head) + len(tail)
        if level == 0 and alias <= 0:
            self._qos0.append(head)
            self._qos0_bytes += len(head)
            if self._qos0_bytes - self._inflated_bytes > self._bytes_max:
                self._drop_oldest(self._bytes_max)
        elif level == 0:
            # This packet sets a topic alias: later packets depend on it, so it must not be dropped.
            self._ready.append(head)
        else:
            if item.duplicate:
                head = bytes((head[0] | 8,)) + head[1:]
            self._ready.append(head)
            self._ready.append(item.slot.to_bytes(2, "big"))
            self._ready.append(tail)
            self._ready_bytes += len(head) + len(tail)

    def _count(self) -> None:
        """Count the bytes left by an earlier turn because the client does not read. Without room, half of the QoS 0 is lost."""
        unread = self._unread
        if unread is None:
            unread = self._unread = HostShare(self._bound, self._host)
        unread.hold(self._qos0_bytes + self._ready_bytes)
        if unread.room <= 0 and self._qos0_bytes > UNCOUNTED_BYTES_MAX:
            self._drop_oldest(self._qos0_bytes // 2)
            unread.hold(self._qos0_bytes + self._ready_bytes)

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

    def _drop_oldest(self, bytes_max: int) -> None:
        low = self._qos0
        shed = 0
        while self._qos0_bytes - self._inflated_bytes > bytes_max and shed < len(low) - 1:
            self._qos0_bytes -= len(low[shed])
            shed += 1
        del low[:shed]
        self.lose(SLOW, shed)

    def drain(self) -> list[bytes]:
        """Take all bytes: packets first, then the QoS 0 deliveries."""
        out = self._ready
        self._ready = []
        self._inflated_bytes = self._ready_bytes = 0
        if self._unread is not None:
            self._unread.release()
            self._unread = None
        if self._qos0:
            out.extend(self._qos0)
            self._qos0.clear()
            self._qos0_bytes = 0
        return out
