"""Opening of a replica's log: it waits for room on the disk, and for the repair of what is damaged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, final

from domain.errors import ConfigError, StoreError
from domain.replication.ports import FollowerLog
from domain.shortage import is_full, lack_of
from domain.store.store_event import StoreEvent, StoreEventKind
from gateway.cluster.replica.controllers import GroupControllers
from gateway.cluster.replica.damaged_start import DamagedStart
from gateway.cluster.replica.identity import ReplicaIdentity
from gateway.cluster.replica.log_repairs import RepairSources
from gateway.cluster.replica.peer_network import PeerNetwork
from gateway.node.composition import given_to_store
from gateway.node.roles.local_store import LocalStore
from gateway.node.settings import Config
from gateway.node.storage import engine_of, settings_of
from gateway.runtime.machine import hot_bytes
from store.disk_full.errors import probe
from store.replication.repairing import RepairCounts

ROOM_S: Final = 1.0
"""Seconds between two looks whether a full disk has room."""
BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


@final
class ReplicaLogOpening:
    """The log of one replica in the data directory `local`."""

    def __init__(self, config: Config, local: LocalStore, host: bytes, network: PeerNetwork, skew_ms: int) -> None:
        """`host`: of the store in receipts; `skew_ms`: permitted difference between the clocks of replicas. Raises
        ConfigError for an engine without replicas."""
        given = {**given_to_store(config, host, network.entropy), "boot": _boot(), "clock_skew_ms": skew_ms}
        settings, engine = settings_of(config, hot_bytes(), given), engine_of(config)
        follow = engine.follow
        if follow is None:
            raise ConfigError("replication.controllers: the storage engine has no replicas, see store.engine")
        self._local = local
        self._network = network
        self._open: Callable[[], FollowerLog] = lambda: follow(local.disk, network.clock, settings, local.report)
        self._damaged_log = engine.damaged
        self._damaged: DamagedStart | None = None

    async def log(self, identity: ReplicaIdentity, controllers: GroupControllers, repairs: RepairCounts) -> FollowerLog:
        """Open the log of a replica. Other replicas repair its promised parts that are damaged. Raises StoreError."""
        local, network = self._local, self._network
        while True:
            try:
                return self._open()
            except OSError as error:
                if not is_full(error):
                    raise StoreError(f"the log in the data directory cannot be opened: {error}") from error
                await self._room(error)
            except StoreError as error:
                damaged = None if self._damaged_log is None else self._damaged_log(local.disk, network.clock, error)
                if damaged is None or not identity.id:
                    return local.opened(partial(_raise, error))
                sources = RepairSources(network)
                opens: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
                start = self._damaged = DamagedStart(
                    damaged, identity, controllers, sources, network.clock, network.entropy, repairs,
                    partial(_set, opens),
                )  # fmt: skip
                try:
                    start.start()
                    if not await opens:
                        return local.opened(partial(_raise, error))
                finally:
                    start.close()
                    sources.close()
                    self._damaged = None

    def close(self) -> None:
        """Stop a repair in progress."""
        if self._damaged is not None:
            self._damaged.close()

    async def _room(self, error: OSError) -> None:
        """Wait for room on the volume, or for a file descriptor, to open the log. The group goes on without this replica."""
        local, lack = self._local, lack_of(error)
        cause = f"the log cannot be opened ({error.strerror or error}): this replica waits until {lack.until}"
        local.report(StoreEvent(StoreEventKind.FULL, str(error.filename or ""), cause, lack.remedy, error))
        while True:
            await asyncio.sleep(ROOM_S)
            try:
                probe(local.disk)
            except OSError as again:
                if not is_full(again):
                    raise StoreError(f"the log in the data directory cannot be opened: {again}") from again
            else:
                break
        local.report(StoreEvent(StoreEventKind.RESUMED, "", f"{lack.ended}: the log is opened"))


def _set(future: asyncio.Future[bool], value: bool) -> None:
    if not future.done():
        future.set_result(value)


def _raise(error: StoreError) -> FollowerLog:
    raise error


def _boot() -> str:
    """Which start of the machine this is; "": unknown."""
    try:
        return BOOT.read_text().strip()
    except OSError:
        return ""
