"""The table `[registration]`: the name servers at which a node with a store registers itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from domain.address import endpoint_of

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
        if len(self.endpoints) > NAMESERVERS_MAX:
            raise ValueError(f"nameservers are {len(self.endpoints)}, at most {NAMESERVERS_MAX} are possible")

    @property
    def endpoints(self) -> list[tuple[str, int]]:
        """(host, port) of each name server, once."""
        return list(dict.fromkeys(_split(each) for each in self.nameservers))


def _split(address: str) -> tuple[str, int]:
    found = endpoint_of(address.strip())
    if found is None:
        raise ValueError(f"nameservers has {address!r}: HOST:PORT of a name server is wanted, as in 10.0.0.5:9876")
    return found
