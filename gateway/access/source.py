"""Ranges of source addresses, as policies write them."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final, final

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
REMEMBERED: Final = 4_096


@lru_cache(REMEMBERED)
def address(text: str) -> _Address | None:
    """Parse an address; an IPv4-mapped IPv6 address becomes the IPv4 address. None: not an address."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


@final
class SourceAddresses:
    """A range of addresses, both ends included.

    Written as one address, `10.0.0.0/8`, `10.0.*.*`, `10.0.0.1-10.0.0.9` or `10.0.0.1-9`. Raises ValueError for anything else.
    """

    __slots__ = ("first", "last")

    def __init__(self, text: str) -> None:
        plain = text.strip()
        if "/" in plain:
            network = ipaddress.ip_network(plain, strict=False)
            self.first: _Address = network[0]
            self.last: _Address = network[-1]
        elif "*" in plain:
            parts = plain.split(".")
            wild = parts.index("*")
            if len(parts) != 4 or any(part != "*" for part in parts[wild:]):
                raise ValueError(f"{text!r}: asterisks stand for whole bytes at the end of an IPv4 address")
            self.first = ipaddress.ip_address(".".join(part.replace("*", "0") for part in parts))
            self.last = ipaddress.ip_address(".".join(part.replace("*", "255") for part in parts))
        else:
            begin, dash, end = plain.partition("-")
            self.first = ipaddress.ip_address(begin)
            if dash and "." not in end and ":" not in end:
                end = f"{begin.rpartition('.')[0]}.{end}"
            self.last = ipaddress.ip_address(end) if dash else self.first
        if self.first.version != self.last.version or int(self.first) > int(self.last):
            raise ValueError(f"{text!r} is an empty range")

    def holds(self, host: str) -> bool:
        """True when `host` is an address in the range."""
        found = address(host)
        return found is not None and found.version == self.first.version and int(self.first) <= int(found) <= int(self.last)
