"""Remote addresses, bounded in number, and the Echo values that verify an address (RFC 9175, section 2)."""

from __future__ import annotations

import hashlib
from typing import Final, final

from domain.ports import Entropy
from protocols.adapter import Peer
from protocols.coap.exchange import ALWAYS_NS, Remote

LAP_NS: Final = 247_000_000_000
ECHO_WINDOW_NS: Final = 120_000_000_000
ECHO_BYTES: Final = 8


@final
class Remotes:
    """Remotes by address, in two generations. An idle remote that sent nothing during a whole generation is forgotten.

    A generation ends after 247 s, or when it has half of `peers_max` addresses.

    young      born host, or source of a session -> remote, for addresses that sent something in this generation
    old        the same for the generation before, and for older remotes that are not idle
    half       the most addresses of one generation
    since_ns   monotonic ns at which this generation began
    """

    __slots__ = ("entropy", "half", "old", "since_ns", "young")

    def __init__(self, peers_max: int, entropy: Entropy, now: int) -> None:
        self.half = max(1, peers_max // 2)
        self.entropy = entropy
        self.young: dict[bytes, Remote] = {}
        self.old: dict[bytes, Remote] = {}
        self.since_ns = now

    def add(self, peer: Peer, now: int) -> Remote:
        """The remote of an address that is not in `young`: moved from `old`, or made."""
        if len(self.young) >= self.half or now - self.since_ns > LAP_NS:
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
        """Forget the remote of an address; None when there is none."""
        source = peer.source or peer.born_host
        return self.young.pop(source, None) or self.old.pop(source, None)

    def _next_generation(self, now: int) -> None:
        kept = {born_host: remote for born_host, remote in self.old.items() if not remote.idle}
        self.old = self.young
        self.old.update(kept)
        self.young = {}
        self.since_ns = now


@final
class Echoes:
    """Echo option values, which verify an address without state: a keyed hash of the address and of the time.

    A value is valid for 2 to 4 minutes.
    """

    __slots__ = ("secret",)

    def __init__(self, secret: bytes) -> None:
        self.secret = secret

    def value(self, remote: Remote, now: int) -> bytes:
        """The Echo value that the peer has to send back."""
        return self._value(remote, now // ECHO_WINDOW_NS)

    def proves(self, remote: Remote, echo: bytes, now: int) -> bool:
        """True when `echo` is a valid value for this address."""
        window = now // ECHO_WINDOW_NS
        return echo == self._value(remote, window) or echo == self._value(remote, window - 1)

    def _value(self, remote: Remote, window: int) -> bytes:
        text = remote.born_host + (window & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")
        return hashlib.blake2s(text, digest_size=ECHO_BYTES, key=self.secret).digest()
