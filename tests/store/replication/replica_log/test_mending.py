"""Damage of one replica's log is mended with the bytes of another one, in use and at the start, whenever it is interrupted."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from domain.errors import StoreError
from domain.ports import Clock
from domain.replication.message import LogPart, LogPartRefused
from domain.replication.ports import DamagedPart, MendableLog, PartRefusedError
from domain.store.store_event import unheard
from store.replication.repairing import REST_NS, Given, PartSource, RepairCounts, Repairing
from store.replication.replica_log.damaged import DamagedReplica, damaged_replica
from store.replication.replica_log.follower_log import Follower, open_follower
from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import Crash, MemoryDisk, Operation
from tests.store.replication.replica_log.pair import CONFIG, Leading, Pair, durable, log_bytes, opened, ship

QUICK = replace(CONFIG, scrub_pass_s=1)


class OtherReplica:
    """A `PartSource` over the log of another replica. `harm` changes what it gives."""

    def __init__(self, log: Callable[[], MendableLog], name: str = "replica 2") -> None:
        self.name = name
        self.asked = 0
        self.harm: Callable[[bytes], bytes] = lambda data: data
        self._log = log

    def read(self, position: int, end: int, done: Given) -> None:
        self.asked += 1
        try:
            done(LogPart(None, self.harm(self._log().read_confirmed(position, end))))
        except PartRefusedError as error:
            done(LogPartRefused(None, error.reason))


class Group(Pair):
    """A leader, and a replica that follows and has applied all of it."""

    def __init__(self, count: int = 120, config: StoreSettings = QUICK) -> None:
        self.counts = RepairCounts()
        self.notified: list[tuple[DamagedPart, str]] = []
        super().__init__(count, config)

    def send(self, count: int) -> None:
        super().send(count)
        self.catch_up()

    def repairing(self, log: MendableLog, *sources: PartSource, clock: Clock | None = None) -> Repairing:
        def others() -> Sequence[PartSource]:
            return sources

        made = Repairing(log, others, clock or self.clock, self.counts, lambda part, where: self.notified.append((part, where)))
        made.start()
        return made

    def leaders(self) -> OtherReplica:
        return OtherReplica(lambda: self.leader.replica.parts, "replica 1")

    def followers(self) -> OtherReplica:
        return OtherReplica(lambda: self.follower.parts)

    def equal(self, disk: MemoryDisk | None = None) -> bool:
        """True when both logs are the same up to the end of the follower's."""
        begin, end = self.follower.first, self.follower.written
        return log_bytes(disk or self.disk, begin, end) == log_bytes(self.leader_disk, begin, end)


def segments(disk: MemoryDisk) -> list[str]:
    return [f"log/{name}" for name in disk.names("log") if name.isdigit()]


def empty(disk: MemoryDisk, name: str) -> None:
    """Delete a file behind an open handle."""
    del disk.files[name]


def many_bits(disk: MemoryDisk, name: str) -> None:
    """Flip a bit in each 300 bytes."""
    for at in range(100, len(disk.files[name].data), 300):
        disk.flip(name, at)


HARM: dict[str, Callable[[MemoryDisk, str], None]] = {
    "a bit": lambda disk, name: disk.flip(name, 1_500),
    "the first header": lambda disk, name: disk.flip(name, 20),
    "the filler": lambda disk, name: disk.flip(name, len(disk.files[name].data) - 2),
    "a missing file": empty,
    "many bits": many_bits,
}


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("number", [0, 2, -2, -1])
def test_the_scrubber_finds_damage_of_a_follower_and_another_replica_mends_it(harm: str, number: int) -> None:
    group = Group()
    name = segments(group.disk)[number]
    if number == -1:
        group.disk.flip(name, 100)
    else:
        HARM[harm](group.disk, name)
    repairing = group.repairing(group.follower.parts, group.leaders())
    group.clock.run_for(15_000)
    assert group.counts.parts, repairing.why
    assert repairing.why == ""
    group.send(30)
    assert group.equal()
    assert not group.follower.parts.damaged()
    new = Leading(group.follower, group.disk, group.clock, 2).alone()
    assert group.bodies(new) == group.bodies()


@pytest.mark.parametrize("number", [0, 2, -1])
def test_a_leader_serves_again_what_a_follower_has_given(number: int) -> None:
    group = Group()
    expected = group.bodies()
    name = segments(group.leader_disk)[number]
    group.leader_disk.flip(name, 700)
    group.repairing(group.leader.replica.parts, group.followers())
    group.clock.run_for(15_000)
    assert group.counts.parts == 1
    assert group.counts.failures == 0
    assert group.bodies() == expected
    group.send(20)
    assert group.equal()


