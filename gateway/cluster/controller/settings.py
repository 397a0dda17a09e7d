"""The table `[controller]`: the controllers of one group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.link.servers import Servers, endpoints_of

PEERS_MAX: Final = 9
"""As many as domain.limits.CONTROLLERS_MAX."""


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Settings of a controller. Raises ValueError for values that are not valid.

    peers             `HOST:PORT` of every controller of the group, this one's too, the same list in the same order at each.
                      One, three or five are of use. Brokers get these addresses. Once their number has been changed
                      by `headgate cluster add` or `remove`, the controllers know each other, and `peers` are only where a
                      controller looks for the others: one that answers is enough
    access_key_file   file whose first line is `NAME:PASSWORD` of a user with the right Update on the cluster at the others; "":
                      messages to the others are not signed
    ca                PEM file of the authorities of the others' certificates: connections use TLS; "": plain text
    """

    peers: tuple[str, ...] = ()
    access_key_file: str = ""
    ca: str = ""

    def __post_init__(self) -> None:
        count = len(self.servers.endpoints)
        if count > PEERS_MAX:
            raise ValueError(f"peers are {count}, at most {PEERS_MAX} are possible")

    @property
    def servers(self) -> Servers:
        """The controllers."""
        endpoints = endpoints_of(self.peers, "peers", "a controller", 9878)
        return Servers("controller", endpoints, self.access_key_file, self.ca)
