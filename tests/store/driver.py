"""A store on a virtual disk, driven by a virtual clock: calls become values."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from domain.errors import ErrorCode, Failure
from domain.event import Leased
from domain.filter.tag import TagFilter
from domain.message.message import Message, Placed
from domain.message.record import Record
from domain.store.storage_engine import StorageEngine
from domain.store.store_event import Report, StoreEvent, StoreEventKind
from domain.store.store_ports import LeaseResult, ReadResult, StateChange
from domain.store.store_request import LeaseRequest, LeaseTerms, ReadRequest
from domain.topic.topic import Durability, Topic
from store.engine import LOG
from store.opening.open_store import OpenStore
from tests.simulation.kit.clock import START_MS, VirtualClock
from tests.simulation.kit.disk import Keep, MemoryDisk, Operation

Result = TypeVar("Result")


def code_of(result: object) -> ErrorCode:
    """The code of a failure."""
    assert isinstance(result, Failure)
    return result.code


def sure(result: Result | Failure) -> Result:
    assert not isinstance(result, Failure), result
    return result


def wait(clock: VirtualClock, call: Callable[[Callable[[], None]], None]) -> None:
    done: list[int] = []
    call(lambda: done.append(1))
    clock.run_until(lambda: bool(done))


class Driver:
    """One store with its disk and clock. `killed`, `powered_off` and `restarted` open the next store on the same disk."""

    def __init__(
        self,
        config: Any = None,
        disk: MemoryDisk | None = None,
        clock: VirtualClock | None = None,
        engine: StorageEngine = LOG,
        faults: bool = False,
    ) -> None:
        """`config`: the engine's settings, None for its defaults. `faults`: callbacks of the test raise on purpose."""
        self.events: list[StoreEvent] = []
        self.heard: list[Report] = []
        self.faults = faults
        self.engine = engine
        self.config = config if config is not None else engine.settings()
        self.clock = clock or (cast(VirtualClock, disk._clock) if disk is not None else VirtualClock(START_MS))
        self.disk = disk if disk is not None else MemoryDisk(self.clock)
        # Tests of the bundled engine look at its parts; those of the contract use the ports alone.
        self.store = cast(OpenStore, engine.open(self.disk, self.clock, self.config, self._report))

    @classmethod
    def with_topics(cls, *names: str, config: Any = None) -> Driver:
        """A new store that has these topics, each with one queue."""
        driver = cls(config)
        for name in names:
            driver.topic(name)
        return driver

    def _report(self, event: StoreEvent) -> None:
        for heard in self.heard:
            heard(event)
        if event.is_line:
            self.events.append(event)
        if event.kind is StoreEventKind.FAULT and event.error is not None and not self.faults:
            raise event.error

    def notified(self, kind: StoreEventKind) -> list[StoreEvent]:
        return [event for event in self.events if event.kind is kind]

    def call(self, function: Callable[..., None], *arguments: Any) -> Any:
        """Call a port's method whose last argument is `done`; its answer."""
        answers: list[Any] = []
        function(*arguments, answers.append)
        self.clock.run_until(lambda: bool(answers))
        assert len(answers) == 1
        return answers[0]

    def topic(self, name: str, durability: Durability = Durability.FLUSHED, **facts: Any) -> None:
        facts = {"read_queues": 1, "write_queues": 1, **facts}
        assert self.call(self.store.metadata.put_topic, Topic(name, durability=durability, **facts)) is None

    def append(self, messages: Sequence[Message], changes: Sequence[StateChange] = ()) -> list[Placed] | Failure:
        answers: list[list[Placed] | Failure] = []
        self.store.log.append(messages, answers.append, changes)
        self.clock.run_until(lambda: bool(answers))
        return answers[0]

    def send(self, topic: str, *bodies: bytes, queue_id: int = 0, properties: bytes = b"") -> list[Placed]:
        return sure(self.append([Message(topic, body, properties, queue_id=queue_id) for body in bodies]))

    def read(
        self, topic: str, offset: int = 0, limit: int = 1_000, queue_id: int = 0, tags: TagFilter | None = None
    ) -> ReadResult:
        result: ReadResult | Failure = self.call(
            self.store.log.read, ReadRequest(topic, queue_id, offset, limit, 1 << 30, tags)
        )
        return sure(result)

    def bodies(self, topic: str, queue_id: int = 0) -> list[bytes]:
        found: list[bytes] = []
        first, end = self.bounds(topic, queue_id)
        while first < end:
            result = self.read(topic, first, queue_id=queue_id)
            found += [Record(data).body for data in result.records]
            first = result.next_offset
        return found

    def bounds(self, topic: str, queue_id: int = 0) -> tuple[int, int]:
        result: tuple[int, int] | Failure = self.call(self.store.log.bounds, topic, queue_id)
        return sure(result)

    def lease(
        self,
        group: str,
        topic: str,
        limit: int = 32,
        invisible_ms: int = 10_000,
        queue_id: int = -1,
        tags: TagFilter | None = None,
        from_first: bool = True,
        ordered: bool = False,
        attempt_id: str = "",
        fleeting: bool = False,
    ) -> LeaseResult:
        request = LeaseRequest(
            group, topic, limit, LeaseTerms(invisible_ms, ordered, attempt_id, fleeting), queue_id=queue_id, wanted=tags,
            from_first=from_first,
        )  # fmt: skip
        result: LeaseResult | Failure = self.call(self.store.leases.lease, request)
        return sure(result)

    def settle(self, group: str, topic: str, *leased: Leased) -> list[Failure | None]:
        return sure(self.call(self.store.leases.settle, group, topic, [message.receipt for message in leased]))

    def checkpoint(self, fresh: bool = True) -> None:
        """Write a checkpoint, with a new snapshot when `fresh`."""
        wait(self.clock, lambda done: self.store.parts.checkpointer.begin(fresh, done))

    def killed(self, harm: Callable[[MemoryDisk], object] | None = None) -> Driver:
        """kill -9, `harm` to the disk, and a new start."""
        clock = VirtualClock(self.clock.wall_ms())
        disk = self.disk.killed(clock)
        if harm is not None:
            harm(disk)
        return Driver(self.config, disk, clock, self.engine)

    def killed_to_its_log(self) -> Driver:
        """kill -9, and a new start without the files that the log can replace."""

        def only_the_log(disk: MemoryDisk) -> None:
            for name in [name for name in disk.files if not name.startswith(("log/", "promise/"))]:
                disk.remove(name)

        return self.killed(only_the_log)

    def powered_off(self, keep: Keep | None = None) -> Driver:
        clock = VirtualClock(self.clock.wall_ms())
        return Driver(self.config, self.disk.powered_off(clock, keep), clock, self.engine)

    def restarted(self) -> Driver:
        wait(self.clock, self.store.drain)
        self.store.close()
        return self.powered_off()


@dataclass
class Failing:
    """Operations of `kinds` fail on a disk, in `folder` alone if one is given, from the `since`-th on, until `room` is set."""

    disk: MemoryDisk
    number: int = errno.ENOSPC
    kinds: Sequence[str] = ("append", "create", "replace")
    folder: str = ""
    since: int = 0
    count: int = 0
    room: bool = False

    def __post_init__(self) -> None:
        self.disk.watch = self

    def __call__(self, operation: Operation) -> None:
        if operation.kind in self.kinds and operation.name.startswith(self.folder):
            self.count += 1
            if self.count > self.since and not self.room:
                raise OSError(self.number, os.strerror(self.number))


class RecordingListener:
    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int]] = []
        self.frees: list[tuple[str, str]] = []

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        self.seen += [(topic, queue_id, Record(data).queue_offset) for data in records]

    def freed(self, group: str, topic: str) -> None:
        self.frees.append((group, topic))
