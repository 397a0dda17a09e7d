"""Runs of the load with a fault: what the disk holds at each operation, and the promises that were made before it."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from typing import Final, NamedTuple

from domain.errors import StoreError
from tests.simulation.kit.clock import START_MS, VirtualClock
from tests.simulation.kit.disk import MemoryDisk, Operation
from tests.store.driver import Driver
from tests.store.faults.checker import BrokenPromiseError, Life, check_after
from tests.store.faults.promises import Promises
from tests.store.faults.work import CONFIG, Work

PAGE_BYTES: Final = 512
Load = Callable[[Work], None]


class Moment(NamedTuple):
    """The machine just before an operation.

    operation   what comes next
    disk        what a process that was killed here has left
    events      the run's events, of which the first `told` come before it
    now_ms      wall clock
    """

    operation: Operation
    disk: MemoryDisk
    events: list[tuple[str, object, object]]
    notified: int
    now_ms: int


class Run:
    """One store and its load on a disk with 512-byte pages."""

    def __init__(self, seed: int) -> None:
        self.clock = VirtualClock(START_MS)
        self.disk = MemoryDisk(self.clock)
        self.disk.page_bytes = PAGE_BYTES
        self.promises = Promises()
        self.seed = seed
        self.chance = random.Random(seed)

    def load(self, load: Load) -> Work | None:
        """Open the store, run the load, and let time pass until what can be answered is answered. None: it does not open."""
        try:
            work = Work(Driver(CONFIG, self.disk, self.clock), self.promises, self.chance)
        except (OSError, StoreError):
            return None
        load(work)
        self.clock.run_for(8_000)
        return work


def moments(seed: int, load: Load, chosen: Callable[[int], bool]) -> list[Moment]:
    """Run the load without a fault; the moments before the operations that are `chosen` by their number, reads left out."""
    run, count = Run(seed), 0
    found: list[Moment] = []

    def note(operation: Operation) -> None:
        events = run.promises.events
        found.append(Moment(operation, run.disk.killed(VirtualClock()), events, len(events), run.clock.wall_ms()))

    def watch(operation: Operation) -> None:
        nonlocal count
        if operation.kind == "read":
            return
        if chosen(count):
            note(operation)
        count += 1

    run.disk.watch = watch
    work = run.load(load)
    assert work is not None
    assert not work.open, sorted(work.open.values())
    run.disk.watch = None
    note(Operation("end", ""))
    return found


def check_moment(moment: Moment, power: bool, survivors: int) -> None:
    """Start on what a kill, or a power failure with the `survivors` of that seed, leaves at the moment."""
    clock = VirtualClock(moment.now_ms)
    disk = moment.disk.powered_off(clock, chance=random.Random(survivors)) if power else moment.disk.killed(clock)
    check_after(disk, clock, Promises(moment.events[: moment.notified]), power, survivors)


def failing(seed: int, load: Load, at: int, code: int) -> tuple[Run, Operation | None, Work | None]:
    """Run the load while operation number `at`, reads included, fails with `code`; the run, what failed, and the load."""
    run, count, failed = Run(seed), 0, None

    def watch(operation: Operation) -> None:
        nonlocal count, failed
        if code == errno.ENOSPC and operation.kind in ("read", "remove", "truncate"):
            return
        count += 1
        if count - 1 == at:
            failed = operation
            raise OSError(code, "failed by the test")

    run.disk.watch = watch
    try:
        work = run.load(load)
    except (OSError, StoreError) as error:
        raise BrokenPromiseError(f"a failed {failed} of the disk escapes the store: {error!r}") from error
    run.disk.watch = None
    return run, failed, work


def check_failed(run: Run, work: Work | None) -> None:
    """After a failed operation all calls are answered, and a kill and a power failure lose nothing."""
    if work is not None and work.open:
        raise BrokenPromiseError(f"no answer: {sorted(work.open.values())}")
    clock = VirtualClock(run.clock.wall_ms())
    evicted = run.chance.random() < 0.3
    life = Life(run.disk.killed(clock, evicted), clock, Promises(run.promises.events), evicted, run.seed)
    life.check()
    life.go_on()
    life = life.powered_off()
    life.check()
    life.go_on()
    life.ended().check()


def check_checkpoints(seed: int, load: Load) -> None:
    """A power failure at each operation on checkpoints and snapshots, and at those right behind; then work, or a clean end.

    Raises BrokenPromiseError.
    """
    behind = 0
    for at, moment in enumerate(moments(seed, load, lambda _: True)):
        behind = 3 if moment.operation.name.split("/")[0] in ("checkpoint", "snapshot") else behind - 1
        if behind > 0:
            survivors = seed * 1_000 + at
            check_moment(moment, power=True, survivors=survivors)
            clock = VirtualClock(moment.now_ms)
            disk = moment.disk.powered_off(clock, chance=random.Random(survivors))
            life = Life(disk, clock, Promises(moment.events[: moment.notified]), True, survivors)
            life.check()
            life.ended().check()
