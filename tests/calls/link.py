"""The caller's end: calls to one store, over one connection after the other. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, final

from domain.errors import ErrorCode, Failure
from domain.limits import SECOND_NS
from domain.ports import Clock
from tests.calls.frame import BODY_BYTES, CallBytes, get_answers, put_calls, too_large
from tests.calls.operations import Operation, Repeat

A = TypeVar("A")

CALL_NS: Final = 10 * SECOND_NS
"""Time that a call has for its answer, in which it may be sent over several connections."""
SWEEP_NS: Final = SECOND_NS // 2
"""Time between two looks for calls whose time is over."""
CALLS_MAX: Final = 32_768
"""Calls that may be without an answer."""
CALLS_IN_BODY: Final = 4_096
"""Calls after which a body is closed."""
BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of the requests of these calls."""
_UNKNOWN: Final = Failure(
    ErrorCode.STORE_UNAVAILABLE, "the store has started again: whether the request was carried out is not known"
)


@final
class Call:
    """A call without an answer.

    request  its arguments, as `Operation.put_request` writes them
    done     gets the answer; None: nobody waits for it
    end_ns   monotonic time in nanoseconds at which it is given up
    sent     True: it was sent at least once, so it may have been carried out
    """

    __slots__ = ("done", "end_ns", "operation", "request", "sent")

    def __init__(self, operation: Operation[Any], request: bytes, done: Callable[[Any], None] | None, end_ns: int) -> None:
        self.operation = operation
        self.request = request
        self.done = done
        self.end_ns = end_ns
        self.sent = False


@final
class StoreLink:
    """Calls to one store. Those of one turn are sent together; what has no answer is sent again over the next connection.

    name         name of the store for errors
    overdue      number of calls that were given up because their time was over
    _send        sends the body of a frame; None: there is no connection
    _life        number of the life of the store that the last connection led to; 0: there has been no connection
    _next        number of the next call
    _unanswered  number -> call without an answer, in the order of the numbers, which is also that of their ends
    _bytes       bytes of their requests
    _fresh       numbers of the calls of this turn, which are not sent yet
    _sweeping    True while a timer for `_sweep` is set
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.overdue = 0
        self._clock = clock
        self._send: Callable[[bytes], None] | None = None
        self._life = 0
        self._next = 1
        self._unanswered: dict[int, Call] = {}
        self._bytes = 0
        self._fresh: list[int] = []
        self._sweeping = False

    def call(self, operation: Operation[A], done: Callable[[A | Failure], None] | None, *arguments: Any) -> None:
        """Call an operation with the arguments of its method, `done` left out. `done` is called once with the answer.

        The answer is what the method answers, or a failure of the link. Two are given at once, and nothing is sent:
        MESSAGE_TOO_LARGE, no frame holds the request, and OVERLOADED, CALLS_MAX or BYTES_MAX would be exceeded.
        STORE_UNAVAILABLE: no answer came within CALL_NS, or the store has started again and a call that must not be repeated
        (`Repeat.ONCE`) had been sent. Then it may have been carried out.
        """
        request = operation.put_request(*arguments)
        failure = too_large(f"the request {operation.name}", len(request))
        if failure is not None:
            if done is not None:
                done(failure)
            return
        if len(self._unanswered) >= CALLS_MAX or self._bytes + len(request) > BYTES_MAX:
            if done is not None:
                done(Failure(ErrorCode.OVERLOADED, f"too many requests wait for {self.name}"))
            return
        number = self._next
        self._next += 1
        self._unanswered[number] = Call(operation, request, done, self._clock.monotonic_ns() + CALL_NS)
        self._bytes += len(request)
        if not self._fresh:
            self._clock.call_soon(self._flush)
        self._fresh.append(number)
        if not self._sweeping:
            self._sweeping = True
            self._clock.call_at(self._clock.monotonic_ns() + SWEEP_NS, self._sweep)

    def _flush(self) -> None:
        fresh, self._fresh = self._fresh, []
        if self._send is not None:
            self._post(self._send, fresh)

    def _post(self, send: Callable[[bytes], None], numbers: list[int]) -> None:
        calls: list[CallBytes] = []
        size = 0
        for number in numbers:
            call = self._unanswered.get(number)
            if call is not None:
                call.sent = True
                calls.append(CallBytes(number, call.operation.number, call.request))
                size += len(call.request)
                if size >= BODY_BYTES or len(calls) >= CALLS_IN_BODY:
                    send(put_calls(next(iter(self._unanswered)), calls))
                    calls, size = [], 0
        if calls:
            send(put_calls(next(iter(self._unanswered)), calls))

    def connected(self, life: int, send: Callable[[bytes], None]) -> None:
        """A connection to the store is open: all calls without an answer are sent over it, in their order.

        life   number of the store's present life, not 0: another one than before means that the store has started again
        send   sends the body of one frame
        """
        if self._life not in (0, life):
            for number, call in list(self._unanswered.items()):
                if call.sent and call.operation.repeat is Repeat.ONCE:
                    self._answer(number, _UNKNOWN)
            # A store that has started expects numbers from 1 on, without a gap.
            self._unanswered = dict(enumerate(self._unanswered.values(), 1))
            self._next = len(self._unanswered) + 1
        self._life = life
        self._send = send
        self._fresh = []
        self._post(send, list(self._unanswered))

    def lost(self) -> None:
        """The connection is closed. Calls wait for the next one until their time is over."""
        self._send = None

    def received(self, body: bytes) -> None:
        """Take the body of a frame with answers. Raises WireError: close the connection; the calls wait for the next one."""
        for number, answer in get_answers(body):
            call = self._unanswered.get(number)
            if call is None:
                continue  # given up, or answered before
            value = answer if isinstance(answer, Failure) else call.operation.get_answer(answer)
            self._answer(number, value)

    def _answer(self, number: int, value: Any) -> None:
        call = self._unanswered.pop(number)
        self._bytes -= len(call.request)
        if call.done is not None:
            call.done(value)

    def _sweep(self) -> None:
        """Give up calls whose time is over."""
        now = self._clock.monotonic_ns()
        failure = Failure(ErrorCode.STORE_UNAVAILABLE, f"{self.name} has not answered in {CALL_NS // SECOND_NS} s")
        while self._unanswered:
            number, call = next(iter(self._unanswered.items()))
            if call.end_ns > now:
                break
            self.overdue += 1
            self._answer(number, failure)
        self._sweeping = bool(self._unanswered)
        if self._sweeping:
            self._clock.call_at(now + SWEEP_NS, self._sweep)
