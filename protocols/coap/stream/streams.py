"""Shared state of the connections of CoAP over TCP, TLS and WebSockets: settings, budgets and observers."""

from __future__ import annotations

from typing import Final, final

from protocols.adapter import Peer
from protocols.coap.exchange.exchange import ALWAYS_NS, Remote
from protocols.coap.message.option import KnownOptions
from protocols.coap.observe.observations import Observations
from protocols.coap.oscore.association import Associations
from protocols.coap.settings import CoapSettings
from protocols.coap.shared_limits import shared_limits_of
from protocols.setting import Setting

KEY_BITS: Final = 16
STREAM: Final = 1 << 192
"""Bit above all address keys: connections and addresses share the tables of bodies and values."""
SWEEP_NS: Final = 10_000_000_000


@final
class Streams:
    """State of all connections, with limits on their total.

    assemblies     unfinished Block1 bodies, of datagrams too
    pinned         values that peers read block by block, of datagrams too
    """

    def __init__(self, setting: Setting, config: CoapSettings) -> None:
        self.setting = setting
        self.config = config
        self.known = KnownOptions()
        shared = shared_limits_of(setting, config)
        self.assemblies = shared.assemblies
        self.pinned = shared.pinned
        self.observations = Observations(config, self.pinned, setting.wall_ms, shared.audience)
        self.associations = Associations.of(setting)
        self._serial = 0
        self._sweep_ns = 0

    def remote(self, peer: Peer) -> Remote:
        """Remote of a new connection, with a unique key."""
        self._serial += 1
        remote = Remote((peer.host, peer.port), peer.born_host, 0)
        remote.key = (STREAM | self._serial) << KEY_BITS
        remote.verified_ns = ALWAYS_NS
        remote.proof = peer.credentials, peer.principal
        return remote

    def sweep(self, now: int) -> None:
        """Drop old bodies and values, at most every 10 s."""
        if self._sweep_ns <= now:
            self._sweep_ns = now + SWEEP_NS
            self.assemblies.expire(now)
            self.pinned.expire(now)

    def count(self, why: str) -> None:
        """Count a refusal under a reason."""
        self.setting.refused("coap", why)
