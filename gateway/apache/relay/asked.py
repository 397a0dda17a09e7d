"""Requests of servers to a client in flight, and their numbers on the client's connection."""

from __future__ import annotations

from typing import Final, final

from gateway.apache.relay.uplink import Uplink

ASKED_MAX: Final = 4_096
"""Requests of servers that a client has not answered; beyond, the oldest is forgotten."""
_OWN_NUMBERS: Final = 0x40000000
"""The first number that the relay gives to a request of a server whose own number another one uses."""
_NUMBER_MAX: Final = 0x7FFFFFF0


@final
class AskedOfClient:
    """Numbers of requests: a request keeps the number of its server, unless a request of another server in flight has it.

    _asked   number on the client's connection -> (server, number of the server)
    """

    __slots__ = ("_asked", "_number")

    def __init__(self) -> None:
        self._asked: dict[int, tuple[Uplink, int]] = {}
        self._number = _OWN_NUMBERS

    def add(self, uplink: Uplink, opaque: int) -> int:
        """Add a request of a server with the number `opaque`. Returns its number on the client's connection."""
        asked = self._asked
        number = opaque
        if number in asked:
            number = self._number
            while number in asked:
                number += 1
            self._number = number + 1 if number < _NUMBER_MAX else _OWN_NUMBERS
        if len(asked) >= ASKED_MAX:
            del asked[next(iter(asked))]
        asked[number] = (uplink, opaque)
        return number

    def answered(self, number: int) -> tuple[Uplink, int] | None:
        """Remove a request that the client has answered. Returns the server and its number; None: there is no such request."""
        return self._asked.pop(number, None)

    def forget(self, uplink: Uplink) -> None:
        """Drop the requests of a server whose connection has ended."""
        for number in [each for each, (asker, _) in self._asked.items() if asker is uplink]:
            del self._asked[number]

    def clear(self) -> None:
        """Drop all requests, since the client is disconnected."""
        self._asked.clear()
