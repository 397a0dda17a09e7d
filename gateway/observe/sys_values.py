"""Values of `$SYS/broker/`; the names are those that other brokers use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import version

from gateway.observe.counters import ProtocolCounters


def sys_values(protocols: Iterable[ProtocolCounters], counts: Mapping[str, int], up_s: int) -> dict[str, str]:
    """Values by path: sums over all protocols, and `counts` unchanged. `up_s`: seconds since the node was ready."""
    counters = list(protocols)
    return {
        "version": f"headgate {version('headgate')}",
        "uptime": f"{up_s} seconds",
        "messages/received": str(sum(one.messages_in for one in counters)),
        "messages/sent": str(sum(one.messages_out for one in counters)),
        "bytes/received": str(sum(one.bytes_in for one in counters)),
        "bytes/sent": str(sum(one.bytes_out for one in counters)),
        **{name: str(count) for name, count in counts.items()},
    }
