"""The connections of the admin port: their number, the time that they last, and their turns of the loop.

A connection is accepted, it becomes a connection of the loop, and each of its requests is handed to aiohttp. The last two steps
wait for their turn in the same queue as the work of all other ports (gateway.connection.intake), where hosts take turns. So a
host that connects as fast as it can delays neither the other ports nor the requests of other hosts to this one.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast, final

from domain.address import network_of_host
from domain.ports import Clock
from gateway.connection.intake import PumpIntake, SlicedConnection

REQUEST_S: Final = 10.0
"""Seconds for a request to arrive, and again for its response to be read; of a stream, for the client to read on."""
IDLE_S: Final = 60.0
"""Seconds in which a connection that has had an answer may be quiet."""
REQUEST_BYTES_MAX: Final = 64 * 1024
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

_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)
_CODING: Final = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
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
class AdminConnection(asyncio.Protocol):
    """One connection: bounds its time and its bytes, and passes one request after the other to aiohttp.

    A complete head waits for its turn. Of the bytes behind it the body goes on at once, and the rest waits for the answer.

    host    network of the client (`domain.address.network_of_host`)
    inner   aiohttp's connection, made for the first head
    last    True: no request may follow the present one, since only aiohttp knows where its body ends
    """

    sends = False

    def __init__(self, host: str, port: AdminPort) -> None:
        self.host = host
        self.inner: Any = None
        self.last = False
        self._port = port
        self._unread = bytearray()
        self._scanned = 0
        self._head_bytes = 0
        self._body_bytes = 0
        self._is_asking = False
        self._is_stream = False
        self._answered = 0
        self._size = 0
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """True after an answer, until the next request begins."""
        return self._answered > 0 and not (self._is_asking or self._unread or self._body_bytes or self.last)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the time of the request."""
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._port.enter(self)
        self._restart(REQUEST_S)

    def abort(self) -> None:
        """Close the connection at once."""
        self._port.leave(self)
        if self._transport is not None:
            self._transport.abort()

    def end(self) -> None:
        """Close the connection when the written bytes are sent."""
        if self._transport is not None:
            self._transport.close()

    def _restart(self, seconds: float) -> None:
        """Give the connection so much time from now on."""
        self._stop_timer()
        if self._transport is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._late)

    def _late(self) -> None:
        if self.idle:
            self.end()
        else:
            self._port.refuse(self)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        if self.idle:
            self._restart(REQUEST_S)
        self._size += len(data)
        if self._size > REQUEST_BYTES_MAX:
            self._port.refuse(self)
            return
        body = len(data) if self.last else min(self._body_bytes, len(data))
        if body:
            self._body_bytes -= body
            self.inner.data_received(data[:body])
        self._unread += data[body:]
        if not self._is_asking:
            self._find_head()

    def _find_head(self) -> None:
        """Have a complete head wait for its turn. Bytes that begin with no method are no HTTP: aiohttp refuses them at once."""
        unread = self._unread
        if not unread:
            return
        end = unread.find(b"\r\n\r\n", max(0, self._scanned - 3))
        self._scanned = len(unread)
        is_http = 65 <= unread[0] <= 90
        if is_http and end < 0:
            return
        self._head_bytes = end + 4 if is_http else len(unread)
        self._is_asking = True
        self._port.wait(self)

    def take_slice(self) -> bool:
        """Hand the head to aiohttp, and the part of the body that has arrived."""
        if self._transport is None or self._transport.is_closing():
            return False
        if self.inner is None:
            self.inner = self._port.serve()
            self._port.served(self)
            self.inner.connection_made(self._transport)
        head = bytes(self._unread[: self._head_bytes])
        length = _LENGTH.search(head)
        self.last = length is None and _CODING.search(head) is not None
        self._body_bytes = int(length[1]) if length is not None else 0
        here = len(self._unread) if self.last else min(len(self._unread), self._head_bytes + self._body_bytes)
        self._body_bytes -= here - self._head_bytes
        given = bytes(self._unread[:here])
        del self._unread[:here]
        self._head_bytes = self._scanned = 0
        self.inner.data_received(given)
        return False

    def respond(self, *, is_stream: bool) -> None:
        """The response begins. A stream may take any time, as long as the client reads it."""
        self._is_stream = is_stream
        if is_stream:
            self._stop_timer()
        else:
            self._restart(REQUEST_S)

    def answered(self) -> None:
        """The response is written: the next request may be handed on."""
        self._is_asking = self._is_stream = False
        self._answered += 1
        self._size = len(self._unread)
        self._restart(IDLE_S if self.idle else REQUEST_S)
        self._find_head()

    def eof_received(self) -> bool:
        """The client has sent all its bytes. True: a request is there, and its response is still sent."""
        if self.inner is not None:
            self.inner.eof_received()
        return self._is_asking

    def pause_writing(self) -> None:
        """The client does not read."""
        if self._is_stream:
            self._restart(REQUEST_S)
        if self.inner is not None:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._is_stream:
            self._stop_timer()
        if self.inner is not None:
            self.inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._stop_timer()
        self._transport = None
        self._port.leave(self)
        if self.inner is not None:
            self.inner.connection_lost(exc)


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

    bound       the listening socket
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
