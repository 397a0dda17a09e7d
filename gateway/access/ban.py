"""Bans: client ids, users and addresses that may not connect by MQTT, whatever else is granted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from domain.errors import ErrorCode, Failure
from gateway.access.source import SourceAddresses

BANNED: Final = 0x8A
"""Reason code of CONNACK (MQTT 5, 3.2.2.2)."""
FORMS: Final = "client:ID, user:NAME, session:NAME/ID or address:RANGE"


@final
class Bans:
    """Parsed from entries: `client:ID`, of all users; `user:NAME`; `session:NAME/ID`, of one user; `address:10.0.0.0/8`.

    Raises ValueError for anything else.
    """

    __slots__ = ("_clients", "_sessions", "_sources", "_users")

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._clients: set[str] = set()
        self._users: set[str] = set()
        self._sessions: set[tuple[str, str]] = set()
        self._sources: list[SourceAddresses] = []
        for word in words:
            kind, _, what = word.partition(":")
            if kind == "client" and what:
                self._clients.add(what)
            elif kind == "user" and what:
                self._users.add(what)
            elif kind == "session" and 0 < what.find("/") < len(what) - 1:
                name, _, client = what.partition("/")
                self._sessions.add((name, client))
            elif kind == "address" and what:
                self._sources.append(SourceAddresses(what))
            else:
                raise ValueError(f"{word!r}: {FORMS} is wanted")

    def of(self, user: str, client_id: str, host: str) -> Failure | None:
        """Why a client is banned; None: it is not."""
        if client_id in self._clients or (user, client_id) in self._sessions:
            return Failure(ErrorCode.NOT_ALLOWED, "this client id is banned", BANNED)
        if user in self._users:
            return Failure(ErrorCode.NOT_ALLOWED, f"User:{user} is banned", BANNED)
        if any(source.holds(host) for source in self._sources):
            return Failure(ErrorCode.NOT_ALLOWED, f"{host} is banned", BANNED)
        return None
