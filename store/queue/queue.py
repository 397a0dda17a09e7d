"""One queue of the index: its offsets, its newest rows, and where the blocks of older rows are."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import final

from domain.topic import lite
from store.queue.row import ROW, ROW_BYTES
from store.queue.settings import TopicSettings


@final
class Arrivals:
    """The queues of one topic in the order in which they last got messages.

    _last    queue id -> number of its last arrival, ascending
    """

    __slots__ = ("_last", "count")

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self.count = 0

    def note(self, queue_id: int) -> None:
        """Note that messages of the queue have become readable."""
        self.count += 1
        self._last.pop(queue_id, None)
        self._last[queue_id] = self.count

    def since(self, count: int) -> list[int]:
        """The queues with an arrival after number `count`, the oldest arrival first."""
        found: list[int] = []
        for queue_id, number in reversed(self._last.items()):
            if number <= count:
                break
            found.append(queue_id)
        found.reverse()
        return found


@final
class TopicEntry:
    """A topic of the index.

    created_ms      time of its creation, epoch ms; 0 when it is unknown
    anchor          base of the log segment with the newest record of its configuration
    flushed         True when its messages wait for a sync
    epoch           records before this position of the log belong to a deleted topic of the same name
    arrivals        which queues got messages last; None until a group receives from any of many queues
    is_lite         True for a topic of type LITE, which may have lite queues
    lite_queues     lite topic -> queue, None while there is none
    retained_from   log position from which the topic's own retention keeps messages; lite queues have lost older ones
    """

    __slots__ = (
        "anchor", "arrivals", "created_ms", "epoch", "flushed", "is_lite", "lite_queues", "name", "queues", "retained_from",
        "settings",
    )  # fmt: skip

    def __init__(self, name: str, flushed: bool, epoch: int) -> None:
        """`flushed` is the level of a topic without a configuration."""
        self.name = name
        self.settings: TopicSettings | None = None
        self.created_ms = 0
        self.anchor = 0
        self.flushed = flushed
        self.epoch = epoch
        self.arrivals: Arrivals | None = None
        self.retained_from = 0
        self.is_lite = False
        self.lite_queues: dict[str, Queue] | None = None
        self.queues = Queues()

    def configure(self, settings: TopicSettings | None, created_ms: int, anchor: int, flushed: bool) -> None:
        """Set the topic's configuration. `flushed` is the level of a topic without one."""
        self.settings = settings
        self.created_ms = created_ms
        self.anchor = anchor
        self.flushed = flushed if settings is None else settings.topic.durability.waits_for_sync
        self.is_lite = settings is not None and settings.topic.type == "LITE"

    def all_queues(self) -> list[Queue]:
        """All queues, lite queues included."""
        return [*self.queues.values(), *(self.lite_queues or {}).values()]

    def take_queues(self, most: int) -> list[Queue]:
        """Remove and return at most `most` queues, lite queues included; none when none is left."""
        taken = self.queues.take(most)
        lite_queues = self.lite_queues
        while lite_queues and len(taken) < most:
            taken.append(lite_queues.popitem()[1])
        return taken


