"""The queue that a message goes to: the same one for the same ordering key, the next one for messages without a key."""

from __future__ import annotations

from typing import Final

from domain.filter.tag import tag_hash
from domain.message import property as properties
from domain.message.message import Message
from domain.topic.topic import Topic

KNOWN_MAX: Final = 16_384
"""Keys whose queue is cached: hashing a key costs as much as ten look-ups."""


def jump_hash(key: int, buckets: int) -> int:
    """Consistent bucket of a 64-bit key (Lamping and Veach 2014): few keys move when queues are added."""
    key &= 0xFFFFFFFFFFFFFFFF
    chosen, candidate = -1, 0
    while candidate < buckets:
        chosen = candidate
        key = (key * 2862933555777941757 + 1) & 0xFFFFFFFFFFFFFFFF
        candidate = int((chosen + 1) * (float(1 << 31) / float((key >> 33) + 1)))
    return chosen


class Placement:
    """Chooses queues for messages that name none.

    The ordering key is the message group, else the lite topic, else the exact MQTT path (order holds per path). Messages
    without a key go to the queues in turn, those of one send to one queue, as RocketMQ's batches do.
    """

    def __init__(self) -> None:
        self._turn = 0
        self._known: dict[tuple[bytes, int], int] = {}

    def queue(self, topic: Topic, message: Message) -> int:
        """A write queue of `topic`; it has at least one."""
        queues = topic.write_queues
        if queues == 1:
            return 0
        stored = message.properties
        key = b""
        if not message.plain and properties.has(stored, properties.SHARDING_KEY_START):
            key = properties.find(stored, properties.SHARDING_KEY_START)
        if key == b"" and topic.type == "LITE":
            key = properties.find(stored, properties.LITE_TOPIC_START)
        if key == b"" and not message.plain and properties.has(stored, properties.ORIGIN_MQTT_TOPIC_START):
            key = properties.find(stored, properties.ORIGIN_MQTT_TOPIC_START)
        if key != b"":
            found = self._known.get((key, queues))
            if found is None:
                found = jump_hash(tag_hash(key.decode("utf-8", "replace")), queues)
                if len(self._known) >= KNOWN_MAX:
                    self._known.clear()
                self._known[key, queues] = found
            return found
        return self._turn % queues

    def turn(self) -> None:
        """Begin the next send: its messages without a key go to the next queue."""
        self._turn += 1
