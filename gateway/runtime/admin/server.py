"""The server of the admin port, which lasts as long as the process, whatever the node behind it does.

While a node starts or follows, opening a log keeps its loop busy, so a thread with a loop of its own serves the port. While it
serves clients, its own loop does, where connections of the admin port take turns with those of all other ports.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar, final

from domain.errors import ConfigError
from domain.ports import Clock
from gateway.connection.intake import PumpIntake
from gateway.observe.health import Health
from gateway.observe.metrics import Snapshot
from gateway.runtime.address import bind
from gateway.runtime.admin.admin_connection import REQUEST_S
from gateway.runtime.admin.page import MetricsPage
from gateway.runtime.admin.port import CONNECTIONS_MAX, AdminPort
from gateway.runtime.admin.view import AdminView, NodeLoop, NotServedError
from gateway.runtime.clock import LoopClock
from gateway.runtime.machine import open_files_max
from protocols.hosts import Hosts

FILES_SHARE: Final = 32
"""Divisor of the limit of open files: at most the quotient may be connections of the admin port."""
LOOP_S: Final = 5.0
"""Seconds in which the loop of a node that does not serve answers; while it opens a log it has no time."""
JOIN_S: Final = 5.0
"""Seconds in which the thread ends when nobody asks it anything."""
POLL_S: Final = 0.02
"""Seconds between two polls whether the thread has answered its last requests."""
T = TypeVar("T")


@final
class SameLoop:
    """`NodeLoop` of an application that the loop of the node serves."""

    async def run(self, function: Callable[[], T]) -> T:
        """Call `function`."""
        return function()


@final
class OtherLoop:
    """`NodeLoop` of an application that another thread serves.

    loop   None: it has not begun
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None

    async def run(self, function: Callable[[], T]) -> T:
        """Have the loop call `function`."""

        async def called() -> T:
            return function()

        if self.loop is not None:
            with suppress(TimeoutError, RuntimeError):  # RuntimeError: the loop is closed
                return await asyncio.wait_for(
                    asyncio.wrap_future(asyncio.run_coroutine_threadsafe(called(), self.loop)), LOOP_S
                )
        raise NotServedError(503, "the node is busy: it reads its log")


@final
class Hosting:
    """The application on a listening socket, in the loop that is running. The first one in a process imports aiohttp."""

    def __init__(
        self, bound: socket.socket, view: Callable[[], AdminView], node: NodeLoop, clock: Clock, intake: PumpIntake
    ) -> None:
        """`intake` shares the turns of the loop with the other ports."""
        connections_max = min(CONNECTIONS_MAX, max(open_files_max() // FILES_SHARE, 8))
        self.port = AdminPort(bound, clock, intake, connections_max)

        async def snapshot() -> Snapshot:
            make = view().snapshot
            return Snapshot() if make is None else await node.run(make)

        from gateway.runtime.admin.application import AdminApplication, runner_of

        self.page = MetricsPage(snapshot, clock, self.port)
        self._runner = runner_of(AdminApplication(view, node, self.page, self.port).made(), self.port)

    async def open(self) -> None:
        """Accept connections."""
        await self._runner.setup()
        serve: Any = self._runner.server
        self.port.open(serve)

    async def close(self) -> None:
        """Accept no more; requests are answered within SHUTDOWN_S."""
        self.port.close()
        self.page.close()
        await self._runner.cleanup()


@final
class AdminThread:
    """Serves the port in a thread of its own, until `stop`.

    node   the way to its loop, in which the functions of the view are called
    """

    def __init__(self, bound: socket.socket, view: AdminView) -> None:
        self.view = view
        self.node = OtherLoop()
        self._bound = bound
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-admin", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Accept no more. Requests under way are answered behind the caller, who waits for nothing."""
        with suppress(RuntimeError):  # it has failed, which is in the log
            self._loop.call_soon_threadsafe(self._stopped.set)

    def join(self) -> None:
        """Wait for the end of the thread: an interpreter that ends while it imports aiohttp could wait for ever."""
        self._thread.join(JOIN_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        clock = LoopClock(self._loop)
        hosting = Hosting(self._bound, lambda: self.view, self.node, clock, PumpIntake(clock, lambda: 0))
        await hosting.open()
        await self._stopped.wait()
        hosting.port.leave_socket()
        limit = self._loop.time() + REQUEST_S
        while hosting.port.busy and self._loop.time() < limit:
            await asyncio.sleep(POLL_S)
        await hosting.close()
        clock.end()


@final
class AdminServer:
    """The admin port of a process, with one listening socket. It stays when one node of the process takes another's place.

    refused   connections that a bound has closed, since a node serves
    """

    def __init__(self, bound: socket.socket) -> None:
        """`bound`: the socket, not listening yet."""
        self.bound = bound
        self._thread: AdminThread | None = None
        self._hosting: Hosting | None = None

    @property
    def refused(self) -> int:
        """Connections that a bound has closed."""
        return 0 if self._hosting is None else self._hosting.port.refused

    @property
    def pages(self) -> int:
        """Metrics pages that were made in the loop of the node."""
        return 0 if self._hosting is None else self._hosting.page.made

    def start(self, view: AdminView) -> None:
        """Answer for a process whose node is not made yet."""
        self._thread = AdminThread(self.bound.dup(), view)

    def wait(self, view: AdminView) -> None:
        """Answer for a node that does not serve. Called in its loop."""
        if self._thread is None:
            self._thread = AdminThread(self.bound.dup(), view)
        self._thread.node.loop = asyncio.get_running_loop()
        self._thread.view = view

    async def serve(self, view: AdminView, clock: Clock, intake: PumpIntake) -> None:
        """Answer for a node that serves, in its loop."""
        self._hosting = Hosting(self.bound.dup(), lambda: view, SameLoop(), clock, intake)
        await self._hosting.open()
        if self._thread is not None:
            self._thread.stop()
            self._thread = None

    async def leave(self, view: AdminView) -> None:
        """The node stops serving, and another one takes its place: answer for that."""
        hosting, self._hosting = self._hosting, None
        self.wait(view)
        if hosting is not None:
            await hosting.close()

    def abandon(self) -> None:
        """The process ends without having served: end the thread, and wait for that."""
        if self._thread is not None:
            self._thread.stop()
            self._thread.join()

    async def close(self) -> None:
        """Serve nobody any more."""
        if self._thread is not None:
            self._thread.stop()
            self._thread = None
        hosting, self._hosting = self._hosting, None
        if hosting is not None:
            await hosting.close()
        self.bound.close()


def started(address: tuple[str, int] | None) -> AdminServer | None:
    """The admin port of a process that begins; None where it cannot be bound, which the node reports when it starts."""
    if address is None:
        return None
    try:
        bound = bind("admin", *address)
    except (ConfigError, OverflowError):
        return None
    server = AdminServer(bound)
    server.start(AdminView(Health(time.monotonic_ns), Hosts((), "")))
    return server
