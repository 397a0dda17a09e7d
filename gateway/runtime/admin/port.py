"""The connections of the admin port: their number, the time that they last, and their turns of the loop.

A connection is accepted, it becomes a connection of the loop, and each of its requests is handed to aiohttp. The last two steps
wait for their turn in the same queue as the work of all other ports (gateway.connection.intake), where hosts take turns. So a
host that connects as fast as it can delays neither the other ports nor the requests of other hosts to this one.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final, final

from domain.address import network_of_host
from domain.ports import Clock
from gateway.connection.intake import PumpIntake, SlicedConnection
from gateway.runtime.admin.admin_connection import AdminConnection

BACKLOG: Final = 1_024
"""Connections that wait to be accepted: the kernel drops further ones, and their clients try again after a second."""
ACCEPTED_MAX: Final = 128
"""Connections that one turn of the loop accepts."""
CONNECTIONS_MAX: Final = 128
"""Connections open at once."""
HOST_CONNECTIONS_MAX: Final = 64
"""Connections of one host open at once."""
WAITING_MAX: Final = 512
"""Connections that are accepted and wait for their turn."""
HOST_WAITING_MAX: Final = 64
"""The same, of one host."""
LOG_INTERVAL_S: Final = 60.0
"""Seconds between two lines in the log about too many connections."""
PAUSE_S: Final = 1.0
"""Pause of accepting while the process has no file descriptor left."""
ACCEPT_NS: Final = 10_000
BEGIN_NS: Final = 80_000
ANSWER_NS: Final = 400_000
PART_NS: Final = 500_000
"""Time to accept a connection, to begin it, to answer a request, and for a part of a page; most of it later in the turn."""
BEGIN_TURNS: Final = 3
ANSWER_TURNS: Final = 3
"""Turns of the loop that the tasks take that begin a connection and answer a request: a step of a task is a turn."""

log = logging.getLogger("headgate.admin")


@final
class HostArrivals:
    """The accepted connections of one host, of which a turn begins as many as it has time for."""

    sends = False

    def __init__(self, host: str, port: AdminPort) -> None:
        self.host = host
        self.sockets: deque[socket.socket] = deque()
        self._port = port

    def take_slice(self) -> bool:
        """Begin the oldest connection, unless the port was closed meanwhile."""
        if not self.sockets:
            return False
        self._port.begin(self.sockets.popleft(), self.host)
        if not self.sockets:
            self._port.arrived(self.host)
        return bool(self.sockets)


@final
class PartTurn:
    """The turn of one part of a page."""

    sends = False

    def __init__(self, host: str, done: asyncio.Future[None]) -> None:
        self.host = host
        self._done = done

    def take_slice(self) -> bool:
        """Let the handler go on."""
        if not self._done.done():
            self._done.set_result(None)
        return False


@final
class AdminStep:
    """The work of a connection, as the intake sees it: whatever goes wrong in it ends that work and nothing else."""

    sends = False

    def __init__(self, work: SlicedConnection, cost_ns: int, turns: int, clock: Clock, intake: PumpIntake) -> None:
        """The work takes `cost_ns`, and its task as many turns after the slice, in which no bytes are handled."""
        self.host = work.host
        self._work = work
        self._cost_ns = cost_ns
        self._turns = turns
        self._clock = clock
        self._intake = intake

    def take_slice(self) -> bool:
        """Do a slice of the work, and count its time."""
        began = self._clock.monotonic_ns()
        try:
            more = self._work.take_slice()
        except Exception:
            log.exception("admin: a connection of %s failed", self.host)
            more = False
        now = self._clock.monotonic_ns()
        self._intake.used(now - began + self._cost_ns, now)
        self._intake.leave(self._turns)
        return more


@final
class AdminPort:
    """The listening socket and its connections, oldest first.

    refused     connections that were closed by a bound: too many at once, or a request that is too large or too slow
    serve       makes aiohttp's side of a connection; once open
    _arrivals   host -> its connections that wait to begin
    _open       host -> its open connections
    _by_inner   aiohttp's side -> connection
    """

    def __init__(self, bound: socket.socket, clock: Clock, intake: PumpIntake, connections_max: int = CONNECTIONS_MAX) -> None:
        """`connections_max`: fewer than CONNECTIONS_MAX in a process that may open few files."""
        self.refused = 0
        self._connections_max = connections_max
        self._host_max = min(HOST_CONNECTIONS_MAX, connections_max // 2)
        self._waiting_max = WAITING_MAX if connections_max == CONNECTIONS_MAX else connections_max
        self._lacked_s = -LOG_INTERVAL_S
        self.serve: Callable[[], Any]
        self.bound = bound
        self._clock = clock
        self._intake = intake
        self._loop = asyncio.get_running_loop()
        self._arrivals: dict[str, HostArrivals] = {}
        self._waiting = 0
        self._all: dict[AdminConnection, None] = {}
        self._open: dict[str, dict[AdminConnection, None]] = {}
        self._by_inner: dict[Any, AdminConnection] = {}
        self._beginning: set[asyncio.Task[Any]] = set()
        self._logged_s = -LOG_INTERVAL_S
        self._resume: asyncio.TimerHandle | None = None

    def open(self, serve: Callable[[], Any]) -> None:
        """Accept connections; `serve` makes aiohttp's side of one."""
        self.serve = serve
        self.bound.setblocking(False)
        self.bound.listen(BACKLOG)
        self._listen()

    def leave_socket(self) -> None:
        """Accept no more, and close idle connections. The others stay."""
        if self._resume is not None:
            self._resume.cancel()
        if self.bound.fileno() >= 0:
            self._loop.remove_reader(self.bound.fileno())
            self.bound.close()
        for connection in [each for each in self._all if each.idle]:
            connection.end()

    @property
    def busy(self) -> bool:
        """True while a connection has not had its answer."""
        return self._waiting > 0 or bool(self._beginning) or any(not each.idle for each in self._all)

    def close(self) -> None:
        """Accept no more, and close connections that wait to begin. Open connections stay open."""
        self.leave_socket()
        for arrivals in self._arrivals.values():
            for waiting in arrivals.sockets:
                waiting.close()
            self._waiting -= len(arrivals.sockets)
            arrivals.sockets.clear()

    def _listen(self) -> None:
        self._loop.add_reader(self.bound.fileno(), self._accept)

    def _accept(self) -> None:
        began = self._clock.monotonic_ns()
        for _ in range(ACCEPTED_MAX):
            try:
                accepted, address = self.bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:
                self._lacks(error)
                self._loop.remove_reader(self.bound.fileno())
                self._resume = self._loop.call_later(PAUSE_S, self._listen)
                break
            self._arrive(accepted, network_of_host(address[0]))
        now = self._clock.monotonic_ns()
        self._intake.used(now - began + ACCEPT_NS, now)

    def _lacks(self, error: OSError) -> None:
        """No connection can be accepted."""
        now_s = self._loop.time()
        if now_s - self._lacked_s >= LOG_INTERVAL_S:
            self._lacked_s = now_s
            log.warning(
                "admin: no connection can be accepted: %s; it is tried every %g s. Raise the limit of open files "
                "(LimitNOFILE of the unit, ulimit -Hn)", error, PAUSE_S,
            )  # fmt: skip

    def _arrive(self, accepted: socket.socket, host: str) -> None:
        arrivals = self._arrivals.get(host)
        waiting = 0 if arrivals is None else len(arrivals.sockets)
        if waiting >= HOST_WAITING_MAX or self._waiting >= self._waiting_max:
            # The new one: those that wait for longer begin first.
            self._count()
            accepted.close()
            return
        self._waiting += 1
        if arrivals is None:
            arrivals = self._arrivals[host] = HostArrivals(host, self)
        arrivals.sockets.append(accepted)
        if not waiting:
            self._intake.add(AdminStep(arrivals, BEGIN_NS, BEGIN_TURNS, self._clock, self._intake))

    def arrived(self, host: str) -> None:
        """No connection of `host` waits any more."""
        self._arrivals.pop(host, None)

    def begin(self, accepted: socket.socket, host: str) -> None:
        """Make an accepted socket a connection of the loop."""
        self._waiting -= 1
        accepted.setblocking(False)
        task = self._loop.create_task(self._begun(accepted, host))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    async def _begun(self, accepted: socket.socket, host: str) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: AdminConnection(host, self), accepted)
        except OSError:
            accepted.close()  # the client is gone

    def enter(self, connection: AdminConnection) -> None:
        """A new connection. With too many of its host, or in all, one of them is closed: an idle one, else the oldest."""
        own = self._open.setdefault(connection.host, {})
        if len(own) >= self._host_max:
            self._replace(own)
        elif len(self._all) >= self._connections_max:
            self._replace(self._all)
        self._all[connection] = None
        self._open.setdefault(connection.host, own)[connection] = None

    def _replace(self, connections: dict[AdminConnection, None]) -> None:
        """Close one of the connections."""
        idle = next((each for each in connections if each.idle), None)
        if idle is None:
            self.refuse(next(iter(connections)), True)
        else:
            idle.abort()

    def leave(self, connection: AdminConnection) -> None:
        """A connection has ended."""
        self._all.pop(connection, None)
        self._by_inner.pop(connection.inner, None)
        own = self._open.get(connection.host)
        if own is not None:
            own.pop(connection, None)
            if not own:
                del self._open[connection.host]

    def refuse(self, connection: AdminConnection, crowded: bool = False) -> None:
        """Close a connection at once, and count it. `crowded`: since there are too many."""
        if crowded:
            self._count()
        else:
            self.refused += 1
        connection.abort()

    def _count(self) -> None:
        """One connection more is closed, since there are too many."""
        self.refused += 1
        now_s = self._loop.time()
        if now_s - self._logged_s >= LOG_INTERVAL_S:
            self._logged_s = now_s
            log.warning(
                "admin: more connections at once than %d, or %d of one host; some are closed (%d closed by a bound so far)",
                self._connections_max,
                self._host_max,
                self.refused,
            )

    def wait(self, connection: AdminConnection) -> None:
        """Hand the head of `connection` to aiohttp when it is the turn of its host."""
        self._intake.add(AdminStep(connection, ANSWER_NS, ANSWER_TURNS, self._clock, self._intake))

    def served(self, connection: AdminConnection) -> None:
        """`connection` has its side of aiohttp."""
        self._by_inner[connection.inner] = connection

    def connection_of(self, inner: Any) -> AdminConnection | None:
        """The connection of aiohttp's side; None when it has ended."""
        return self._by_inner.get(inner)

    async def turn(self, host: str) -> None:
        """Wait for the next turn of `host`, in which it makes or sends a part of a page."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._intake.add(AdminStep(PartTurn(network_of_host(host), done), PART_NS, 0, self._clock, self._intake))
        await done
