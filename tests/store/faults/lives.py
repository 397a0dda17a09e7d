"""Several lives of one store under a seed: random work under faults of the disk, then a kill, a power failure or an end."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Sequence
from typing import Final

from domain.errors import StoreError
from domain.store.store_ports import LeaseResult
from domain.store.store_request import LeaseRequest, LeaseTerms
from tests.simulation.kit.clock import START_MS, VirtualClock
from tests.simulation.kit.disk import MemoryDisk, Operation
from tests.store.faults.checker import BrokenPromiseError, Life
from tests.store.faults.promises import Promises
from tests.store.faults.run import PAGE_BYTES
from tests.store.faults.work import FLUSHED, LEASE_MS, Work, random_step

LIVES: Final = 3
STEPS: Final = 40


class Receive:
    """A receive that waits, as a long poll does: it leases as soon as a message arrives, and settles nothing."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        if topic != FLUSHED:
            return

        def leased(result: object) -> None:
            if isinstance(result, LeaseResult):
                for message in result.messages:
                    place = ("waiter", topic, message.receipt.queue_id)
                    until_ms = message.receipt.pop_ms + LEASE_MS
                    self._work.promises.note("leased", (place, message.receipt.queue_offset), until_ms)

        self._work.driver.store.leases.lease(LeaseRequest("waiter", topic, 8, LeaseTerms(LEASE_MS), from_first=True), leased)

    def freed(self, group: str, topic: str) -> None:
        """Nothing waits for this."""


class Weather:
    """The faults of one life, at times that the seed determines; each passes, but for what an operation has failed."""

    def __init__(self, work: Work, chance: random.Random) -> None:
        self._work = work
        self._disk = work.driver.disk
        self._chance = chance
        self._fails_in = -1

    def change(self) -> None:
        disk, chance = self._disk, self._chance
        if disk.free < 0.05 or disk.capacity or disk.hold_syncs or disk.unreadable:
            if chance.random() < 0.3:
                self.clear()
            return
        if chance.random() > 0.08:
            return
        faults: tuple[Callable[[], None], ...] = (
            self._full, self._full, self._no_space, self._slow, self._hang, self._unreadable, self._unreadable, self._fail,
        )  # fmt: skip
        chance.choice(faults)()

    def clear(self) -> None:
        self._disk.mend()
        self._disk.free, self._disk.sync_ms = 0.5, 1.0
        self._work.wait(1_100)

    def _full(self) -> None:
        """Nearly full: messages are refused. The next thing that a person does is to delete a topic."""
        self._disk.free = 0.01
        self._work.wait(1_100)
        if self._chance.random() < 0.7:
            self._work.delete_topic()
            self._work.wait(10)

    def _no_space(self) -> None:
        self._disk.capacity = 1

    def _slow(self) -> None:
        self._disk.sync_ms = self._chance.choice((0.1, 30.0, 400.0))

    def _hang(self) -> None:
        self._disk.hold_syncs = True

    def _unreadable(self) -> None:
        self._work.promises.note("unreadable", "")
        name = self._chance.choice([name for name in self._disk.files if name.startswith("log/")])
        begin = self._chance.randrange(len(self._disk.files[name].data) + 1)
        self._disk.unreadable.append((name, begin, begin + self._chance.choice((1, 512, 4_096))))

    def _fail(self) -> None:
        left = self._chance.randrange(20)
        code = self._chance.choice((errno.EIO, errno.ENOSPC))

        def watch(operation: Operation) -> None:
            nonlocal left
            if operation.kind in ("read", "remove"):
                return
            left -= 1
            if left == 0:
                raise OSError(code, "failed by the test")

        self._disk.watch = watch


def live(seed: int, lives: int = LIVES) -> None:
    """One run. Raises BrokenPromiseError."""
    chance = random.Random(seed)
    clock = VirtualClock(START_MS)
    disk = MemoryDisk(clock)
    disk.page_bytes = PAGE_BYTES
    life = Life(disk, clock, Promises(), False, seed)
    life.work.begin()
    for _ in range(lives):
        _load(life, chance)
        life.driver.disk.unreadable.clear()
        end = chance.random()
        if end < 0.4:
            life = life.killed()
        elif end < 0.8:
            life = life.powered_off()
        else:
            _mend(life)
            life = life.killed() if life.driver.store.broken is not None else life.ended()
        life.check()
        if chance.random() < 0.5:
            life.go_on()
    life.go_on()
    life.powered_off().check()


def _load(life: Life, chance: random.Random) -> None:
    """Random steps in changing weather. What can be answered is answered at its end, in half of the lives."""
    work = life.work
    work.driver.store.log.listen(Receive(work))
    weather = Weather(work, chance)
    try:
        for _ in range(chance.randrange(1, STEPS)):
            weather.change()
            random_step(work)
    except (OSError, StoreError) as error:
        raise BrokenPromiseError(f"an error escapes the store: {error!r}") from error
    if chance.random() < 0.5:
        _mend(life)
        weather.clear()
        work.wait(8_000)
        if work.open:
            raise BrokenPromiseError(f"no answer: {sorted(work.open.values())}")
        if chance.random() < 0.5:
            life.check()


def _mend(life: Life) -> None:
    disk = life.driver.disk
    disk.mend()
    disk.watch, disk.free, disk.sync_ms = None, 0.5, 1.0
    life.clock.run_for(1_500)
