"""From a stored record to its subscribers: the path of the record, then a trie of filters, with a cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar, final

from domain.address import is_derived_topic, is_system_topic, path_in, topic_of_path
from gateway.routing.filter_trie import Trie

V = TypeVar("V")
R = TypeVar("R")
CACHED_PATHS_MAX: Final = 65_536


def topic_of_filter(pattern: str) -> str:
    """The topic that stores every path that `pattern` can match; "": the first level is a wildcard."""
    return "" if pattern[0] in "+#" else topic_of_path(pattern)


def is_routed(topic: str) -> bool:
    """True when records of `topic` are delivered by path: not retry, dead-letter and system topics."""
    return not is_derived_topic(topic) and not is_system_topic(topic)


@final
class SubscriberRoutes(Generic[V, R]):
    """A trie of filters with a cache of results, at most CACHED_PATHS_MAX of them, cleared when the filters change.

    `fold` turns the values whose filters match a path into a result (`list`: the values themselves).
    """

    __slots__ = ("_cache", "_fold", "_trie")

    def __init__(self, fold: Callable[[list[V]], R]) -> None:
        self._trie: Trie[V] = Trie()
        self._fold = fold
        self._cache: dict[tuple[str, bytes], tuple[str, R]] = {}

    @property
    def size(self) -> int:
        """Number of (filter, value) pairs."""
        return self._trie.size

    def insert(self, pattern: str, value: V) -> None:
        """Add a pair. Does nothing when it exists."""
        if self._trie.insert(pattern, value):
            self._cache.clear()

    def remove(self, pattern: str, value: V) -> None:
        """Remove a pair. Does nothing when it does not exist."""
        if self._trie.remove(pattern, value):
            self._cache.clear()

    def of(self, topic: str, origin: bytes) -> tuple[str, R]:
        """(path, result) of a record of `topic` with this `originMqttTopic`. The result is shared: do not modify it."""
        key = (topic, origin)
        found = self._cache.get(key)
        if found is None:
            path = path_in(topic, origin)
            found = (path, self._fold(self._trie.match(path) if is_routed(topic) else []))
            if len(self._cache) >= CACHED_PATHS_MAX:
                self._cache.clear()
            self._cache[key] = found
        return found
