"""One queue as the index holds it: a few numbers, the newest rows, and where the blocks of older ones are."""

from __future__ import annotations

from array import array
from typing import final

from domain import lite
from domain.topic import Durability, Topic
from store.queue.row import ROW_BYTES


@final
class TopicEntry:
    """A topic as the hot path sees it. `epoch`: records before this position belong to a deleted topic of the same name.

    lights   queues of its lite topics by their names, None as long as there is none; light: it may have some
    cut      what stands before this position of the log is older, or more, than the topic keeps: light queues have lost it
    """

    __slots__ = ("epoch", "flushed", "is_lite", "lite_queues", "name", "queues", "retained_from", "topic")

    def __init__(self, name: str, topic: Topic | None, flushed: bool, epoch: int) -> None:
        self.name = name
        self.topic = topic
        self.flushed = flushed if topic is None else topic.durability is Durability.FLUSHED
        self.epoch = epoch
        self.retained_from = 0
        self.is_lite = topic is not None and topic.type == "LITE"
        self.lite_queues: dict[str, Queue] | None = None
        self.queues: dict[int, Queue] = {}

    def configure(self, topic: Topic | None, flushed: bool) -> None:
        """Take the topic's configuration; `flushed`: the level when there is none."""
        self.topic = topic
        self.flushed = flushed if topic is None else topic.durability is Durability.FLUSHED
        self.is_lite = topic is not None and topic.type == "LITE"

    def all_queues(self) -> list[Queue]:
        """All queues, light ones too."""
        return [*self.queues.values(), *(self.lite_queues or {}).values()]


@final
class Queue:
    """One queue.

    first <= visible <= next: the lowest offset still there, the next one to become readable, the next one to be given out.
    tail       rows of the offsets from `tail_first` to `next`; None when there are none
    starts     first offsets of the blocks in the index, ascending; places: where in the index each begins
    flushed    the level that what is not yet visible waits for
    oldest     start of the log when `first` was last looked for
    lite       name of the lite topic whose queue this is, "" for a queue of the topic itself
    """

    __slots__ = (
        "entry", "first", "flushed", "id", "lite", "log_start", "next", "places", "starts", "tail", "tail_first", "visible",
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
        self.starts: array[int] | None = None
        self.places: array[int] | None = None
        self.flushed = False
        self.log_start = 0

    @property
    def name(self) -> str:
        """The topic's name, or the light queue's."""
        return lite.queue_name(self.entry.name, self.lite) if self.lite else self.entry.name

    def tail_rows(self) -> int:
        """Rows in memory."""
        return 0 if self.tail is None else len(self.tail) // ROW_BYTES
