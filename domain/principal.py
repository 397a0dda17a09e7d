"""Who asks for something: the name that every protocol's credentials come down to."""

from __future__ import annotations

from typing import Final, final

from domain.errors import Failure


@final
class Principal:
    """One user at one address, as an Authority found it to be.

    user         the name that policies and rules know it by
    host         its source address, without port
    privileged   a Super user: everything is allowed
    registered   True: it has proven a password of a user that is kept, and ends with that user and with that password
    proof        what it was proven by, known to the authority: with that it ends
    expires_ms   epoch millisecond at which its token ends, 0: never
    epoch        the state of users and policies that this and `verdicts` were made from
    verdicts     decisions already made, bounded by whoever makes them
    """

    __slots__ = ("epoch", "expires_ms", "host", "privileged", "proof", "registered", "user", "verdicts")

    def __init__(
        self,
        user: str,
        host: str,
        privileged: bool = False,
        registered: bool = False,
        expires_ms: int = 0,
        epoch: int = 0,
        proof: object = None,
    ) -> None:
        self.user = user
        self.host = host
        self.privileged = privileged
        self.proof = proof
        self.registered = registered
        self.expires_ms = expires_ms
        self.epoch = epoch
        self.verdicts: dict[object, Failure | None] = {}


GATEWAY: Final = Principal("", "", True)
"""The gateway itself: what an adapter does on its own account to keep a promise that it has made already."""