def test_what_a_reader_meets_is_mended_although_nothing_is_scrubbed() -> None:
    group = Group(config=replace(CONFIG, scrub_days=0))
    group.leader_disk.flip(segments(group.leader_disk)[1], 700)
    group.repairing(group.leader.replica.parts, group.followers())
    group.clock.run_for(10_000)
    assert group.counts.parts == 0
    assert len(group.bodies()) == 120, "the reader waits"
    group.clock.run_for(100)  # the reader does not wait until the name of the new file is durable
    assert group.counts.parts == 1


def test_a_follower_that_cannot_apply_a_damaged_batch_goes_on_when_it_is_whole_again() -> None:
    group = Group(40)
    for number in range(60):
        group.leader.driver.send("orders", b"more %d" % number + b"y" * 100)
    group.ship()
    durable(group.follower, group.clock)
    at = group.follower.applied
    base = max(int(name) for name in group.disk.names("log") if int(name) <= at)
    group.disk.flip(f"log/{base:020d}", at - base + 80)
    group.follower._raw.fresh.clear()  # as if it had come long ago: what is in memory is not read again
    group.follower.confirm(group.follower.written)
    group.clock.run_for(300)
    assert group.follower.applied == at
    group.repairing(group.follower.parts, group.leaders())
    group.clock.run_for(5_000)
    assert group.follower.applied == group.follower.behind
    assert group.equal()


@pytest.mark.parametrize(
    "harm", [lambda data: data[:-1], lambda data: b"\1" + data[1:], lambda data: data[:80] + b"!" + data[81:]]
)
def test_bytes_that_are_not_whole_are_not_taken_and_the_next_replica_is_asked(harm: Callable[[bytes], bytes]) -> None:
    group = Group()
    name = segments(group.disk)[1]
    group.disk.flip(name, 1_500)
    liar, honest = group.leaders(), group.leaders()
    liar.harm = harm
    group.repairing(group.follower.parts, liar, honest)
    group.clock.run_for(10_000)
    assert liar.asked == 1
    assert honest.asked == 1
    assert group.equal()


def test_a_batch_of_another_epoch_is_not_taken() -> None:
    group = Group()
    other = Leading(opened(MemoryDisk(group.clock), group.clock), MemoryDisk(group.clock), group.clock, 7).alone()
    other.driver.topic("orders")
    for number in range(120):
        other.driver.send("orders", b"%d " % number + b"z" * 100)
    group.disk.flip(segments(group.disk)[0], 1_500)
    other.replica.confirm(other.replica.written, other.replica.synced)
    stranger = OtherReplica(lambda: other.replica.parts)
    group.repairing(group.follower.parts, stranger)
    group.clock.run_for(8_000)
    assert stranger.asked
    assert group.counts.parts == 0
    assert group.counts.failures > 0


def test_nothing_is_given_that_is_not_confirmed() -> None:
    group = Group(20)
    end = group.follower.written
    group.leader.driver.send("orders", b"not confirmed")
    group.ship()
    with pytest.raises(PartRefusedError, match="know yet"):
        group.follower.parts.read_confirmed(end, end + 100)
    with pytest.raises(PartRefusedError, match="know yet"):
        group.follower.parts.read_confirmed(group.follower.written, group.follower.written + 100)
    assert group.follower.parts.read_confirmed(0, end)


