"""The table `[registration]`: the name servers at which a node with a store registers itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.link.servers import Servers, endpoints_of

NAMESERVERS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class RegistrationSettings:
    """Settings of the registration. Raises ValueError for values that are not valid.

    nameservers       `HOST:PORT` of each name server, of Headgate or of Apache; empty: the node registers nowhere
    access_key_file   file whose first line is `NAME:PASSWORD` of a user with the right Update on the cluster there, read again
                      for each connection; "": requests are not signed
    ca                PEM file of the authorities of the name servers' certificates: connections use TLS; "": plain text
    """

    nameservers: tuple[str, ...] = ()
    access_key_file: str = ""
    ca: str = ""

    def __post_init__(self) -> None:
        count = len(self.servers.endpoints)
        if count > NAMESERVERS_MAX:
            raise ValueError(f"nameservers are {count}, at most {NAMESERVERS_MAX} are possible")

    @property
    def servers(self) -> Servers:
        """The name servers."""
        endpoints = endpoints_of(self.nameservers, "nameservers", "a name server", 9876)
        return Servers("registration", endpoints, self.access_key_file, self.ca)
