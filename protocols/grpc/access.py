"""Authentication of calls: the metadata `authorization` (RocketMQ's Signature), else the connection's certificate.

    MQv2-HMAC-SHA1 Credential=<user>[/...], SignedHeaders=x-mq-date-time, Signature=<hex of HMAC-SHA1(password, x-mq-date-time)>

The signature has nothing of the call but the date, which clients write in local time and in different formats. How old it may
be is a setting (decision 135).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, final

from domain.access.access import Authority, Credentials, Signature
from domain.access.principal import Principal
from domain.errors import ErrorCode, Failure
from protocols.adapter import Peer
from protocols.http2.head import Headers

ALGORITHM: Final = "MQv2-HMAC-SHA1"
SHOWN_CHARS: Final = 40
"""Characters of a date in a refusal."""


@final
class Authenticator:
    """Authenticates the calls of one connection.

    The last successful result is cached until `authorization` or `x-mq-date-time` changes, or the user table changes (`epoch`).
    """

    __slots__ = ("_age_s", "_authority", "_epoch", "_peer", "_principal", "_seen", "_wall_ms")

    def __init__(self, authority: Authority, peer: Peer, age_s: int, wall_ms: Callable[[], int]) -> None:
        """`age_s`: seconds by which the date of a signature may differ from `wall_ms`, the node's clock; 0: any number."""
        self._authority = authority
        self._peer = peer
        self._age_s = age_s
        self._wall_ms = wall_ms
        self._seen: tuple[bytes, bytes] | None = None
        self._principal: Principal | None = None
        self._epoch = 0

    def identify(self, fields: Mapping[bytes, bytes], listed: Headers) -> Principal | Failure:
        """The principal of a call with these headers, `listed` in order, or a Failure with the reason of its refusal."""
        if len(fields) < len(listed):
            # The SDK for Go adds the fields again when it repeats a call: the last ones count.
            users = {
                _parts(value)[1].get("Credential", "").partition("/")[0] for name, value in listed if name == b"authorization"
            }
            if len(users) > 1:
                return Failure(ErrorCode.NOT_AUTHENTICATED, "authorization comes twice and names two users: send it once")
        said = (fields.get(b"authorization", b""), fields.get(b"x-mq-date-time", b""))
        if self._age_s and said[0] and not self._is_fresh(said[1]):
            date = said[1].decode("latin-1")[:SHOWN_CHARS]
            return Failure(
                ErrorCode.NOT_AUTHENTICATED,
                f"x-mq-date-time {date!r} is more than {self._age_s} s from the node's clock: set the clock of the client, or "
                "grpc.signature_age_s for its time zone",
            )
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

    def _is_fresh(self, date: bytes) -> bool:
        """A time that is near enough to now. What is no time is not."""
        try:
            at = datetime.fromisoformat(date.decode("ascii"))
            at_s = (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return False
        return abs(self._wall_ms() / 1000 - at_s) <= self._age_s


def read(authorization: bytes, date: bytes) -> Credentials | None | Failure:
    """Headers -> credentials; None without `authorization` or without a user in it. Failure: another algorithm, or no date."""
    if not authorization:
        return None
    algorithm, parts = _parts(authorization)
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


def _parts(authorization: bytes) -> tuple[str, dict[str, str]]:
    """The algorithm, and the parts of the signature by name."""
    algorithm, _, rest = authorization.decode("latin-1").partition(" ")
    parts: dict[str, str] = {}
    for piece in rest.split(","):
        name, _, value = piece.strip().partition("=")
        parts[name] = value
    return algorithm, parts