def test_who_has_nobody_tries_again_later() -> None:
    group = Group()
    group.disk.flip(segments(group.disk)[1], 1_500)
    sources: list[PartSource] = []
    repairing = Repairing(
        group.follower.parts,
        lambda: sources,
        group.clock,
        group.counts,
        lambda part, where: group.notified.append((part, where)),
    )
    repairing.start()
    group.clock.run_for(5_000)
    assert group.counts.failures == 1
    assert "no other replica" in repairing.why
    sources.append(group.leaders())
    group.clock.run_for(REST_NS // 1_000_000 + 3_000)
    assert group.counts.parts == 1
    assert group.equal()


def test_a_crash_at_every_operation_of_a_mending_leaves_a_log_that_can_be_mended() -> None:
    number, ended = 0, False
    while not ended:
        group = Group(60)
        group.clock.run_for(3_000)
        name = segments(group.disk)[1]
        group.disk.flip(name, 1_500)
        left = number

        def watch(operation: Operation) -> None:
            nonlocal left
            if operation.kind == "read" or not (operation.name.endswith(".new") or operation.kind == "folder"):
                return
            left -= 1
            if left < 0:
                raise Crash

        group.disk.watch = watch
        repairing = group.repairing(group.follower.parts, group.leaders())
        try:
            group.clock.run_for(10_000)
            ended = True
            repairing.close()
        except Crash:
            pass
        clock = VirtualClock()
        for disk in (group.disk.killed(clock), group.disk.powered_off(clock, chance=random.Random(number))):
            follower = _started(group, disk, clock)
            again = group.repairing(follower.parts, group.leaders(), clock=clock)
            clock.run_for(20_000)
            again.close()
            assert log_bytes(disk, 0, follower.written) == log_bytes(group.leader_disk, 0, follower.written)
            assert follower.written >= group.follower.applied
            follower.close()
        number += 1
    assert number > 8


def _started(
    group: Group, disk: MemoryDisk, clock: VirtualClock, renounced: list[str] | None = None, boot: str = ""
) -> Follower:
    """Open a replica; other replicas help with what its checkpoint covers, and it renounces the rest when that is allowed."""
    config = replace(QUICK, boot=boot or str(id(disk)), fresh_incarnation=4_711)
    for _ in range(5):
        try:
            return open_follower(disk, clock, config, unheard)
        except StoreError as error:
            damaged = damaged_replica(disk, clock, error)
            assert isinstance(damaged, DamagedReplica)
            if damaged.parts.damaged():
                repairing = group.repairing(damaged.parts, group.leaders(), clock=clock)
                clock.run_for(3_000)
                assert not damaged.parts.damaged(), repairing.why
                repairing.close()
            else:
                if renounced is None:
                    raise
                renounced.append(damaged.abandon_damaged(99))
            damaged.close()
    raise AssertionError("the log cannot be opened")


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_what_a_checkpoint_covers_is_mended_at_the_start(harm: str, number: int) -> None:
    group = Group(160)
    group.clock.run_for(3_000)
    identity = group.follower.incarnation
    group.follower.close()
    clock = VirtualClock()
    disk = group.disk.killed(clock)
    HARM[harm](disk, segments(disk)[number])
    follower = _started(group, disk, clock, boot=QUICK.boot)
    repairing = group.repairing(follower.parts, group.leaders(), clock=clock)
    clock.run_for(10_000)
    assert follower.incarnation == identity
    assert group.equal(disk)
    ship(group.leader.replica, follower)
    repairing.close()
    new = Leading(follower, disk, clock, 2).alone()
    assert group.bodies(new) == group.bodies()


@pytest.mark.parametrize("harm", ["a bit", "a missing file", "the marks", "an end before the mark"])
def test_what_no_checkpoint_covers_makes_it_another_log_that_catches_up(harm: str) -> None:
    group = Group(100)
    group.clock.run_for(1_000)
    identity = group.follower.incarnation
    for name in group.disk.names("checkpoint"):
        del group.disk.files[f"checkpoint/{name}"]
    clock = VirtualClock()
    disk = group.disk.killed(clock)
    names = segments(disk)
    if harm == "a bit":
        disk.flip(names[2], 1_500)
    elif harm == "a missing file":
        del disk.files[names[2]]
    elif harm == "the marks":
        for name in ("promise/0", "promise/1"):
            disk.files.pop(name, None)
    else:
        del disk.files[names[-1]]
    before = {name: bytes(content.data) for name, content in disk.files.items() if name.startswith("log/")}
    renounced: list[str] = []
    follower = _started(group, disk, clock, renounced)
    assert renounced
    assert follower.incarnation not in (identity, 0)
    assert follower.continues in (0, 99)
    if harm in ("a bit", "a missing file"):
        aside = {name: bytes(content.data) for name, content in disk.files.items() if name.startswith(renounced[0])}
        kept = {name: data for name, data in before.items() if int(name[4:]) > int(names[2][4:])}
        assert {f"{renounced[0]}/{name}": data for name, data in kept.items()}.items() <= aside.items()
    ship(group.leader.replica, follower)
    durable(follower, clock)
    end = follower.written
    assert end == group.leader.replica.written
    assert log_bytes(disk, 0, end) == log_bytes(group.leader_disk, 0, end)
    new = Leading(follower, disk, clock, 2).alone()
    assert group.bodies(new) == group.bodies()


def test_a_crash_while_a_log_is_renounced_loses_nothing_of_what_is_set_aside() -> None:
    number, ended = 0, False
    while not ended:
        group = Group(60)
        for name in group.disk.names("checkpoint"):
            del group.disk.files[f"checkpoint/{name}"]
        clock = VirtualClock()
        disk = group.disk.killed(clock)
        names = segments(disk)
        disk.flip(names[1], 1_500)
        last = bytes(disk.files[names[2]].data)
        left = number

        def watch(operation: Operation) -> None:
            nonlocal left
            left -= operation.kind != "read"
            if left < 0:
                raise Crash

        with pytest.raises(StoreError) as caught:
            open_follower(disk, clock, QUICK, unheard)
        damaged = damaged_replica(disk, clock, caught.value)
        assert damaged is not None
        disk.watch = watch
        try:
            damaged.abandon_damaged(99)
            ended = True
        except Crash:
            pass
        disk = disk.killed(clock)
        follower = _started(group, disk, clock, [])
        assert [name for name, content in disk.files.items() if name.startswith("set-aside/") and bytes(content.data) == last]
        assert follower.incarnation != group.follower.incarnation
        ship(group.leader.replica, follower)
        assert log_bytes(disk, 0, follower.written) == log_bytes(group.leader_disk, 0, follower.written)
        follower.close()
        number += 1
    assert number > 5
