"""The relay's own look at the list of brokers, so that the port of each is open before a client asks for a route."""

from __future__ import annotations

import logging
from typing import Final, Protocol, final

from domain.limits import SECOND_NS
from domain.ports import Clock, Timer
from gateway.rocketmq.relay import routes
from gateway.rocketmq.relay.brokers import RelayBrokers
from gateway.rocketmq.relay.session import NAMESERVER
from gateway.rocketmq.relay.uplink import Uplink, UplinkUser
from protocols.remoting import codes
from protocols.remoting.frame import encode
from protocols.remoting.relayed.frame_slice import FrameSlice

ANSWER_NS: Final = 3 * SECOND_NS
AGAIN_NS: Final = SECOND_NS
"""Time until the next look after one that has failed, and at least between two looks that sessions ask for."""

log = logging.getLogger("headgate.rocketmq")


class Linking(Protocol):
    """What makes connections: the relay."""

    clock: Clock
    brokers: RelayBrokers

    def link(self, key: str, user: UplinkUser) -> Uplink | str:
        """A new connection, or why there is none."""

    def lost(self, uplink: Uplink, reason: str) -> None:
        """A connection has ended."""


@final
class ClusterLook:
    """Asks a name server for the brokers of the cluster, again and again."""

    def __init__(self, linking: Linking, every_ns: int) -> None:
        self._linking = linking
        self._every_ns = every_ns
        self._uplink: Uplink | None = None
        self._timer: Timer | None = None
        self._asked_ns = -AGAIN_NS
        self._opaque = 0
        self._stopped = False

    def start(self) -> None:
        """Ask now, and then every `every_ns`."""
        self._ask()

    def stop(self) -> None:
        """Ask no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._uplink is not None:
            self._uplink.close()

    def hurry(self) -> None:
        """A client names a broker that is not known: look now, unless that was done just before."""
        clock = self._linking.clock
        if not self._stopped and clock.monotonic_ns() - self._asked_ns >= AGAIN_NS:
            self._ask()

    def _ask(self) -> None:
        clock = self._linking.clock
        self._asked_ns = clock.monotonic_ns()
        if self._timer is not None:
            self._timer.cancel()
        if self._uplink is None:
            made = self._linking.link(NAMESERVER, self)
            assert isinstance(made, Uplink)  # there is always a name server to be tried
            self._uplink = made
        self._opaque += 1
        self._uplink.write(encode(codes.GET_CLUSTER, self._opaque, fields={"relay": "headgate"}))
        self._timer = clock.call_at(self._asked_ns + ANSWER_NS, self._silent)

    def _silent(self) -> None:
        """The name server did not answer."""
        self._timer = None
        uplink, self._uplink = self._uplink, None
        if uplink is not None:
            uplink.close()
            self.lost(uplink, "it did not answer")

    def received(self, uplink: Uplink, frames: list[FrameSlice]) -> None:
        """UplinkUser: answers."""
        for frame in frames:
            if not frame.response or frame.opaque != self._opaque:
                continue
            if frame.code == codes.SUCCESS:
                self._learn(frame)
            self._later(self._every_ns)

    def _learn(self, frame: FrameSlice) -> None:
        brokers = self._linking.brokers
        try:
            found = routes.brokers_of(routes.parsed(frame.body))
        except routes.RouteError as fault:
            log.warning("a name server's list of brokers cannot be read: %s", fault)
            return
        strange = brokers.learn(found)
        if found:
            brokers.forget_others({each.name for each in found})
        for each in sorted(found, key=lambda broker: broker.name):
            if each.name not in strange:
                for _, where in sorted(each.addresses.items()):
                    brokers.reached_at(where)

    def lost(self, uplink: Uplink, reason: str) -> None:
        """UplinkUser: the connection has ended."""
        self._uplink = None
        self._linking.lost(uplink, reason)
        self._later(AGAIN_NS)

    def regulate(self) -> None:
        """UplinkUser: one small request at a time needs no regulation."""

    def _later(self, pause_ns: int) -> None:
        clock = self._linking.clock
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self._stopped else clock.call_at(clock.monotonic_ns() + pause_ns, self._ask)
