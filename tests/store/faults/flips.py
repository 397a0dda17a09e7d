"""One wrong bit, or a file that is emptied or missing, in the data directory of a node that was killed or has ended.

The store says so, with the name of the file, or it has lost nothing: what was acknowledged is read back byte for byte, or its
reader gets an error. It never starts over, and never serves anything else.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from domain.errors import Failure, GatewayError
from domain.message.record import Record
from domain.store.store_request import ReadRequest
from tests.simulation.kit.clock import START_MS, VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.store.driver import Driver
from tests.store.faults.checker import BrokenPromiseError, Life
from tests.store.faults.promises import Expected, Promises
from tests.store.faults.work import CONFIG, QUEUES, random_step
from tests.stored_state import asked

STEPS: Final = 60


class Directory:
    """A small data directory without a fault, and what it promises. Half of them are of a node that was killed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = VirtualClock(START_MS)
        life = Life(MemoryDisk(self.clock), self.clock, Promises(), False, seed)
        life.work.begin()
        for _ in range(STEPS):
            random_step(life.work)
        if self.chance.random() < 0.5:
            life.driver.store.drain(lambda: None)
        self.clock.run_for(3_000)
        self.disk = life.driver.disk
        self.promises = life.promises

    def damaged(self, file: str, damage: Callable[[MemoryDisk, str], None]) -> str:
        """Start on the directory with `damage` done to `file`; "refused", "read" or "unreadable". Raises BrokenPromiseError."""
        clock = VirtualClock(self.clock.wall_ms())
        disk = self.disk.killed(clock)
        damage(disk, file)
        try:
            driver = Driver(CONFIG, disk, clock)
            clock.run_for(50)
        except GatewayError as error:
            if file.split("/", maxsplit=1)[0] not in str(error):
                raise BrokenPromiseError(f"{file} is damaged, and the error names another: {error}") from error
            return "refused"
        return check(driver, self.promises.until())

    def files(self) -> list[str]:
        return sorted(name for name, content in self.disk.files.items() if content.data)


def check(driver: Driver, expected: Expected) -> str:
    """Everything acknowledged is there, or is an error for who asks for it. "read", or "unreadable"."""
    told = "read"
    for name, value in expected.topics.items():
        if not value.asked and (driver.store.metadata.topic(name) is not None) != bool(value.acknowledged):
            raise BrokenPromiseError(f"topic {name} is {'gone' if value.acknowledged else 'back'}")
    for topic, count in QUEUES.items():
        for queue_id in range(count):
            told = _queue(driver, expected, topic, queue_id) or told
    for (space, key), state in expected.values.items():
        found = asked(driver.store.state, space, key)
        if isinstance(found, Failure):
            told = "unreadable"
            continue
        if found not in state.may_be():
            raise BrokenPromiseError(f"state {key!r} is another one, without a word")
    return told


def _queue(driver: Driver, expected: Expected, topic: str, queue_id: int) -> str:
    """Read each acknowledged message of a queue, by its offset. "unreadable" when one of them is an error."""
    told = ""
    for body, sent in expected.sent.items():
        if (sent.topic, sent.queue_id) != (topic, queue_id) or sent.hidden or not sent.acknowledged:
            continue
        if expected.may_be_gone(sent) or sent.stored_ms + CONFIG.retention_ms <= driver.clock.wall_ms():
            continue
        result = driver.call(driver.store.log.read, ReadRequest(topic, queue_id, sent.offset, 1, 1 << 20))
        if isinstance(result, Failure):
            told = "unreadable"
        elif not result.records:
            raise BrokenPromiseError(f"{topic} {queue_id} {sent.offset} is lost, without a word: {result.status}")
        elif Record(result.records[0]).body != body:
            raise BrokenPromiseError(f"{topic} {queue_id} {sent.offset} is served with another body")
    return told


def flip(directory: Directory, name: str, at: int) -> str:
    """Start with one bit of byte `at` of file `name` flipped; how it ended."""
    return directory.damaged(name, lambda disk, file: disk.flip(file, at, directory.chance.randrange(8)))


def flips(seed: int, count: int = 40) -> None:
    """Flip `count` bits, one a start, anywhere in the files of one directory. Raises BrokenPromiseError."""
    directory = Directory(seed)
    names = directory.files()
    for _ in range(count):
        name = directory.chance.choice(names)
        at = directory.chance.randrange(len(directory.disk.files[name].data))
        try:
            flip(directory, name, at)
        except BrokenPromiseError as error:
            raise BrokenPromiseError(f"{name} byte {at}: {error}") from error
