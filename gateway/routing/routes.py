"""From a stored record to whom it reaches: the path of the record, then the trie, remembered by path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar, final

from domain.address import is_derived_topic, is_path, is_system_topic, topic_of_path
from gateway.routing.trie import Trie

V = TypeVar("V")
R = TypeVar("R")
CACHED_PATHS_MAX: Final = 65_536


def path_in(topic: str, origin: bytes) -> str:
    """The path of a record of `topic` whose `originMqttTopic` is `origin` (b"": none).

    A path that is none, or does not belong to the topic (it was copied along from elsewhere), counts as absent: the message
    is at the topic that it is stored in, so that live delivery and a reader of the log agree on it.
    """
    if origin:
        path = origin.decode("utf-8", "replace")
        if topic_of_path(path) == topic and is_path(path):
            return path
    return topic


def topic_of_filter(pattern: str) -> str:
    """The one domain topic that holds every path that `pattern` can match; "" when its first level is a wildcard."""
    return "" if pattern[0] in "+#" else topic_of_path(pattern)


def is_routed(topic: str) -> bool:
    """True when records of `topic` are delivered by path: not groups' retry and dead-letter copies, nor the system's."""
    return not is_derived_topic(topic) and not is_system_topic(topic)


@final
class SubscriberRoutes(Generic[V, R]):
    """A trie that remembers its answers, at most REMEMBERED_MAX of them, until the filters change.

    `fold` makes an answer of the values whose filters match, once a path (`list` for no more than them).
    """

    __slots__ = ("_cache", "_fold", "_trie")

    def __init__(self, fold: Callable[[list[V]], R]) -> None:
        self._trie: Trie[V] = Trie()
        self._fold = fold
        self._cache: dict[tuple[str, bytes], tuple[str, R]] = {}

    @property
    def size(self) -> int:
        """How many (filter, value) pairs there are."""
        return self._trie.size

    def insert(self, pattern: str, value: V) -> None:
        """Add a pair; harmless when it is there."""
        if self._trie.insert(pattern, value):
            self._cache.clear()

    def remove(self, pattern: str, value: V) -> None:
        """Take a pair out; harmless when it is not there."""
        if self._trie.remove(pattern, value):
            self._cache.clear()

    def of(self, topic: str, origin: bytes) -> tuple[str, R]:
        """(path, answer) of a record of `topic` with that `originMqttTopic`. The answer is shared: do not change it."""
        key = (topic, origin)
        found = self._cache.get(key)
        if found is None:
            path = path_in(topic, origin)
            found = (path, self._fold(self._trie.match(path) if is_routed(topic) else []))
            if len(self._cache) >= CACHED_PATHS_MAX:
                self._cache.clear()
            self._cache[key] = found
        return found
