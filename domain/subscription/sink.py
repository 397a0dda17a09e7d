"""Sinks: which URLs deliveries may go to, and which addresses. Names are resolved elsewhere; here is what may come of it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from domain.subscription.filters import SubscriptionError
from domain.subscription.subscription import SINK_CHARS_MAX

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
SETTING: Final = "[webhook] allow"
"""The setting that opens further networks, as an error names it."""
_PRINTABLE: Final = re.compile(r"[\x21-\x7e]+")
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\.?|\[[0-9A-Fa-f:.]+\]")
_NUMERIC: Final = re.compile(r"(?:0[xX][0-9A-Fa-f]*|[0-9]+)(?:\.(?:0[xX][0-9A-Fa-f]*|[0-9]+))*\.?")
_NAT64: Final = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
_6TO4: Final = ipaddress.ip_network("2002::/16")
_TEREDO: Final = ipaddress.ip_network("2001::/32")
_LOCAL: Final = ("127.0.0.1", "::1")
"""What `localhost` and the names below it stand for (RFC 6761, 6.3)."""
_CLOSED: Final = tuple(
    ipaddress.ip_network(each)
    for each in (
        "0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4", "fec0::/10", "100::/64",
        "2001:db8::/32", "3fff::/20", "5f00::/16", "168.63.129.16/32",
    )
)  # fmt: skip
"""Closed besides what `ipaddress` calls private, loopback, link-local, multicast, reserved or unspecified.

3fff::/20 is for documentation (RFC 9637), 5f00::/16 for segments of a domain (RFC 9602); 168.63.129.16 is Azure's own host.
"""


@dataclass(frozen=True, slots=True)
class Sink:
    """The parts of a sink's URL.

    secure   True: https
    host     lower case, an IPv6 address without its brackets
    target   path and query
    """

    secure: bool
    host: str
    port: int
    target: str


def sink(url: str) -> Sink:
    """The parts of a URL. Raises SubscriptionError for other schemes than http and https, user information and fragments."""
    if not 0 < len(url) <= SINK_CHARS_MAX or _PRINTABLE.fullmatch(url) is None or "\\" in url:
        raise SubscriptionError("sink", f"is a URL of at most {SINK_CHARS_MAX} printable ASCII characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SubscriptionError("sink", f"is no URL: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise SubscriptionError("sink", f"is an http or https URL, not {parts.scheme or 'one without a scheme'}")
    if "@" in parts.netloc:
        raise SubscriptionError("sink", "has user information: put credentials into sinkcredential")
    if "#" in url:
        raise SubscriptionError("sink", "has a fragment, which no server is sent")
    bare = parts.netloc.rpartition(":")[0] if port is not None else parts.netloc.removesuffix(":")
    if _HOST.fullmatch(bare) is None or port == 0:
        raise SubscriptionError("sink", "has no host, or one that is not made of letters, digits, - . and _")
    host = bare.strip("[]").lower()
    if _NUMERIC.fullmatch(host) is not None and _literal(host) is None:
        raise SubscriptionError("sink", "has an IPv4 address that is not written as four decimal numbers")
    secure = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Sink(secure, host, port or (443 if secure else 80), target)


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Networks of the setting `allow`. Raises ValueError."""
    return tuple(ipaddress.ip_network(each) for each in texts)


def refusal(address: str, secure: bool, allow: Sequence[Network]) -> str:
    """Why a sink may not have this address, "" when it may. Addresses inside others (mapped, NAT64, 6to4) count as themselves.

    Public addresses are open over https. `allow` opens networks, and http to them.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return f"{address} is no address"
    meant = [found, *_inside(found)]
    if any(each in network for network in allow for each in meant[-1:] if each.version == network.version):
        return ""
    setting = f'{SETTING} = ["{ipaddress.ip_network(meant[-1])}"]'
    for each in meant:
        if _closed(each):
            return f"{address} is no public address; to allow it: {setting}"
    return "" if secure else f"http is for allowed networks only: use https, or allow its network: {setting}"


def literal_refusal(found: Sink, allow: Sequence[Network]) -> str:
    """Why a URL that names an address, or `localhost`, may be no sink. "": it may, or its name has to be resolved first."""
    host = found.host.removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        refused = [refusal(each, found.secure, allow) for each in _LOCAL]
        return refused[0] if all(refused) else ""
    if _literal(host) is not None:
        return refusal(host, found.secure, allow)
    return "" if found.secure or allow else f"http is for allowed networks only: use https, or allow its network: {SETTING}"


def _inside(address: Address) -> list[Address]:
    """IPv4 addresses that an IPv6 address stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    low = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.is_loopback or address.is_unspecified:
        return []  # ::1 and :: are not written for 0.0.0.1 and 0.0.0.0
    if any(address in network for network in _NAT64) or int(address) >> 32 == 0:
        return [low]
    if address in _6TO4:
        return [ipaddress.IPv4Address(int(address) >> 80 & 0xFFFFFFFF)]
    if address in _TEREDO:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF ^ 0xFFFFFFFF)]
    return []


def _closed(address: Address) -> bool:
    mapped = isinstance(address, ipaddress.IPv6Address) and bool(_inside(address))
    if mapped:
        return False  # what is inside decides
    return (
        address.is_private or address.is_loopback or address.is_link_local or address.is_multicast or address.is_reserved
        or address.is_unspecified or any(address in network for network in _CLOSED if network.version == address.version)
    )  # fmt: skip
