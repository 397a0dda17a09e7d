"""Authentication of calls: the metadata `authorization` (RocketMQ's Signature), else the connection's certificate.

    MQv2-HMAC-SHA1 Credential=<user>[/...], SignedHeaders=x-mq-date-time, Signature=<hex of HMAC-SHA1(password, x-mq-date-time)>

The date is part of the signed text and is not parsed: clients write local time in different formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from domain.access.access import Authority, Credentials, Signature
from domain.access.principal import Principal
from domain.errors import ErrorCode, Failure
from protocols.adapter import Peer

ALGORITHM: Final = "MQv2-HMAC-SHA1"


@final
class Authenticator:
    """Authenticates the calls of one connection.

    The last successful result is cached until `authorization` or `x-mq-date-time` changes, or the user table changes (`epoch`).
    """

    __slots__ = ("_authority", "_epoch", "_peer", "_principal", "_seen")

    def __init__(self, authority: Authority, peer: Peer) -> None:
        self._authority = authority
        self._peer = peer
        self._seen: tuple[bytes, bytes] | None = None
        self._principal: Principal | None = None
        self._epoch = 0

    def identify(self, fields: Mapping[bytes, bytes]) -> Principal | Failure:
        """The principal of a call with these headers, or a Failure with the reason of its refusal."""
        said = (fields.get(b"authorization", b""), fields.get(b"x-mq-date-time", b""))
        known = self._principal
        if known is not None and said == self._seen and known.epoch == self._epoch:
            return known
        credentials = read(*said)
        if isinstance(credentials, Failure):
            return credentials
        found = self._authority.authenticate(credentials, self._peer.host, self._peer.principal)
        if isinstance(found, Principal):
            self._seen, self._principal, self._epoch = said, found, found.epoch
        return found


def read(authorization: bytes, date: bytes) -> Credentials | None | Failure:
    """Headers -> credentials; None without `authorization` or without a user in it. Failure: another algorithm, or no date."""
    if not authorization:
        return None
    algorithm, _, rest = authorization.decode("latin-1").partition(" ")
    parts: dict[str, str] = {}
    for piece in rest.split(","):
        name, _, value = piece.strip().partition("=")
        parts[name] = value
    user = parts.get("Credential", "").partition("/")[0]
    if not user:
        return None
    if algorithm != ALGORITHM or not date:
        return Failure(ErrorCode.NOT_AUTHENTICATED, f"authorization is not {ALGORITHM} over x-mq-date-time")
    try:
        mac = bytes.fromhex(parts.get("Signature", ""))
    except ValueError:
        mac = b""
    return Signature(user, mac, date)
