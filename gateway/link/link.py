"""Requests to one server over one connection: pipelined, answers matched by number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, final

from domain.address import endpoint_text
from domain.errors import ErrorCode, Failure
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Entropy, Timer
from gateway.link.backoff import Backoff
from gateway.link.request import Request, Sign
from gateway.link.stream import Stream
from gateway.link.wire import Dialer, UnreadableError
from protocols.remoting.codes import CHECK_CLIENT, GO_AWAY, NOT_SUPPORTED
from protocols.remoting.wire.frame import Frame, FrameDecoder, encode
from protocols.remoting.wire.header import FLAG_RESPONSE, LANGUAGE_JAVA

IN_FLIGHT_MAX: Final = 16_384
"""Requests that one server has not answered."""
IN_FLIGHT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of these requests."""
REST_MS: Final = 50
"""Pause before the second attempt to connect, on average; it doubles up to REST_MAX_MS."""
REST_MAX_MS: Final = 1_000
SIGN_MS: Final = 3_000
"""Time that a server has, after a failure, to say something over a new connection."""
_OPAQUE_MAX: Final = 0x7FFFFFFF

Answered = Callable[[Frame | Failure], None]
AnswerBack = Callable[[int, dict[str, str], bytes, str], None]
"""Answers a request of a server: (response code, ext fields, body, remark)."""
Requested = Callable[[str, Frame, AnswerBack], None]
"""(name of the server, its request, answers it). A request whose flag is oneway takes no answer."""


class LinkEvents(NamedTuple):
    """Functions of its user that a link calls.

    requested   gets what the server asks; None: it is answered as not supported
    ended       called when a connection has ended that this side has not ended, or could not be made; None: nobody waits for it
    """

    requested: Requested | None = None
    ended: Callable[[], None] | None = None


_NO_EVENTS: Final = LinkEvents()


@final
class _Waiting:
    """A request that is not answered yet.

    due_ns    time of its timeout, monotonic
    heard     bytes received from the server before it was sent
    """

    __slots__ = ("done", "due_ns", "heard", "size", "timeout_ms")

    def __init__(self, done: Answered, size: int, timeout_ms: int, due_ns: int, heard: int) -> None:
        self.done = done
        self.size = size
        self.timeout_ms = timeout_ms
        self.due_ns = due_ns
        self.heard = heard


