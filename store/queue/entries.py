"""Topics of the queue index by name, and lite queues by name."""

from __future__ import annotations

from domain import lite
from domain.topic import Topic
from store.queue.queue import Queue, TopicEntry


class TopicEntries:
    """Entries of topics.

    topics           name -> entry
    own_retention    name -> entry of topics with a retention time or size of their own
    """

    def __init__(self, flushed_default: bool) -> None:
        """`flushed_default`: True when topics without a configuration wait for a sync (Durability.FLUSHED)."""
        self._flushed_default = flushed_default
        self.topics: dict[str, TopicEntry] = {}
        self.own_retention: dict[str, TopicEntry] = {}

    def entry(self, topic: str) -> TopicEntry:
        """The entry of `topic`; created when it does not exist."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicEntry(topic, None, self._flushed_default, 0)
        return found

    def has_topic(self, name: str) -> bool:
        """True when the topic is configured or has a queue."""
        entry = self.topics.get(name)
        return entry is not None and (entry.topic is not None or len(entry.queues) > 0)

    def configure(self, name: str, topic: Topic | None) -> None:
        """Set a topic's configuration; None removes it."""
        entry = self.entry(name)
        entry.configure(topic, self._flushed_default)
        if topic is not None and (topic.retention_ms or topic.retention_bytes):
            self.own_retention[name] = entry
        else:
            self.own_retention.pop(name, None)

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

    def new_lite_queue(self, entry: TopicEntry, lite_topic: str, first: int) -> Queue:
        """Create a lite queue that begins at offset `first`."""
        if entry.lite_queues is None:
            entry.lite_queues = {}
        queue = entry.lite_queues[lite_topic] = Queue(entry, 0, first, lite_topic)
        return queue
