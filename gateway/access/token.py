"""JSON Web Tokens (RFC 7519): HS256 with a shared secret, RS256 with a public key; other algorithms are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, final

import jwt

from domain.access.access import Authenticated, Challenge
from domain.access.principal import Principal
from domain.errors import Failure
from gateway.access.settings import AccessSettings, name_fault

TOKEN_CHARS_MAX: Final = 16 * 1024
LEEWAY_S: Final = 30
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
        self._wall_ms = wall_ms

    def holds(self, key: str) -> bool:
        """True when tokens signed with `key` are accepted."""
        return key in self._keys.values()

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
        begin, end = claims.get("nbf", 0), claims.get("exp", 0)
        if any(isinstance(instant, bool) or not isinstance(instant, int | float) for instant in (begin, end)):
            return "the token's times are no numbers"
        if now_s + LEEWAY_S < begin:
            return "the token is not valid yet"
        if end and now_s - LEEWAY_S >= end:
            return "the token has expired"
        user = claims.get(self._claim)
        if not isinstance(user, str) or name_fault(user):
            return f"the token's claim {self._claim} names no user"
        return user, int(end * 1000) + LEEWAY_S * 1000 if end else 0, key


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
