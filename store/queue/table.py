"""The table of the topics and queues, as frames of a snapshot: a start reads it instead of the heads of all index blocks.

    topics: names | heads and tails of the configurations, by turns | number of the configuration of each topic
            | times of creation | anchors
    queues: names | queue ids | epochs | first offsets | offsets behind the last block | positions of the last records
            | numbers of blocks | first offsets of all blocks | places of all blocks

Rows in memory are not in it. A start reads the heads of the blocks that were written since the table was begun: what a row
says of such a block is replaced by the same, or by what is newer.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Final, final

from domain.topic import lite
from store.checkpoint.columns import ColumnReader, pack, pack_names
from store.queue.entries import TopicEntries
from store.queue.queue import Queue, TopicEntry
from store.queue.settings import TopicSettings

ROWS_MAX: Final = 512
"""Rows of one frame, unless one topic more brings it to twice as many."""


@final
class QueueRows:
    """Rows of queues, which become a frame."""

    __slots__ = (
        "_counts", "_epochs", "_firsts", "_ids", "_lasts", "_names", "_nexts", "_places", "_starts", "count",
    )  # fmt: skip

    def __init__(self) -> None:
        self.count = 0
        self._names: list[bytes] = []
        self._ids: list[int] = []
        self._epochs: list[int] = []
        self._firsts: list[int] = []
        self._nexts: list[int] = []
        self._lasts: list[int] = []
        self._counts: list[int] = []
        self._starts: array[int] = array("q")
        self._places: array[int] = array("q")

    def add(self, queue: Queue) -> None:
        """Add the row of a queue as it is now."""
        self.count += 1
        self._names.append(queue.name.encode())
        self._ids.append(queue.id)
        self._epochs.append(queue.entry.epoch)
        self._firsts.append(min(queue.first, queue.tail_first))
        self._nexts.append(queue.tail_first)
        self._lasts.append(queue.last_record)
        blocks = queue.blocks
        if blocks is None:
            self._counts.append(0)
        else:
            half = len(blocks) // 2
            self._counts.append(half)
            self._starts.extend(blocks[:half])
            self._places.extend(blocks[half:])

    def encode(self) -> bytes:
        """The body of the frame."""
        numbers = (
            self._ids, self._epochs, self._firsts, self._nexts, self._lasts, self._counts, self._starts, self._places,
        )  # fmt: skip
        return pack_names(self._names) + b"".join([pack(column) for column in numbers])


def encode_topics(entries: list[TopicEntry]) -> tuple[bytes, int]:
    """(body of the frame of the `entries` with a configuration, number of these)."""
    names: list[bytes] = []
    numbers: list[int] = []
    created: list[int] = []
    anchors: list[int] = []
    parts: list[bytes] = []
    known: dict[TopicSettings, int] = {}
    for entry in entries:
        settings = entry.settings
        if settings is None:
            continue
        number = known.get(settings, -1)
        if number < 0:
            number = known[settings] = len(known)
            parts.append(settings.head)
            parts.append(b"" if settings.tail is None else settings.tail)
        names.append(entry.name.encode())
        numbers.append(number)
        created.append(entry.created_ms)
        anchors.append(entry.anchor)
    return pack_names(names) + pack_names(parts) + pack(numbers) + pack(created) + pack(anchors), len(names)


def load_topics(index: TopicEntries, body: bytes, shared: Callable[[bytes, bytes | None], TopicSettings]) -> None:
    """Configure the topics of a frame. `shared(head, tail)` is a configuration."""
    reader = ColumnReader(body)
    names = reader.names()
    parts = reader.names()
    numbers, created, anchors = reader.integers(), reader.integers(), reader.integers()
    known: list[TopicSettings] = []
    for at in range(0, len(parts) - 1, 2):
        known.append(shared(parts[at], parts[at + 1] or None))
    entries = index.load_topics(names[: len(numbers)])
    for row, number in enumerate(numbers):
        index.configure_entry(entries[row], known[number], created[row], anchors[row])


def load_queues(index: TopicEntries, body: bytes, files_first: int) -> int:
    """Make the queues of a frame; returns the number of their blocks. Blocks before place `files_first` are deleted."""
    reader = ColumnReader(body)
    names = reader.names()
    ids, epochs, firsts, nexts = reader.integers(), reader.integers(), reader.integers(), reader.integers()
    lasts, counts, starts, places = reader.integers(), reader.integers(), reader.integers(), reader.integers()
    topics, loaded = index.topics, index.loaded
    prefix = lite.PREFIX.encode()
    at = total = 0
    for row, queue_id in enumerate(ids):
        begin = at
        at += counts[row]
        raw = names[row]
        lite_topic = ""
        entry = loaded.get(raw)
        if entry is None:
            name = raw.decode()
            if raw.startswith(prefix):
                parent, lite_topic = lite.split(name)
                name = parent if lite_topic else name
            entry = topics.get(name)
            if entry is None:
                entry = index.entry(name)
        epoch = epochs[row]
        if epoch < entry.epoch:
            continue
        entry.epoch = epoch
        first = firsts[row]
        queue = index.new_lite_queue(entry, lite_topic, first) if lite_topic else index.new_queue(entry, queue_id, first)
        queue.next = queue.visible = queue.tail_first = nexts[row]
        queue.last_record = lasts[row]
        while begin < at and 0 <= places[begin] < files_first:
            begin += 1
        if begin + 1 == at:
            queue.blocks = array("q", (starts[begin], places[begin]))
            total += 1
        elif begin < at:
            queue.blocks = array("q", starts[begin:at])
            queue.blocks.extend(array("q", places[begin:at]))
            total += at - begin
    return total


def rows_of(entry: TopicEntry) -> Iterator[list[Queue]]:
    """The queues of a topic, in lists of at most ROWS_MAX."""
    queues = entry.all_queues()
    for at in range(0, len(queues), ROWS_MAX):
        yield queues[at : at + ROWS_MAX]
