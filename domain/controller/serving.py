"""The report of a replica about its clients: in which epoch it serves them as the leader, and which gateways it has."""

from __future__ import annotations

from typing import Final, NamedTuple

from domain.controller.group import UNKNOWN

GATEWAYS_SAID_MAX: Final = 32
"""Gateways in one heartbeat."""
GATEWAY_CHARS_MAX: Final = 320
"""Characters of one gateway in a heartbeat: a name of a host has 255 at most."""
UNREADY_CHARS_MAX: Final = 1_024
"""Characters of the reasons why a leader is not ready."""


class GatewayWord(NamedTuple):
    """A gateway with a connection to the leader.

    life       hexadecimal text of this life of its process, for one of its connections
    name       its host, for people
    silent_ms  milliseconds since its last sign of life, when several are missing; 0: none is
    """

    life: str
    name: str
    silent_ms: int = 0


class ServingWord(NamedTuple):
    """Part of a heartbeat.

    epoch      leader epoch in which it serves clients; 0: it serves none; UNKNOWN: it does not say, as versions before
    unready    why it takes no messages all the same, as in its /readyz; "": it takes them, or serves no clients
    gateways   gateways with a connection, GATEWAYS_SAID_MAX at most
    """

    epoch: int = UNKNOWN
    unready: str = ""
    gateways: tuple[GatewayWord, ...] = ()

    @property
    def is_ready(self) -> bool:
        """True when clients are served, and messages are taken."""
        return self.epoch > 0 and not self.unready


UNSAID: Final = ServingWord()
SERVES_NOBODY: Final = ServingWord(0)
