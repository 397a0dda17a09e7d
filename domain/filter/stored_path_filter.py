"""The store's message filter by MQTT path, over the properties of stored records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from domain.address import OTHER_PATHS_TOPIC, path_in
from domain.filter.filter import PATH
from domain.filter.path_matching import matches
from domain.message import property as properties

CACHED_PATHS_MAX: Final = 4_096


@final
class PathFilter:
    """The `domain.filter.filter.Filter` that accepts records of `topic` whose path matches one of `patterns`."""

    __slots__ = ("_cache", "_patterns", "_topic")

    def __init__(self, topic: str, patterns: Iterable[str]) -> None:
        self._topic = topic
        self._patterns = tuple(patterns)
        self._cache: dict[bytes, bool] = {}

    @property
    def expression(self) -> tuple[str, str]:
        """PATH, and the topic and the patterns, with U+0000 between them."""
        return PATH, "\x00".join((self._topic, *self._patterns))

    @property
    def cost(self) -> int:
        """1: most paths are known."""
        return 1

    @property
    def hashes(self) -> frozenset[int] | None:
        """None: tags say nothing about the path."""
        return None

    def matches(self, stored_properties: bytes) -> bool:
        """True when the path of a message with these properties matches."""
        origin = properties.find(stored_properties, properties.ORIGIN_MQTT_TOPIC_START)
        known = self._cache.get(origin)
        if known is None:
            path = path_in(self._topic, origin)
            known = any(matches(pattern, path) for pattern in self._patterns)
            if len(self._cache) >= CACHED_PATHS_MAX:
                self._cache.clear()
            self._cache[origin] = known
        return known


def path_filter(topic: str, patterns: Iterable[str]) -> PathFilter | None:
    """The filter for records of `topic`; None when `patterns` match every path of the topic."""
    wanted = dict.fromkeys(patterns)
    # `#` does not match paths that begin with `$`, which are stored in OTHER_PATHS_TOPIC.
    everything = f"{topic}/#" in wanted or ("#" in wanted and topic != OTHER_PATHS_TOPIC)
    return None if everything else PathFilter(topic, wanted)
