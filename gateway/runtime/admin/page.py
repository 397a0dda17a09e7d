"""The metrics page: made in slices of the loop's turns, once for all who ask meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, final

from domain.limits import SECOND_NS
from domain.ports import Clock
from gateway.observe.metrics import Snapshot, pieces, process_families
from gateway.runtime.admin.port import AdminPort

PAUSE_S: Final = 0.1
"""Least time between two pages."""
OWN: Final = ""
"""The host for which the page takes its turns: of nobody who asks."""
SHARE: Final = 20
"""Between two pages passes as many times what the last one took of the loop, so pages take at most a twentieth of it."""


@final
class MetricsPage:
    """Makes the page, one at a time. A question waits for a page that is begun after it, or for one that is being made.

    No thread makes it: it would share the interpreter with the loop, and each answer of the loop would wait for it. Only
    the figures of the kernel about the process are read in a thread, since they need a listing of all open files.
    """

    def __init__(self, snapshot: Callable[[], Awaitable[Snapshot]], clock: Clock, port: AdminPort) -> None:
        self.made = 0
        self._snapshot = snapshot
        self._clock = clock
        self._port = port
        self._making: asyncio.Task[bytes] | None = None
        self._next_ns = 0

    async def read(self) -> bytes:
        """The page, at most as old as the question or a page's making."""
        if self._making is None or self._making.done():
            self._making = asyncio.get_running_loop().create_task(self._make())
        return await asyncio.shield(self._making)

    def close(self) -> None:
        """Make no more."""
        if self._making is not None:
            self._making.cancel()

    async def _make(self) -> bytes:
        early_ns = self._next_ns - self._clock.monotonic_ns()
        if early_ns > 0:
            await asyncio.sleep(early_ns / SECOND_NS)
        process = await asyncio.get_running_loop().run_in_executor(None, process_families)
        began = self._clock.monotonic_ns()
        left = pieces(await self._snapshot(), process)
        parts: list[bytes] = []
        took_ns = self._clock.monotonic_ns() - began
        while True:
            await self._port.turn(OWN)
            began = self._clock.monotonic_ns()
            piece = next(left, None)
            took_ns += self._clock.monotonic_ns() - began
            if piece is None:
                break
            parts.append(piece)
        self._next_ns = self._clock.monotonic_ns() + max(round(PAUSE_S * SECOND_NS), SHARE * took_ns)
        self.made += 1
        return b"".join(parts)
