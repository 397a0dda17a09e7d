"""Status of the node under `$SYS/broker/`. The values are not in the log, and clients cannot publish to these topics.

Subscribers get them as retained messages, and again every INTERVAL_NS when they have changed. Filters that begin with a
wildcard do not match them (MQTT 5, 4.7.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from domain.address import OTHER_PATHS_TOPIC
from domain.filter.path_matching import matches
from domain.limits import SECOND_NS
from domain.message import property as properties
from domain.message import record
from domain.message.message import LOCAL_HOST, Message
from domain.ports import Clock
from gateway.usecase.sessions.live_delivery import LiveDelivery

ROOT: Final = "$SYS/broker/"
INTERVAL_NS: Final = 10 * SECOND_NS
_RETAINED: Final = properties.entry(properties.QOS_LEVEL, "0") + properties.entry(properties.MQTT_RETAIN, "true")

Source = Callable[[], Mapping[str, str]]
"""Returns the present values by path below ROOT."""


class SysTopics:
    """Sends changed values to subscribers. There are none until the node is ready: `begin`."""

    def __init__(self, clock: Clock, outbound: LiveDelivery) -> None:
        self._clock = clock
        self._outbound = outbound
        self._sent: dict[str, str] = {}
        self._source: Source | None = None
        clock.call_at(clock.monotonic_ns() + INTERVAL_NS, self._send_changes)

    def begin(self, source: Source) -> None:
        """The node is ready: `source` returns the values from now on."""
        self._source = source

    def _values(self) -> Mapping[str, str]:
        return {} if self._source is None else self._source()

    def paths_under(self, pattern: str) -> Iterator[str]:
        """Paths of values that `pattern` matches, sorted."""
        if pattern.startswith("$SYS"):
            yield from (ROOT + name for name in sorted(self._values()) if matches(pattern, ROOT + name))

    def value(self, path: str) -> bytes | None:
        """A value as a record; None when the path has none."""
        text = self._values().get(path.removeprefix(ROOT)) if path.startswith(ROOT) else None
        return None if text is None else self._record(path, text)

    def _record(self, path: str, text: str) -> bytes:
        stored = properties.entry(properties.ORIGIN_MQTT_TOPIC, path) + _RETAINED
        now_ms = self._clock.wall_ms()
        return record.encode(Message(OTHER_PATHS_TOPIC, text.encode(), stored, born_ms=now_ms), 0, 0, now_ms, LOCAL_HOST)

    def _send_changes(self) -> None:
        if self._outbound.listens(ROOT):
            for name, text in self._values().items():
                if self._sent.get(name) != text:
                    self._sent[name] = text
                    self._outbound.arrived(OTHER_PATHS_TOPIC, 0, [self._record(ROOT + name, text)])
        self._clock.call_at(self._clock.monotonic_ns() + INTERVAL_NS, self._send_changes)
