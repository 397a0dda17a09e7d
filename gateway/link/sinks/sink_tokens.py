"""Tokens for sinks, by client credentials (RFC 6749, 4.4)."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, final
from urllib.parse import quote_plus, urlencode

import orjson

from domain.subscription.courier import SinkAnswer, SinkRequest
from domain.subscription.subscription import Credential

TOKENS_MAX: Final = 10_000
TOKEN_MARGIN_S: Final = 30.0
TOKEN_S: Final = 300.0
"""Life of a token whose answer does not say."""

_Key = tuple[tuple[str, str], ...]


class TokenError(Exception):
    """The token endpoint gave no token."""


@final
class SinkTokens:
    """Keeps tokens until shortly before their end. `exchange` sends one request."""

    def __init__(self, exchange: Callable[[SinkRequest], Awaitable[SinkAnswer]]) -> None:
        self._exchange = exchange
        self._tokens: OrderedDict[_Key, tuple[str, float]] = OrderedDict()

    def forget(self, credential: Credential) -> None:
        """A sink has refused the token."""
        self._tokens.pop(_key(credential), None)

    async def token(self, credential: Credential, timeout_ms: int) -> str:
        """The token of a credential. Raises TokenError."""
        key = _key(credential)
        loop = asyncio.get_running_loop()
        known = self._tokens.get(key)
        if known is not None and loop.time() < known[1]:
            return known[0]
        values = credential.values
        form = {"grant_type": "client_credentials", **({"scope": values["scope"]} if "scope" in values else {})}
        pair = f"{quote_plus(values['client_id'])}:{quote_plus(values['client_secret'])}"
        fields = [
            ("authorization", f"Basic {b64encode(pair.encode()).decode()}"),
            ("content-type", "application/x-www-form-urlencoded"),
            ("accept", "application/json"),
        ]
        answer = await self._exchange(SinkRequest("POST", values["token_url"], fields, urlencode(form).encode(), timeout_ms))
        if answer.trouble is not None:
            raise TokenError(f"no token: {answer.text}")
        try:
            found = orjson.loads(answer.body) if answer.status == 200 else None
        except orjson.JSONDecodeError:
            found = None
        token = found.get("access_token") if isinstance(found, dict) else None
        if not isinstance(found, dict) or not isinstance(token, str) or not _is_token(token):
            raise TokenError(f"no token: the token endpoint answered {answer.status}")
        lasts = found.get("expires_in")
        seconds = float(lasts) if isinstance(lasts, int) and 0 < lasts < 1_000_000 else TOKEN_S
        self._tokens[key] = (token, loop.time() + max(1.0, seconds - TOKEN_MARGIN_S))
        while len(self._tokens) > TOKENS_MAX:
            self._tokens.popitem(last=False)
        return token


def _key(credential: Credential) -> _Key:
    return tuple(sorted(credential.values.items()))


def _is_token(text: str) -> bool:
    return 0 < len(text) <= 16_384 and text.isascii() and text.isprintable() and " " not in text
