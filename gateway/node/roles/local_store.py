"""The data directory of a process, and the store in it: opened, settled and closed within bounded times."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar, final

from domain.errors import StoreError
from domain.store.backup import BackedUp, Backups
from domain.store.message_store import MessageStore
from domain.store.store_event import StoreEvent, StoreEventKind
from domain.topic.topic import Durability
from gateway.observe.health import Health
from gateway.observe.store_log import log_store_event
from gateway.runtime.disk import DataDirectory

DRAIN_S: Final = 2.0
"""Seconds that the store has to answer."""
log = logging.getLogger("headgate.node")
Made = TypeVar("Made")


def backups_of(store: MessageStore) -> Backups | None:
    """Backups of a store; None when its engine has none."""
    return store.backups if isinstance(store, BackedUp) else None


@final
class LocalStore:
    """A locked data directory."""

    def __init__(self, folder: str, health: Health, durability: Durability) -> None:
        """Lock the directory. Raises StoreError when another process uses it. `durability`: of new topics."""
        self.disk = DataDirectory(Path(folder), asyncio.get_running_loop())
        self._health = health
        # Where new topics need no other replica, a lack of replicas refuses the messages of few topics, or of none.
        self._unheard = () if durability.waits_for_replicas else (StoreEventKind.SHORT,)

    def report(self, event: StoreEvent) -> None:
        """An event of the store: a line in the log, and perhaps a reason why the node does not serve."""
        if event.kind not in self._unheard:
            self._health.heard(event)
        if event.is_line:
            log_store_event(event)

    def opened(self, make: Callable[[], Made]) -> Made:
        """What `make` returns, which opens the store. Raises StoreError; for damage, with what to do."""
        try:
            return make()
        except StoreError as error:
            if not error.repairable:
                raise
            text = f"{error}. Nothing was changed. `headgate check {self.disk.path}` lists all of it; run"
            raise StoreError(
                f"{text} `headgate repair {self.disk.path}` to set it aside and to start with all the rest", error.file
            ) from error

    async def settled(self, store: MessageStore) -> None:
        """Wait until all earlier appends are answered. Appends are answered in order, so an empty append is the last."""
        done = asyncio.get_running_loop().create_future()
        store.log.append([], lambda _: done.set_result(None))
        await self._within(done)
        await asyncio.sleep(0)

    async def close(self, store: MessageStore) -> None:
        """Close the store, and unlock the directory."""
        drained = asyncio.get_running_loop().create_future()
        store.drain(lambda: drained.set_result(None))
        await self._within(drained)
        store.close()
        self.disk.close()

    async def _within(self, done: asyncio.Future[None]) -> None:
        """Wait for `done`, at most `DRAIN_S` seconds: a disk that hangs must not keep the process from ending."""
        ready, _ = await asyncio.wait([done], timeout=DRAIN_S)
        if not ready:
            log.warning("the store did not answer within %s s; closing all the same", DRAIN_S)
