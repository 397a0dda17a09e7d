"""After a start: light queues learn what was in the log already, from where the session that is furthest behind has got to."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable
from typing import Final, final

from domain.errors import Failure
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.mqtt_session import Interest
from domain.ports import Clock, MessageStore, Metadata, ReadResult, State
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.filter_index import FilterIndex, FilterMatches
from gateway.usecase.sessions.mqtt_session import Place

SLICE_BYTES: Final = 512 * 1024
SLICE_RECORDS: Final = 512
PAUSE_NS: Final = 5 * MILLISECOND_NS
"""Between two slices: replaying is behind what the node does for those who are there."""


@final
class Task:
    """One queue to read: from `begin`, now at `at`, for `lights`, which all queues of a topic share."""

    __slots__ = ("at", "begin", "found", "lights", "place")

    def __init__(self, place: Place, begin: int, lights: dict[FilterMatches, None]) -> None:
        self.place = place
        self.begin = begin
        self.at = begin
        self.lights = lights
        self.found: dict[FilterMatches, array[int]] = {}


@final
class Replay:
    """Reads one queue after another, a slice at a time."""

    def __init__(self, store: MessageStore, metadata: Metadata, state: State, clock: Clock, lights: FilterIndex) -> None:
        self._store = store
        self._metadata = metadata
        self._state = state
        self._clock = clock
        self._lights = lights
        self._begins: dict[Place, int] = {}
        self._tasks: deque[Task] = deque()

    @property
    def done(self) -> bool:
        """There is nothing left to read."""
        return not self._tasks

    def consider(self, client_id: str, interests: Iterable[Interest]) -> None:
        """A session without a connection: read from where it has got to. Its light queues are held already."""
        begins = self._begins
        for name in snapshot.topics_of(interests):
            topic = self._metadata.topic(name)
            if topic is None:
                continue
            positions = snapshot.positions(self._state, client_id, name)
            for queue_id in range(max(topic.read_queues, topic.write_queues)):
                place = (name, queue_id)
                begins[place] = min(positions.get(queue_id, 0), begins.get(place, 1 << 62))

    def start(self) -> None:
        """All have been considered."""
        begins, self._begins = self._begins, {}
        lights: dict[str, dict[FilterMatches, None]] = {}
        for place, begin in begins.items():
            if place[0] not in lights:
                # They came one after another, while messages came: what each has so far begins elsewhere.
                self._lights.begin_here(place[0])
                lights[place[0]] = dict.fromkeys(self._lights.of(place[0]))
            self._tasks.append(Task(place, begin, lights[place[0]]))
        self._next()

    def _next(self) -> None:
        if self._tasks:
            task = self._tasks[0]
            self._store.read(*task.place, task.at, SLICE_RECORDS, SLICE_BYTES, None, lambda result: self._read(task, result))

    def _read(self, task: Task, result: ReadResult | Failure) -> None:
        pause_ns = PAUSE_NS
        if isinstance(result, Failure):
            pause_ns = SECOND_NS
        elif self._take(task, result):
            self._tasks.popleft()
            pause_ns = 0
        self._clock.call_at(self._clock.monotonic_ns() + pause_ns, self._next)

    def _take(self, task: Task, result: ReadResult) -> bool:
        """True when the queue has been read up to where the arrivals of this run begin."""
        topic = task.place[0]
        stop = self._lights.firsts.get(task.place, result.max_offset)
        if task.at < result.min_offset:
            # Gone from the log in the meantime, or before.
            task.begin = min(result.min_offset, stop)
        for data in result.records:
            offset = int.from_bytes(data[20:28], "big")
            if offset >= stop:
                break
            for light in self._lights.wanting(topic, data):
                if light in task.lights:
                    task.found.setdefault(light, array("Q")).append(offset)
        task.at = max(task.at, result.next_offset)
        if task.at < stop and result.status != "EMPTY":
            return False
        self._lights.complete(task.place, min(task.begin, stop), stop, task.lights, task.found)
        return True
