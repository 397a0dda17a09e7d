"""Admission of stream connections: limits by address and in all."""

from __future__ import annotations

from typing import final

from domain.address import network_of_host
from domain.limits import SECOND_NS
from domain.refusal import Ending
from gateway.guard.bucket import Bucket, Buckets, RateLimit
from gateway.guard.flapping import FlappingDetector
from gateway.guard.settings import LimitsSettings


@final
class Admission:
    """Counts connections by address, those of an IPv6 /64 as one."""

    __slots__ = ("_address_rate", "_all_rate", "_flapping", "_open", "_per_address_max")

    def __init__(self, limits: LimitsSettings, connections_max: int) -> None:
        self._open: dict[str, int] = {}
        self.apply(limits, connections_max)

    def apply(self, limits: LimitsSettings, connections_max: int) -> None:
        """Apply new limits, to a node that takes `connections_max` connections. Open connections stay open and count."""
        self._per_address_max = limits.connections_per_address or max(connections_max // 2, 1)
        burst, keys = limits.burst_s, limits.keys_max
        self._all_rate = Bucket(RateLimit(limits.connects_per_s, burst)) if limits.connects_per_s else None
        each = limits.address_connects_per_s
        self._address_rate: Buckets[str] | None = Buckets(RateLimit(each, burst), keys) if each else None
        often = limits.flapping_address_connects
        window, hold = limits.flapping_window_s * SECOND_NS, limits.flapping_hold_s * SECOND_NS
        self._flapping: FlappingDetector[str] | None = FlappingDetector(often, window, hold, keys) if often else None

    def enter(self, host: str, now: int) -> Ending | None:
        """Admit a connection from `host` and count it until `leave` -> None; else why it is refused."""
        host = network_of_host(host)
        if self._flapping is not None and self._flapping.connect(host, now):
            return Ending.FLAPPING
        count = self._open.get(host, 0)
        if count >= self._per_address_max:
            return Ending.ADDRESS_CONNECTIONS
        for bucket in (self._all_rate, None if self._address_rate is None else self._address_rate.of(host)):
            if bucket is not None and bucket.wait_ns(now):
                return Ending.CONNECT_RATE
        if self._all_rate is not None:
            self._all_rate.take(1, now)
        if self._address_rate is not None:
            self._address_rate.of(host).take(1, now)
        self._open[host] = count + 1
        return None

    def leave(self, host: str) -> None:
        """A connection that was admitted has ended."""
        host = network_of_host(host)
        count = self._open[host] - 1
        if count:
            self._open[host] = count
        else:
            del self._open[host]