@final
class Queues:
    """The queues of a topic by id, as a dict has them. Most of a million topics have one queue: that one needs no dict.

    _one    the only queue, None when there are none or several
    _many   queue id -> queue once there are several, None before
    """

    __slots__ = ("_many", "_one")

    def __init__(self) -> None:
        self._one: Queue | None = None
        self._many: dict[int, Queue] | None = None

    def __len__(self) -> int:
        if self._many is not None:
            return len(self._many)
        return 0 if self._one is None else 1

    def __contains__(self, queue_id: int) -> bool:
        return self.get(queue_id) is not None

    def __iter__(self) -> Iterator[int]:
        if self._many is not None:
            return iter(list(self._many))
        return iter([] if self._one is None else [self._one.id])

    def __getitem__(self, queue_id: int) -> Queue:
        queue = self.get(queue_id)
        if queue is None:
            raise KeyError(queue_id)
        return queue

    def __setitem__(self, queue_id: int, queue: Queue) -> None:
        one = self._one
        if self._many is not None:
            self._many[queue_id] = queue
        elif one is None or one.id == queue_id:
            self._one = queue
        else:
            self._many = {one.id: one, queue_id: queue}
            self._one = None

    def get(self, queue_id: int) -> Queue | None:
        """The queue with this id; None when there is none."""
        if self._many is not None:
            return self._many.get(queue_id)
        one = self._one
        return one if one is not None and one.id == queue_id else None

    def pop(self, queue_id: int, default: None) -> Queue | None:
        """Remove and return the queue with this id, or `default`."""
        if self._many is not None:
            return self._many.pop(queue_id, default)
        one = self._one
        if one is None or one.id != queue_id:
            return default
        self._one = None
        return one

    def highest(self) -> int:
        """The highest queue id, -1 without queues."""
        if self._many is not None:
            return max(self._many, default=-1)
        return -1 if self._one is None else self._one.id

    def take(self, most: int) -> list[Queue]:
        """Remove and return at most `most` queues."""
        taken: list[Queue] = []
        if self._one is not None:
            taken.append(self._one)
            self._one = None
        elif self._many:
            while self._many and len(taken) < most:
                taken.append(self._many.popitem()[1])
        return taken

    def values(self) -> list[Queue]:
        """All queues, in the order in which they were added."""
        if self._many is not None:
            return list(self._many.values())
        return [] if self._one is None else [self._one]


@final
class Queue:
    """One queue.

    Invariant: first <= visible <= next.

    lite         name of the lite topic whose queue this is, "" for a queue of the topic itself
    first        the lowest offset that is still there
    visible      offset after the newest readable message
    next         the offset of the next message
    flushed      True when the messages from `visible` to `next` wait for a sync
    tail         encoded rows from `tail_first` to `next`, in memory; None when there are none
    tail_first   offset of the first row of `tail`
    tail_place   place among the queues with a tail (tails.py)
    blocks       first offset of each block in the index, ascending, then where in the index each of them begins: one array
                 takes 100 bytes less than two; None when there never was a block
    log_start    start of the log when `first` was last computed
    last_record  log position of the newest message in a block; -1 when there is none, or when its segment may be deleted
    """

    __slots__ = (
        "blocks", "entry", "first", "flushed", "id", "last_record", "lite", "log_start", "next", "tail", "tail_first",
        "tail_place", "visible",
    )  # fmt: skip

    def __init__(self, entry: TopicEntry, queue_id: int, first: int = 0, lite: str = "") -> None:
        self.entry = entry
        self.id = queue_id
        self.lite = lite
        self.first = first
        self.visible = first
        self.next = first
        self.tail: bytearray | None = None
        self.tail_first = first
        self.tail_place = 0
        self.blocks: array[int] | None = None
        self.flushed = False
        self.log_start = 0
        self.last_record = -1

    @property
    def name(self) -> str:
        """The name of the topic, or of the lite queue."""
        return lite.queue_name(self.entry.name, self.lite) if self.lite else self.entry.name

    def last_position(self) -> int:
        """The log position of the newest message; -1 when there is none, or when its segment may be deleted."""
        tail = self.tail
        if tail is None:
            return self.last_record
        position: int = ROW.unpack_from(tail, len(tail) - ROW_BYTES)[0]
        return position

    def block_count(self) -> int:
        """Number of blocks in the index."""
        return 0 if self.blocks is None else len(self.blocks) // 2

    def add_block(self, start: int, place: int) -> None:
        """Add the newest block, which begins at `place` of the index with the row of offset `start`."""
        blocks = self.blocks
        if blocks is None:
            self.blocks = array("q", (start, place))
        else:
            blocks.insert(len(blocks) // 2, start)
            blocks.append(place)

    def drop_blocks(self, begin: int, end: int) -> int:
        """Forget the blocks from number `begin` to `end`; returns their number."""
        blocks = self.blocks
        if blocks is not None and begin < end:
            count = len(blocks) // 2
            del blocks[count + begin : count + end]
            del blocks[begin:end]
        return end - begin

    def tail_rows(self) -> int:
        """Number of rows in memory."""
        return 0 if self.tail is None else len(self.tail) // ROW_BYTES
