"""Prometheus' text format (version 0.0.4), from the counters of protocols, store and other parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gateway.observe.counters import ProtocolCounters

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_PLAIN: Final = (
    ("messages_in_total", "counter", "Messages taken from clients"),
    ("messages_out_total", "counter", "Messages handed to clients"),
    ("bytes_in_total", "counter", "Bytes read from sockets"),
    ("bytes_out_total", "counter", "Bytes written to sockets"),
    ("connections_opened_total", "counter", "Connections since the start"),
    ("connections_open", "gauge", "Connections open now"),
)
COUNTERS: Final = {
    "mqtt_sessions_connected": "MQTT clients connected now",
    "mqtt_sessions_connected_max": "MQTT clients that were connected at the same time, at most",
    "mqtt_subscriptions": "Filters of MQTT clients that are connected",
    "mqtt_retained": "Latest values kept",
    "mqtt_retained_bytes": "Bytes of the latest values kept",
    "reloads_total": "Times that settings or certificates were read again and put in force",
    "reload_failures_total": "Times that settings or certificates could not be read again; what was in force stayed",
    "reload_broken": "Files now that could not be read again: settings, certificates",
    "held_off_total": "CONNECTs of MQTT clients that connected too often, refused while they are held off",
    "share_oversize_total": "Messages of a group that were too large for every MQTT member that was there",
    "watch_dropped_total": "Live messages that a watcher lost because too many came at once",
}
_BY_REASON: Final = (
    ("refusals_total", "all_refusals", "Refused commands and connections, by reason"),
    ("disconnects_total", "all_disconnects", "Ended connections, by reason"),
    ("dropped_total", "dropped", "Datagrams and requests that came to nothing, by reason"),
)


def text(
    protocols: Iterable[ProtocolCounters],
    store: Mapping[str, float],
    lags: Iterable[tuple[str, str, int]],
    up_s: float,
    expired: int,
    access: Mapping[str, int],
    lost: Mapping[str, int],
    counters: Mapping[str, int],
) -> str:
    """All metrics as text.

    protocols  counters of each protocol
    store      values of the store by name, without the prefix `headgate_store_`
    lags       (group, topic, messages behind)
    up_s       seconds since the node was ready
    expired    messages settled instead of delivered because they had expired
    access     refusals of access control, by cause
    lost       messages that did not reach MQTT clients, by reason
    counters   counters of other parts of the node, by the names of COUNTERS
    """
    lines: list[str] = []
    by_protocol = list(protocols)
    for name, kind, about in _PLAIN:
        _head(lines, name, kind, about)
        attribute = name.removesuffix("_total")
        lines += [f"headgate_{name}{_labels(protocol=one.protocol)} {getattr(one, attribute)}" for one in by_protocol]
    for name, attribute, about in _BY_REASON:
        _head(lines, name, "counter", about)
        for one in by_protocol:
            found = getattr(one, attribute)
            counts: Mapping[str, int] = found() if callable(found) else found
            lines += [
                f"headgate_{name}{_labels(protocol=one.protocol, reason=reason)} {count}"
                for reason, count in sorted(counts.items())
            ]
    _reasons(lines, "access_refusals_total", "Credentials and commands refused by access control, by cause", access)
    _reasons(lines, "mqtt_lost_total", "Messages that MQTT clients have sent or were to get, and that are lost", lost)
    _head(lines, "group_lag", "gauge", "Messages that a consumer group has not settled yet")
    lines += [f"headgate_group_lag{_labels(group=group, topic=topic)} {lag}" for group, topic, lag in lags]
    _head(lines, "messages_expired_total", "counter", "Messages settled instead of delivered, since they had expired")
    lines.append(f"headgate_messages_expired_total {expired}")
    for name, count in sorted(counters.items()):
        _head(lines, name, "counter" if name.endswith("_total") else "gauge", COUNTERS[name])
        lines.append(f"headgate_{name} {count}")
    for name, value in sorted(store.items()):
        _head(lines, f"store_{name}", "counter" if name.endswith("_total") else "gauge", f"The store's {name}")
        lines.append(f"headgate_store_{name} {value:.9g}")
    _head(lines, "up_seconds", "gauge", "Time since the node was ready")
    lines.append(f"headgate_up_seconds {up_s:.3f}")
    return "\n".join(lines) + "\n"


def _reasons(lines: list[str], name: str, about: str, counts: Mapping[str, int]) -> None:
    _head(lines, name, "counter", about)
    lines += [f"headgate_{name}{_labels(reason=reason)} {count}" for reason, count in sorted(counts.items())]


def _head(lines: list[str], name: str, kind: str, about: str) -> None:
    lines.append(f"# HELP headgate_{name} {about}")
    lines.append(f"# TYPE headgate_{name} {kind}")


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
