"""A log of a later version: it is not taken, cut or set aside, and the words say what to do."""

from __future__ import annotations

import pytest

from domain.errors import StoreError
from domain.replication.ports import UnknownFormatError
from domain.store.store_event import unheard
from store.engine import LOG
from store.log import batch
from store.log.survey import DamageError
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.store.later_format import later
from tests.store.replication.replica_log.pair import CONFIG, Leading, durable, opened

SEGMENT = f"log/{0:020d}"


def led(messages: int = 10) -> tuple[VirtualClock, Leading, MemoryDisk]:
    clock = VirtualClock()
    disk = MemoryDisk(clock)
    leading = Leading(opened(disk, clock), disk, clock, 1).alone()
    leading.driver.topic("orders")
    for number in range(messages):
        leading.driver.send("orders", b"%d" % number)
    return clock, leading, disk


@pytest.mark.parametrize("more", [0, 16])
def test_a_follower_takes_nothing_of_a_later_format_and_what_it_has_stays(more: int) -> None:
    clock, leading, _ = led()
    disk = MemoryDisk(clock)
    follower = opened(disk, clock)
    data = leading.replica.read(0, 800)
    follower.append(0, data)
    durable(follower, clock)
    before = dict(disk.files)[SEGMENT].data[:]
    following = leading.replica.read(follower.written, 2_000)
    with pytest.raises(UnknownFormatError, match=r"format version 3, and .* no later one than 2: upgrade this replica"):
        follower.append(follower.written, later(following, follower.written, more))
    assert follower.broken is None
    assert follower.full is None
    assert (follower.written, disk.files[SEGMENT].data) == (len(data), before)
    follower.append(follower.written, following)
    assert follower.written == len(data) + len(following), "what it knows it takes, as before"


def test_a_log_that_a_later_version_has_written_on_is_not_opened_and_not_changed() -> None:
    clock, leading, first_disk = led()
    clock.run_for(1_000)
    leading.driver.store.close()
    for open_log in (opened, alone):
        disk = first_disk.killed(clock)
        data = disk.files[SEGMENT].data
        position = last_batch(bytes(data))
        data[position:] = later(bytes(data[position:]), position, 0)
        before = {name: bytes(each.data) for name, each in disk.files.items()}
        with pytest.raises(StoreError, match="3, which a later version of Headgate has written: start that one") as found:
            open_log(disk, clock)
        assert not isinstance(found.value, DamageError)
        assert not found.value.repairable
        assert {name: bytes(disk.files[name].data) for name in before} == before


def alone(disk: MemoryDisk, clock: VirtualClock) -> None:
    LOG.open(disk, clock, CONFIG, unheard)


def last_batch(data: bytes) -> int:
    at = last = 0
    while (found := batch.header(data[at:], at)) is not None:
        last, at = at, at + found.size
    return last
