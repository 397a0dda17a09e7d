"""JSON Web Tokens (RFC 7519): HS256 with a shared secret, RS256 with a public key; other algorithms are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final, final

import jwt

from domain.access.access import Authenticated, Challenge
from domain.access.principal import Principal
from domain.errors import Failure
from gateway.access.settings import AccessSettings, name_fault

TOKEN_CHARS_MAX: Final = 16 * 1024
LEEWAY_S: Final = 30
EXPIRY_MAX_S: Final = 253_402_300_799
"""The last second of the year 9999: a later expiry counts as this one, so that all fit where an expiry is stored."""
EARLY: Final = "the token is not valid yet"
EXPIRED: Final = "the token has expired"
JWT: Final = "JWT"
"""Name of the authentication method for tokens."""


@final
class TokenVerifier:
    """Checks tokens. `wall_ms` is the node's wall clock in milliseconds."""

    def __init__(self, config: AccessSettings, wall_ms: Callable[[], int]) -> None:
        self._keys: dict[str, str] = {}
        if config.jwt_secret:
            self._keys["HS256"] = config.jwt_secret
        if config.jwt_public_key:
            self._keys["RS256"] = config.jwt_public_key
        self._claim = config.jwt_user_claim
        self._audience = config.jwt_audience
        self._issuer = config.jwt_issuer
        self._expiry_required = config.jwt_expiry_required
        self._wall_ms = wall_ms

    def holds(self, key: str, expires_ms: int) -> bool:
        """True when tokens signed with `key` are accepted that expire then, in epoch milliseconds; 0: never."""
        return key in self._keys.values() and bool(expires_ms or not self._expiry_required)

    def looks_like(self, text: str) -> bool:
        """True when tokens are accepted and `text` looks like one: three parts, the first a JSON object in Base64."""
        return bool(self._keys) and text.startswith("eyJ") and text.count(".") == 2

    def check(self, text: str) -> tuple[str, int, str] | str:
        """(user, expiry in epoch milliseconds or 0, key that verified it), or a text that says what is wrong."""
        if len(text) > TOKEN_CHARS_MAX:
            return "the token is too long"
        try:
            algorithm = jwt.get_unverified_header(text).get("alg")
            key = self._keys.get(str(algorithm))
            if key is None:
                return "the token's algorithm is not taken here"
            claims = jwt.decode(
                text, key, algorithms=[str(algorithm)], audience=self._audience or None, issuer=self._issuer or None,
                options={
                    "verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": bool(self._audience),
                },
            )  # fmt: skip
        except (jwt.PyJWTError, ValueError):
            return "the token is not valid"
        return self._judge(claims, key)

    def _judge(self, claims: Mapping[str, Any], key: str) -> tuple[str, int, str] | str:
        now_s = self._wall_ms() / 1000
        begin, end = claims.get("nbf", 0), claims.get("exp", inf)
        if not _is_instant(begin) or ("exp" in claims and not _is_instant(end)):
            return "the token's times are no numbers"
        if now_s + LEEWAY_S < begin:
            return EARLY
        if now_s - LEEWAY_S >= end:
            return EXPIRED
        if end == inf and self._expiry_required:
            return "the token has no expiry (exp), which this node requires"
        user = claims.get(self._claim)
        if not isinstance(user, str) or name_fault(user):
            return f"the token's claim {self._claim} names no user"
        return user, 0 if end == inf else int((min(end, EXPIRY_MAX_S) + LEEWAY_S) * 1000), key


def _is_instant(value: object) -> bool:
    """True for a NumericDate (RFC 7519, section 2). NaN and Infinity, which the parser accepts, are no JSON numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -inf < value < inf


@final
class TokenExchange:
    """`domain.access.access.Exchange`: one message, which is a token."""

    __slots__ = ("_judge",)

    def __init__(self, judge: Callable[[str], Principal | Failure]) -> None:
        self._judge = judge

    def respond(self, data: bytes) -> Challenge | Authenticated | Failure:
        """The token, in its compact form."""
        found = self._judge(data.decode("utf-8", "replace"))
        return found if isinstance(found, Failure) else Authenticated(found, b"")
