"""Topics as the index knows them, by their names, and light queues by theirs."""

from __future__ import annotations

from domain import lite
from store.queue.queue import Queue, TopicEntry


class TopicEntries:
    """Entries of topics; `flushed_default`: the level of a topic that has no configuration."""

    def __init__(self, flushed_default: bool) -> None:
        self._flushed_default = flushed_default
        self.topics: dict[str, TopicEntry] = {}

    def entry(self, topic: str) -> TopicEntry:
        """The entry of `topic`, made when there is none."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicEntry(topic, None, self._flushed_default, 0)
        return found

    def light(self, name: str) -> Queue | None:
        """A light queue by its name."""
        parent, lite_topic = lite.split(name)
        entry = self.topics.get(parent)
        return None if entry is None or entry.lights is None else entry.lights.get(lite_topic)

    def flushed(self, name: str) -> bool:
        """True when what is said of a queue of this name has to wait for a sync."""
        entry = self.topics.get(name) or self.topics.get(lite.topic_of(name))
        return entry is None or entry.flushed

    def new_light(self, entry: TopicEntry, lite_topic: str, first: int) -> Queue:
        """Make a light queue, which begins at offset `first`."""
        if entry.lights is None:
            entry.lights = {}
        queue = entry.lights[lite_topic] = Queue(entry, 0, first, lite_topic)
        return queue
