"""Values of `$SYS/broker/`; the names are those that other brokers use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version

from gateway.observe.counters import ProtocolCounters


def sys_values(traffic: Sequence[int], counts: Mapping[str, int], up_s: int) -> dict[str, str]:
    """Values by path.

    traffic   messages in and out, bytes in and out: `traffic_of` all protocols, and of gateways
    counts    values that are taken as they are
    up_s      seconds since the node was ready
    """
    messages_in, messages_out, bytes_in, bytes_out = traffic
    return {
        "version": f"headgate {version('headgate')}",
        "uptime": f"{up_s} seconds",
        "messages/received": str(messages_in),
        "messages/sent": str(messages_out),
        "bytes/received": str(bytes_in),
        "bytes/sent": str(bytes_out),
        **{name: str(count) for name, count in counts.items()},
    }


def traffic_of(protocols: Iterable[ProtocolCounters]) -> tuple[int, int, int, int]:
    """Messages in and out, bytes in and out, of all protocols of this node."""
    counters = list(protocols)
    return (
        sum(one.messages_in for one in counters),
        sum(one.messages_out for one in counters),
        sum(one.bytes_in for one in counters),
        sum(one.bytes_out for one in counters),
    )
