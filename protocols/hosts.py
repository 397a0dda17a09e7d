"""Names that requests may address this node by, against DNS rebinding: a page that makes its own name point to this node."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final, final

KNOWN_MAX: Final = 1_024
"""Judged Host fields that are remembered."""
_PRIVATE: Final = ("localhost", "local", "internal", "test", "home.arpa")
"""Domains in which nobody can register a name (RFC 6761, 6762, 8375; ICANN's reservation of internal)."""


@final
class Hosts:
    """The names of this node: the listed ones and the advertised one, and every name that no stranger can register.

    Those are IP addresses, names without a dot, and names in `_PRIVATE`. `*` in the list: every name.
    """

    def __init__(self, listed: Iterable[str], advertised: str) -> None:
        self._listed = {name.lower().rstrip(".") for name in (*listed, advertised) if name}
        self._judged: dict[bytes, bool] = {}

    def knows(self, field: bytes) -> bool:
        """True when a request with this Host field, `name` or `name:port`, may be served. An empty field may."""
        verdict = self._judged.get(field)
        if verdict is None:
            verdict = "*" in self._listed or self._is_ours(host_name(field))
            if len(self._judged) >= KNOWN_MAX:
                self._judged.clear()
            self._judged[field] = verdict
        return verdict

    def _is_ours(self, name: str) -> bool:
        if "." not in name or name in self._listed or name.endswith(tuple(f".{domain}" for domain in _PRIVATE)):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def host_name(field: bytes) -> str:
    """`Name.Example:8080` or `[::1]:8080` -> `name.example`, `::1`."""
    text = field.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0].rstrip(".") if text.count(":") == 1 else text.rstrip(".")


def origin_host(origin: str) -> str:
    """The Host field of requests to `origin`: `https://a.example:8443` -> `a.example:8443`; "" for anything else."""
    scheme, mark, rest = origin.lower().partition("://")
    return rest if mark and scheme in ("http", "https") and "/" not in rest else ""
