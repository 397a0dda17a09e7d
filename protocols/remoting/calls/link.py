"""The caller's end: calls to one store, over whatever connection there is to it. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, final

from domain.errors import ErrorCode, Failure
from domain.limits import SECOND_NS
from domain.ports import Clock
from protocols.remoting.calls.frame import CallBytes, get_answers, put_calls
from protocols.remoting.calls.operations import Operation, Repeat

A = TypeVar("A")

CALL_NS: Final = 10 * SECOND_NS
"""Time in which a call is answered, connections that break in between included."""
SWEEP_NS: Final = SECOND_NS // 2
CALLS_MAX: Final = 32_768
BYTES_MAX: Final = 64 * 1024 * 1024
"""Calls, and bytes of them, that may be without an answer; further ones are OVERLOADED."""
_UNKNOWN: Final = Failure(
    ErrorCode.STORE_UNAVAILABLE, "the store has started again: whether the request was carried out is not known"
)


@final
class Call:
    """A call without an answer.

    done     gets the answer; None: nobody waits
    end_ns   when it is given up, monotonic
    sent     True: it has gone out at least once
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
    """Calls to one store: numbered, sent together once a turn, sent again over a new connection until they are answered.

    name       name of the store for errors
    overdue    calls that were given up
    _send      sends the body of a frame; None: there is no connection
    _life      the life of the store that the last connection led to: another one has another number
    _fresh     calls of this turn
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
        """Call an operation; `done` gets the answer, once.

        OVERLOADED: too many calls are without an answer. STORE_UNAVAILABLE: no answer came in time, or the store has started
        again and the call may have been carried out.
        """
        request = operation.put_request(*arguments)
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
        for number in numbers:
            call = self._unanswered.get(number)
            if call is not None:
                call.sent = True
                calls.append(CallBytes(number, call.operation.number, call.request))
        if calls:
            send(put_calls(next(iter(self._unanswered)), calls))

    def connected(self, life: int, send: Callable[[bytes], None]) -> None:
        """There is a connection to the life `life` of the store: calls without an answer are sent over it, in their order."""
        if self._life not in (0, life):
            for number, call in list(self._unanswered.items()):
                if call.sent and call.operation.repeat is Repeat.ONCE:
                    self._answer(number, _UNKNOWN)
            # Every life of the store expects the numbers from 1 on, without a gap.
            self._unanswered = dict(enumerate(self._unanswered.values(), 1))
            self._next = len(self._unanswered) + 1
        self._life = life
        self._send = send
        self._fresh = []
        self._post(send, list(self._unanswered))

    def lost(self) -> None:
        """The connection is gone."""
        self._send = None

    def received(self, body: bytes) -> None:
        """Answers have come. Raises WireError: the connection has to be closed, and the calls wait for another one."""
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
        """Give up calls whose time is over. They are in the order of their ends."""
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
