"""Replicas on virtual disks, without a network: bytes go from one log to the other by calls."""

from __future__ import annotations

from typing import Any

from domain.ports import Clock, Disk
from domain.replication.ports import LeaderLog
from domain.store.storage_engine import StorageEngine
from domain.store.store_event import Report, unheard
from store.opening.open_store import OpenStore
from store.replication.replica_log.follower_log import Follower, open_follower
from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.store.driver import Driver, wait

CONFIG = StoreSettings(
    segment_bytes=4_096, checkpoint_bytes=4_000, checkpoint_ms=500, retention_check_ms=1 << 40, cache_bytes=0, boot="one",
    flush_interval_ms=50,
)  # fmt: skip
SHIP_BYTES = 1_500


def opened(disk: MemoryDisk, clock: VirtualClock, config: StoreSettings = CONFIG) -> Follower:
    return open_follower(disk, clock, config, unheard)


def anew(follower: Follower, first: int, incarnation: int, behind: bool = False) -> None:
    """Let the log of a follower begin anew. Raises what that failed with."""
    failed: list[Exception | None] = []
    follower.restart_log(first, incarnation, behind, failed.append)
    assert failed, "a small log takes one turn"
    if failed[0] is not None:
        raise failed[0]


class Leading:
    def __init__(
        self, follower: Follower, disk: MemoryDisk, clock: VirtualClock, epoch: int, config: StoreSettings = CONFIG
    ) -> None:
        durable(follower, clock)
        promoted = follower.promote(epoch)
        self.replica: LeaderLog = promoted.replica

        def open_store(_disk: Disk, _clock: Clock, _config: Any, _report: Report) -> OpenStore:
            assert isinstance(promoted.store, OpenStore)
            return promoted.store

        self.driver = Driver(CONFIG, disk, clock, StorageEngine(StoreSettings, open_store))
        self.disk = disk
        self.clock = clock
        self.confirming = False

    def alone(self) -> Leading:
        """Confirm by itself from now on, as the only member of the SyncStateSet."""
        self.confirming = True
        self.replica.follow_progress(self._confirm)
        self._confirm()
        return self

    def _confirm(self) -> None:
        if self.confirming:
            self.replica.confirm(self.replica.written, self.replica.synced)


class Pair:
    """A leader with the topic `orders`, and a replica that follows when it is told to."""

    def __init__(self, count: int = 0, config: StoreSettings = CONFIG, size: int = 100) -> None:
        self.clock = VirtualClock()
        self.leader_disk, self.disk = MemoryDisk(self.clock), MemoryDisk(self.clock)
        self.leader = Leading(opened(self.leader_disk, self.clock, config), self.leader_disk, self.clock, 1, config).alone()
        self.follower = opened(self.disk, self.clock, config)
        self.leader.driver.topic("orders")
        self._size = size
        self.send(count)

    def send(self, count: int) -> None:
        for number in range(count):
            self.leader.driver.send("orders", b"%d " % number + b"x" * self._size)

    def ship(self) -> None:
        ship(self.leader.replica, self.follower)

    def catch_up(self) -> None:
        """Let the follower have all of the log, durable and applied."""
        self.ship()
        durable(self.follower, self.clock)
        apply_all(self.follower, self.clock, self.follower.written)

    def bodies(self, leading: Leading | None = None) -> list[bytes]:
        """The messages of a leader; None: of the first one."""
        return (leading or self.leader).driver.bodies("orders")


def durable(follower: Follower, clock: VirtualClock) -> None:
    wait(clock, follower.sync)


def ship(leader: LeaderLog, follower: Follower, end: int = 1 << 62) -> None:
    """Send what the follower lacks below `end`, at most."""
    while follower.written < min(end, leader.written):
        data = leader.read(follower.written, SHIP_BYTES)
        assert data
        follower.append(follower.written, data)


def apply_all(follower: Follower, clock: VirtualClock, position: int) -> None:
    """Confirm up to `position`, and run until that is applied."""
    follower.confirm(position)
    clock.run_for(100)


def log_bytes(disk: MemoryDisk, begin: int, end: int) -> bytes:
    """The bytes of a log from `begin` to `end`."""
    parts: list[bytes] = []
    for name in disk.names("log"):
        base = int(name)
        data = disk.read_all(f"log/{name}") or b""
        parts.append(data[max(begin - base, 0) : max(end - base, 0)])
    return b"".join(parts)
