"""Servers of the cluster for the sessions of the relay: connections to them, and what becomes of their replies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from domain.address import endpoint_of, endpoint_text
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock
from gateway.apache.relay import routes, stored
from gateway.apache.relay.brokers import RelayBrokers
from gateway.apache.relay.settings import RelaySettings
from gateway.apache.relay.uplink import Address, Uplink, UplinkUser
from gateway.link.wire import Dialer
from protocols.host_shares import HostShares
from protocols.remoting import codes
from protocols.remoting.relayed.frame_slice import FrameSlice

NAMESERVER: Final = "the name server"
"""The pin of connections to the port of the name server."""
HELD_BYTES_MAX: Final = 48 * 1024 * 1024
"""Bytes of all clients that wait for servers which take nothing now."""
REST_NS: Final = 250 * MILLISECOND_NS
"""Time in which no client tries a server again that has just refused a connection."""
LOG_NS: Final = 10 * SECOND_NS
"""Time between two lines of the log about one server."""

log = logging.getLogger("headgate.rocketmq")


@final
class RelayServers:
    """Brokers and name servers, as the sessions of a node share them.

    held         limits the bytes that wait for servers which are not connected yet, or do not read
    losses       connections to servers that have ended, or could not be made
    ports        listener -> port of this gateway; `nameserver` is that of the name server
    _resting     address -> (monotonic time until which it is not tried, reason)
    _logged_ns   address -> time of its last log line
    """

    def __init__(
        self, nameservers: Sequence[Address], brokers: RelayBrokers, ports: Mapping[str, int], dialer: Dialer, clock: Clock,
        settings: RelaySettings, frame_bytes_max: int,
    ) -> None:  # fmt: skip
        self.brokers = brokers
        self.clock = clock
        self.unanswered_bytes_max = settings.unanswered_bytes
        self.held = HostShares(HELD_BYTES_MAX)
        self.losses = 0
        self.ports = ports
        self._nameservers = list(nameservers)
        self._dialer = dialer
        self._settings = settings
        self._frame_bytes_max = frame_bytes_max
        self._resting: dict[str, tuple[int, str]] = {}
        self._logged_ns: dict[str, int] = {}
        self._turn = 0

    def link(self, key: str, user: UplinkUser) -> Uplink | str:
        """Open a connection: to a name server for the key NAMESERVER, else to the address `key`. Returns it, or the failure."""
        if key == NAMESERVER:
            self._turn = (self._turn + 1) % len(self._nameservers)
            found = self._nameservers[self._turn :] + self._nameservers[: self._turn]
            now = self.clock.monotonic_ns()
            found.sort(key=lambda each: self._resting.get(endpoint_text(*each), (0, ""))[0] > now)
            return Uplink(NAMESERVER, found, user, self._dialer, self._frame_bytes_max)
        until, reason = self._resting.get(key, (0, ""))
        name = NAMESERVER if key in self.nameservers() else self.brokers.name_at(key) or "the broker"
        if until > self.clock.monotonic_ns():
            return f"{name} at {key}: {reason}"
        address = endpoint_of(key)
        if address is None:
            return f"{name} has no address that can be connected to: {key[:120]!r}"
        return Uplink(name, [address], user, self._dialer, self._frame_bytes_max)

    def nameservers(self) -> list[str]:
        """The addresses of all name servers."""
        return [endpoint_text(*each) for each in self._nameservers]

    def where(self) -> str:
        """The ports and the brokers served at them, text for people."""
        found = [f"{self.brokers.name_at(address)} {port}" for address, port in self.brokers.ports.items()]
        return ", ".join(found) or "none, since broker_ports is 0"

    def rewritten(self, code: int) -> bool:
        """True when a name server's replies to a request code contain addresses of brokers."""
        return code in routes.REWRITTEN

    def reply(self, code: int, frame: FrameSlice, direct: bool) -> bytes | None:
        """A reply with the addresses at which clients reach the brokers; None: as it is.

        direct   a route has the brokers' own addresses
        """
        if code in stored.REWRITTEN:
            records = stored.rewritten(frame.body, self.brokers.host, self.brokers.ports)
            return None if records is None else frame.with_body(records)
        try:
            found = routes.parsed(frame.body)
            brokers = routes.brokers_of(found)
        except routes.RouteError as fault:
            log.warning("a name server's answer about brokers was not given on: %s", fault)
            return routes.refusal(frame, f"the name server's answer cannot be read: {fault}")
        for each in brokers:
            self.brokers.learn(each.name, each.addresses)
        at: Callable[[str], str] = self.brokers.reached_at
        if not self._settings.broker_ports and code == codes.GET_ROUTE and not direct:
            at = self._own
        return frame.with_body(routes.rewritten(found, brokers, at))

    def _own(self, _address: str) -> str:
        """The address of this gateway, where requests name their broker."""
        return endpoint_text(self.brokers.host, self.ports.get("remoting", 0))

    def lost(self, uplink: Uplink, reason: str) -> None:
        """Count a connection to a server that has ended, or could not be made; write it to the log from time to time."""
        self.losses += 1
        now = self.clock.monotonic_ns()
        where = endpoint_text(*uplink.where)
        if not uplink.was_open:
            if len(self._resting) >= 1_024:
                self._resting = {each: rest for each, rest in self._resting.items() if rest[0] > now}
            self._resting[where] = (now + REST_NS, reason)
        last_ns = self._logged_ns.get(where)
        if last_ns is None or now - last_ns >= LOG_NS:
            if len(self._logged_ns) >= 1_024:
                self._logged_ns.clear()
            self._logged_ns[where] = now
            waits = f"; {len(uplink.waiting)} requests of a client were not answered" if uplink.waiting else ""
            log.warning("%s at %s: %s%s", uplink.name, where, reason, waits)