@final
class RemotingLink:
    """One server.

    A connection is made by the first request, which waits for it. When it ends, requests without an answer fail, and it is made
    again; until the server has sent something there, requests fail at once. A connection that was used, and that the server has
    ended while nothing waited, is made again by the next request.

    name     of the server, for texts
    waits    why requests fail at once; "": they do not
    losses   connections that have ended with requests unanswered, and attempts that have failed
    late     answers that came when they were given up
    """

    def __init__(
        self, name: str, host: str, port: int, dialer: Dialer, clock: Clock, entropy: Entropy, sign: Sign | None,
        events: LinkEvents = _NO_EVENTS,
    ) -> None:  # fmt: skip
        self.name = name
        self.where = endpoint_text(host, port)
        self.waits = ""
        self.losses = 0
        self.late = 0
        self._clock = clock
        self._sign = sign
        self._events = events
        self._stream = Stream([(host, port)], dialer, clock, Backoff(REST_MS, REST_MAX_MS, entropy), self)
        self._decoder = FrameDecoder()
        self._opaque = 0
        self._waiting: dict[int, dict[int, _Waiting]] = {}
        self._in_flight = 0
        self._in_flight_bytes = 0
        self._unwritten: list[bytes] = []
        self._marked = False
        self._timer: Timer | None = None
        self._timer_ns = 0
        self._leaving = False

    @property
    def in_flight(self) -> int:
        """Requests that are not answered yet."""
        return self._in_flight

    @property
    def connected(self) -> bool:
        """True while there is a connection."""
        return self._stream.open

    def ask(self, request: Request, done: Answered, timeout_ms: int) -> None:
        """Send a request. `done` gets the response whatever its code, or STORE_UNAVAILABLE or OVERLOADED."""
        if self.waits:
            done(self._failure(self.waits))
            return
        if self._in_flight >= IN_FLIGHT_MAX or self._in_flight_bytes >= IN_FLIGHT_BYTES_MAX:
            text = f"{self.name} at {self.where} has not answered {self._in_flight} requests yet; repeat it later"
            done(Failure(ErrorCode.OVERLOADED, text))
            return
        self._send(request, done, timeout_ms)

    def _send(self, request: Request, done: Answered, timeout_ms: int) -> None:
        opaque = self._next_opaque()
        data = request.encoded(opaque, self._sign)
        self._stream.connect()
        due = self._clock.monotonic_ns() + timeout_ms * MILLISECOND_NS
        waiting = _Waiting(done, len(data), timeout_ms, due, self._stream.received_bytes)
        self._waiting.setdefault(timeout_ms, {})[opaque] = waiting
        self._in_flight += 1
        self._in_flight_bytes += len(data)
        self._watch(due)
        self._put(data)

    def oneway(self, request: Request) -> None:
        """Send a request that has no answer; it is dropped while there is no connection to be had, or too much is unwritten."""
        if not self.waits and len(self._unwritten) < IN_FLIGHT_MAX:
            self._stream.connect()
            self._put(request.encoded(self._next_opaque(), self._sign, True))

    def close(self, reason: str) -> None:
        """End the connection for good; what waits fails with `reason`."""
        self.waits = reason
        self._stream.close()
        self._fail_all(reason)

    def _next_opaque(self) -> int:
        self._opaque = self._opaque % _OPAQUE_MAX + 1
        return self._opaque

    def _put(self, data: bytes) -> None:
        """Write in this turn, together with what else is to be written in it."""
        self._unwritten.append(data)
        if not self._marked:
            self._marked = True
            self._clock.call_soon(self._flush)

    def _flush(self) -> None:
        self._marked = False
        if self._stream.open and self._unwritten:
            data = self._unwritten[0] if len(self._unwritten) == 1 else b"".join(self._unwritten)
            self._unwritten.clear()
            self._stream.write(data)

    def opened(self) -> None:
        """WireUser.opened. After a failure the server has to send something before it gets requests."""
        self._decoder = FrameDecoder()
        if self._stream.failing:
            self._send(Request(CHECK_CLIENT, {"bname": self.name}, b"{}"), lambda _: None, SIGN_MS)
        self._flush()

    def received(self, data: bytes) -> None:
        """WireUser.received."""
        frames = self._decoder.feed(data)
        if frames:
            self._stream.succeeded()
            if not self._leaving:
                self.waits = ""
        for frame in frames:
            if not self._stream.open:
                return
            if frame.response:
                self._answered(frame)
            elif self._events.requested is not None:
                self._events.requested(self.name, frame, partial(self._answer, frame))
            else:
                self._answer(frame, NOT_SUPPORTED, {}, b"", f"request type {frame.code} not supported")
        if self._decoder.fault and self._stream.open:
            raise UnreadableError(f"it does not speak the remoting protocol ({self._decoder.fault})")

    def _answered(self, frame: Frame) -> None:
        for waiting in self._waiting.values():
            found = waiting.pop(frame.opaque, None)
            if found is not None:
                self._in_flight -= 1
                self._in_flight_bytes -= found.size
                found.done(self._leave() if frame.code == GO_AWAY else frame)
                break
        else:
            self.late += 1
        if self._leaving and not self._in_flight:
            self._end(f"{self.name} at {self.where} stops")

    def _leave(self) -> Failure:
        """The server stops: it gets no further requests, and may answer those that it has."""
        self._leaving = True
        self.waits = "it stops"
        return self._failure(self.waits)

    def _answer(self, request: Frame, code: int, fields: dict[str, str], body: bytes, remark: str) -> None:
        if not request.oneway and self.connected:
            self._put(
                encode(
                    code, request.opaque, fields=fields, body=body, flag=FLAG_RESPONSE, remark=remark,
                    serialize=request.serialize, language=LANGUAGE_JAVA,
                )
            )  # fmt: skip

    def ended(self, reason: str) -> None:
        """WireUser.ended. A connection that was used may end because nothing is said over it."""
        if self._events.ended is not None:
            self._events.ended()
        if self._stream.received_bytes and not self._in_flight and not self._leaving:
            self._unwritten.clear()
        else:
            self._fail(reason)

    def _end(self, reason: str) -> None:
        if self._stream.begun:
            self._stream.drop()
            self._fail(reason)

    def _fail(self, reason: str) -> None:
        """The connection has ended, or could not be made: requests fail until there is one again."""
        self.losses += 1
        self._leaving = False
        self.waits = reason
        self._stream.retry()
        self._fail_all(reason)

    def _fail_all(self, reason: str) -> None:
        self._unwritten.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        self._in_flight = self._in_flight_bytes = 0
        failure = self._failure(reason)
        for each in waiting.values():
            for one in each.values():
                one.done(failure)

    def _watch(self, due_ns: int) -> None:
        if self._timer is None or due_ns < self._timer_ns:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ns = due_ns
            self._timer = self._clock.call_at(due_ns, self._expire)

    def _expire(self) -> None:
        """Give up requests that were not answered in time; a server that has sent nothing meanwhile is taken for dead."""
        self._timer = None
        now = self._clock.monotonic_ns()
        heard = self._stream.received_bytes
        given_up: list[_Waiting] = []
        earliest = 0
        for timeout_ms, waiting in list(self._waiting.items()):
            for opaque, each in list(waiting.items()):
                if each.due_ns > now:
                    earliest = min(earliest, each.due_ns) if earliest else each.due_ns
                    break
                given_up.append(waiting.pop(opaque))
            if not waiting:
                del self._waiting[timeout_ms]
        if earliest:
            self._watch(earliest)
        for each in given_up:
            self._in_flight -= 1
            self._in_flight_bytes -= each.size
        for each in given_up:
            each.done(self._failure(f"it did not answer within {each.timeout_ms / 1000:g} s"))
        if any(each.heard == heard for each in given_up):
            longest = max(each.timeout_ms for each in given_up)
            self._end(f"it said nothing for {longest / 1000:g} s")

    def _failure(self, reason: str) -> Failure:
        return Failure(ErrorCode.STORE_UNAVAILABLE, f"{self.name} at {self.where} does not answer: {reason}")
