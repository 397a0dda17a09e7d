"""Remote addresses, bounded in number."""

from __future__ import annotations

from typing import final

from domain.ports import Entropy
from protocols.adapter import Peer
from protocols.coap.exchange.exchange import ALWAYS_NS, EXCHANGE_LIFETIME_NS, Remote


@final
class Remotes:
    """Remotes by address, in two generations. An idle remote that was silent for a whole generation is forgotten.

    A generation ends after 247 s, or when it has half of `peers_max` addresses.

    young      born host, or source of a session -> remote, of the senders in this generation
    old        the same for the previous generation, and for older remotes that are not idle
    half       limit on the addresses of one generation
    since_ns   monotonic ns of the begin of this generation
    """

    def __init__(self, peers_max: int, entropy: Entropy, now: int) -> None:
        self.half = max(1, peers_max // 2)
        self.entropy = entropy
        self.young: dict[bytes, Remote] = {}
        self.old: dict[bytes, Remote] = {}
        self.since_ns = now

    def add(self, peer: Peer, now: int) -> Remote:
        """Remote of an address that is not in `young`: moved from `old`, or created."""
        if len(self.young) >= self.half or now - self.since_ns > EXCHANGE_LIFETIME_NS:
            self._next_generation(now)
        source = peer.source or peer.born_host
        remote = self.old.pop(source, None)
        if remote is None:
            remote = Remote((peer.host, peer.port), peer.born_host, int.from_bytes(self.entropy.token(2), "big"))
            if peer.source:
                remote.proof = peer.credentials, peer.principal
                remote.name(source)
                remote.verified_ns = ALWAYS_NS
        self.young[source] = remote
        return remote

    def remove(self, peer: Peer) -> Remote | None:
        """Forget and return the remote of an address; None without one."""
        source = peer.source or peer.born_host
        return self.young.pop(source, None) or self.old.pop(source, None)

    def _next_generation(self, now: int) -> None:
        kept = {born_host: remote for born_host, remote in self.old.items() if not remote.idle}
        self.old = self.young
        self.old.update(kept)
        self.young = {}
        self.since_ns = now
