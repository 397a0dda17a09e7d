"""Rebuilds the filter index after a start: reads each topic from the lowest position of its disconnected sessions."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, final

from domain.client.mqtt_session import MqttSubscription
from domain.errors import Failure
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock
from domain.store.store_ports import MessageLog, Metadata, ReadResult, State
from domain.store.store_request import ReadRequest
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.in_flight import QueueKey
from gateway.usecase.sessions.index.filter_index import FilterIndex, FilterMatches
from gateway.usecase.sessions.retry_until_answered import ask_until_answered
from gateway.usecase.waiting.fan_in import FanIn

SLICE_BYTES: Final = 512 * 1024
SLICE_RECORDS: Final = 512
PAUSE_NS: Final = 5 * MILLISECOND_NS
"""Pause between two reads, so that connected clients are served first."""


@final
class ReplayTask:
    """The replay of one queue.

    begin    first offset to read
    at       next offset to read
    wanted   filters to look for; shared by the queues of a topic
    found    ascending offsets of the matches so far, by filter
    """

    __slots__ = ("at", "begin", "found", "queue", "wanted")

    def __init__(self, queue: QueueKey, begin: int, wanted: dict[FilterMatches, None]) -> None:
        self.queue = queue
        self.begin = begin
        self.at = begin
        self.wanted = wanted
        self.found: dict[FilterMatches, array[int]] = {}


@final
class Replay:
    """Replays one queue after another, SLICE_RECORDS in one read."""

    def __init__(self, log: MessageLog, metadata: Metadata, state: State, clock: Clock, filter_index: FilterIndex) -> None:
        self._log = log
        self._metadata = metadata
        self._state = state
        self._clock = clock
        self._filter_index = filter_index
        self._begins: dict[QueueKey, int] = {}
        self._tasks: deque[ReplayTask] = deque()

    @property
    def done(self) -> bool:
        """True when nothing is left to read."""
        return not self._tasks

    def add_session(self, session: str, subscriptions: Iterable[MqttSubscription], done: Callable[[], None]) -> None:
        """Include the positions of a disconnected session, by its name, whose filters the index has; then call `done`."""

        def ask(name: str, _: int, answer: Callable[[dict[int, int] | Failure], None]) -> None:
            ask_until_answered(self._clock, partial(snapshot.positions, self._state, session, name), answer)

        def add(found: dict[tuple[str, int], dict[int, int]], _: Failure | None) -> None:
            begins = self._begins
            for (name, queues), positions in found.items():
                for queue_id in range(queues):
                    queue = (name, queue_id)
                    begins[queue] = min(max(positions.get(queue_id, 0), 0), begins.get(queue, 1 << 62))
            done()

        topics = [self._metadata.topic(name) for name in snapshot.topics_of(subscriptions)]
        FanIn(ask, add).start((topic.name, max(topic.read_queues, topic.write_queues)) for topic in topics if topic is not None)

    def start(self) -> None:
        """Start reading: all stored sessions have been added."""
        begins, self._begins = self._begins, {}
        wanted_by_topic: dict[str, dict[FilterMatches, None]] = {}
        for queue, begin in begins.items():
            if queue[0] not in wanted_by_topic:
                # Filters were added while messages arrived, each at another offset: all start again at the same one.
                self._filter_index.begin_here(queue[0])
                wanted_by_topic[queue[0]] = dict.fromkeys(self._filter_index.of(queue[0]))
            self._tasks.append(ReplayTask(queue, begin, wanted_by_topic[queue[0]]))
        self._next()

    def _next(self) -> None:
        if self._tasks:
            task = self._tasks[0]
            request = ReadRequest(*task.queue, task.at, SLICE_RECORDS, SLICE_BYTES)
            self._log.read(request, lambda result: self._read(task, result))

    def _read(self, task: ReplayTask, result: ReadResult | Failure) -> None:
        pause_ns = PAUSE_NS
        if isinstance(result, Failure):
            pause_ns = SECOND_NS
        elif self._take(task, result):
            self._tasks.popleft()
            pause_ns = 0
        self._clock.call_at(self._clock.monotonic_ns() + pause_ns, self._next)

    def _take(self, task: ReplayTask, result: ReadResult) -> bool:
        """True when the queue has been read up to the first message that the index saw arrive."""
        topic = task.queue[0]
        stop = self._filter_index.firsts.get(task.queue, result.max_offset)
        if task.at < result.min_offset:
            # The log has deleted the oldest messages.
            task.begin = min(result.min_offset, stop)
        for data in result.records:
            offset = int.from_bytes(data[20:28], "big")
            if offset >= stop:
                break
            for matches in self._filter_index.wanting(topic, data):
                if matches in task.wanted:
                    task.found.setdefault(matches, array("Q")).append(offset)
        task.at = max(task.at, result.next_offset)
        if task.at < stop and result.status != "EMPTY":
            return False
        self._filter_index.complete(task.queue, min(task.begin, stop), stop, task.wanted, task.found)
        return True
