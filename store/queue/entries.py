"""Topics of the queue index by name, and lite queues by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from domain.topic import lite
from store.queue.queue import Queue, TopicEntry
from store.queue.settings import TopicSettings
from store.state.sorted_set import SortedSet

_PARTS: Final = 64
"""A power of two."""
_SLICE: Final = 512
"""Entries of one step of an iteration."""


@final
class TopicMap:
    """Name -> entry. Iterations go by name: the order of the parts differs from process to process.

    One dictionary of a million would be copied in one turn when it grows; of these parts only one is.

    """

    def __init__(self) -> None:
        self._parts: list[dict[str, TopicEntry]] = [{} for _ in range(_PARTS)]
        self._names: SortedSet[str] = SortedSet()

    def __len__(self) -> int:
        return sum([len(part) for part in self._parts])

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __getitem__(self, name: str) -> TopicEntry:
        entry = self.get(name)
        if entry is None:
            raise KeyError(name)
        return entry

    def __setitem__(self, name: str, entry: TopicEntry) -> None:
        part = self._parts[hash(name) & (_PARTS - 1)]
        if name not in part:
            self._names.add(name)
        part[name] = entry

    def entries(self, names: list[str], flushed: bool) -> list[TopicEntry]:
        """The entries of `names`, ascending; those that are missing are made. `flushed`: as TopicEntry has it."""
        found: list[TopicEntry] = []
        parts = self._parts
        for name in names:
            fresh = TopicEntry(name, flushed, 0)
            entry = parts[hash(name) & (_PARTS - 1)].setdefault(name, fresh)
            if entry is fresh:
                self._names.add(name)
            found.append(entry)
        return found

    def get(self, name: str) -> TopicEntry | None:
        """The entry of the topic `name`; None when the index has no such topic."""
        return self._parts[hash(name) & (_PARTS - 1)].get(name)

    def names(self) -> list[str]:
        """All names, ascending."""
        return self._names.all()

    def names_after(self, name: str) -> list[str]:
        """Some names behind `name`, ascending; none when there is none."""
        return self._names.after(name)

    def values(self) -> list[TopicEntry]:
        """All entries, by name."""
        return [self[name] for name in self._names.all()]

    def slices(self) -> Iterator[list[TopicEntry]]:
        """All entries, by name, in lists of at most _SLICE. Entries may come and go between two of them."""
        names = self._names.after("")
        while names:
            for at in range(0, len(names), _SLICE):
                found: list[TopicEntry] = []
                for name in names[at : at + _SLICE]:
                    entry = self.get(name)
                    if entry is not None:
                        found.append(entry)
                yield found
            names = self._names.after(names[-1])


class TopicEntries:
    """Entries of topics.

    own_retention    name -> entry of topics with a retention time or size of their own
    loaded           name -> entry of the topics of the frame of a snapshot that was loaded last
    lite_topics      name -> entry of topics that are or were of type LITE
    configured       number of topics with a configuration
    queue_count      number of queues, without lite queues
    """

    def __init__(self, flushed_default: bool) -> None:
        """`flushed_default`: True when topics without a configuration wait for a sync."""
        self._flushed_default = flushed_default
        self.topics = TopicMap()
        self.configured = 0
        self.queue_count = 0
        self.own_retention: dict[str, TopicEntry] = {}
        self.lite_topics: dict[str, TopicEntry] = {}
        self.loaded: dict[bytes, TopicEntry] = {}

    def entry(self, topic: str) -> TopicEntry:
        """The entry of `topic`; created when it does not exist."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicEntry(topic, self._flushed_default, 0)
        return found

    def has_topic(self, name: str) -> bool:
        """True when the topic is configured or has a queue."""
        entry = self.topics.get(name)
        return entry is not None and (entry.settings is not None or len(entry.queues) > 0)

    def configure(self, name: str, settings: TopicSettings | None, created_ms: int, anchor: int) -> TopicEntry:
        """Set a topic's configuration, whose record is in the log segment at `anchor`; None removes it. Returns its entry."""
        entry = self.entry(name)
        self.configure_entry(entry, settings, created_ms, anchor)
        return entry

    def configure_entry(self, entry: TopicEntry, settings: TopicSettings | None, created_ms: int, anchor: int) -> None:
        """Set the configuration of the topic of `entry`, as `configure` does."""
        name = entry.name
        self.configured += (settings is not None) - (entry.settings is not None)
        entry.configure(settings, created_ms, anchor, self._flushed_default)
        if settings is not None and (settings.topic.retention_ms or settings.topic.retention_bytes):
            self.own_retention[name] = entry
        elif self.own_retention:
            self.own_retention.pop(name, None)
        if entry.is_lite:
            self.lite_topics[name] = entry

    def load_topics(self, names: list[bytes]) -> list[TopicEntry]:
        """The entries of the topics of a frame of a snapshot, made when they are missing; `loaded` has them until the next."""
        found = self.topics.entries([name.decode() for name in names], self._flushed_default)
        self.loaded = dict(zip(names, found, strict=True))
        return found

    def contains(self, queue: Queue) -> bool:
        """True when `queue` has not been dropped."""
        entry = queue.entry
        if self.topics.get(entry.name) is not entry:
            return False
        known = (entry.lite_queues or {}).get(queue.lite) if queue.lite else entry.queues.get(queue.id)
        return known is queue

    def lite_queue(self, name: str) -> Queue | None:
        """A lite queue by its name (lite.queue_name); None when it does not exist."""
        parent, lite_topic = lite.split(name)
        entry = self.topics.get(parent)
        return None if entry is None or entry.lite_queues is None else entry.lite_queues.get(lite_topic)

    def flushed(self, name: str) -> bool:
        """True when answers about the queue of this name have to wait for a sync."""
        entry = self.topics.get(name) or self.topics.get(lite.topic_of(name))
        return entry is None or entry.flushed

    def new_queue(self, entry: TopicEntry, queue_id: int, first: int) -> Queue:
        """Create a queue of a topic that begins at offset `first`."""
        queue = entry.queues[queue_id] = Queue(entry, queue_id, first)
        self.queue_count += 1
        return queue

    def new_lite_queue(self, entry: TopicEntry, lite_topic: str, first: int) -> Queue:
        """Create a lite queue that begins at offset `first`."""
        if entry.lite_queues is None:
            entry.lite_queues = {}
            self.lite_topics[entry.name] = entry
        queue = entry.lite_queues[lite_topic] = Queue(entry, 0, first, lite_topic)
        return queue
