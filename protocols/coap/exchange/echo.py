"""Values of the Echo option (RFC 9175, section 2): stateless proofs of an address and of the freshness of a request."""

from __future__ import annotations

import hashlib
from typing import Final, final

ECHO_WINDOW_NS: Final = 120_000_000_000
ECHO_BYTES: Final = 8


@final
class Echoes:
    """Echo values: keyed hashes of the origin that has to send the value back, and of the time. Valid for 2 to 4 minutes."""

    __slots__ = ("secret",)

    def __init__(self, secret: bytes) -> None:
        self.secret = secret

    def value(self, origin: bytes, now: int) -> bytes:
        """Echo value that `origin` has to send back."""
        return self._value(origin, now // ECHO_WINDOW_NS)

    def proves(self, origin: bytes, echo: bytes, now: int) -> bool:
        """True when `echo` is a valid value for `origin`."""
        window = now // ECHO_WINDOW_NS
        return echo == self._value(origin, window) or echo == self._value(origin, window - 1)

    def _value(self, origin: bytes, window: int) -> bytes:
        text = origin + (window & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")
        return hashlib.blake2s(text, digest_size=ECHO_BYTES, key=self.secret).digest()
