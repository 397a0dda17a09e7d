"""The store's end: carries out the calls of other nodes, each once, and sends the answers of a turn together. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, final

from domain.errors import Failure
from domain.limits import SECOND_NS
from domain.message_store import MessageStore
from domain.ports import Clock
from protocols.remoting.calls.octets import WireError
from tests.calls.frame import BODY_BYTES, AnswerBytes, CallBytes, get_calls, put_answers, too_large
from tests.calls.link import BYTES_MAX, CALLS_IN_BODY, CALLS_MAX
from tests.calls.operations import NO_DONE, OPERATIONS, Operation

FORGET_NS: Final = 60 * SECOND_NS
"""Time for which a caller without a connection is remembered, with its answers: longer than a call waits (`link.CALL_NS`)."""


@final
class Caller:
    """A node that calls, in one of its lives: which of its calls were carried out, and the answers that it may still need.

    Calls are carried out in the order of their numbers, from 1, each once. An answer is kept until the caller says that it
    needs it no more, for it may be lost with the connection. The bounds are those of `CallService.received`.

    send      sends the body of a frame over the newest connection; None: there is no connection
    answers   number -> answer as bytes, or the Failure; None: the call is being carried out
    bytes     bytes of these answers
    early     number -> call that waits for one with a lower number, which has not come yet
    fresh     numbers of the calls whose answers are sent at the end of this turn
    next      number of the call that is carried out next
    settled   the caller needs no answer of a call with a lower number
    since_ns  monotonic time in nanoseconds at which the last connection was lost
    """

    __slots__ = ("answers", "bytes", "early", "fresh", "next", "send", "settled", "since_ns")

    def __init__(self) -> None:
        self.send: Callable[[bytes], None] | None = None
        self.answers: dict[int, bytes | Failure | None] = {}
        self.early: dict[int, CallBytes] = {}
        self.fresh: list[int] = []
        self.next = 1
        self.settled = 0
        self.since_ns = 0
        self.bytes = 0


@final
class CallService:
    """Carries out calls of other nodes on the ports of a store.

    _callers   name of a node's life -> what is known about its calls
    _run       number of an operation -> function of its arguments and `done`
    """

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self._clock = clock
        self._callers: dict[str, Caller] = {}
        self._run = {number: _method(store, operation) for number, operation in OPERATIONS.items()}

    def connected(self, node: str, send: Callable[[bytes], None]) -> None:
        """A node has opened a connection. It takes the place of an earlier one.

        node   names one life of the node: another life has another name
        send   sends the body of one frame
        """
        now = self._clock.monotonic_ns()
        for name, known in list(self._callers.items()):
            if known.send is None and now - known.since_ns > FORGET_NS:
                del self._callers[name]
        self._callers.setdefault(node, Caller()).send = send

    def lost(self, node: str, send: Callable[[bytes], None]) -> None:
        """The connection that was opened with this `send` is closed. Does nothing when a newer one is open."""
        caller = self._callers.get(node)
        if caller is not None and caller.send is send:
            caller.send = None
            caller.since_ns = self._clock.monotonic_ns()

    def received(self, node: str, body: bytes) -> None:
        """Take the body of a frame with calls from `node`, which has connected.

        Raises WireError: close the connection. The bytes are no calls, name no operation, or the node leaves more than
        2 * link.CALLS_MAX calls or 2 * link.BYTES_MAX bytes of answers unsettled.
        """
        caller = self._callers[node]
        settled, calls = get_calls(body)
        if settled > caller.settled:
            caller.settled = settled
            for number in [number for number in caller.answers if number < settled]:
                answer = caller.answers.pop(number)
                caller.bytes -= len(answer) if isinstance(answer, bytes) else 0
            caller.next = max(caller.next, settled)
        if len(caller.answers) + len(caller.early) + len(calls) > 2 * CALLS_MAX or caller.bytes > 2 * BYTES_MAX:
            raise WireError(f"more than {2 * CALLS_MAX} calls, or {2 * BYTES_MAX} bytes of answers, are not settled")
        for call in calls:
            number = call.number
            if number >= caller.next:
                caller.early[number] = call
            elif caller.answers.get(number) is not None:
                self._tell(caller, number)
        while caller.early:
            next_call = caller.early.pop(caller.next, None)
            if next_call is None:
                break
            caller.next += 1
            self._carry_out(caller, next_call)

    def _carry_out(self, caller: Caller, call: CallBytes) -> None:
        number, kind, request = call
        operation = OPERATIONS.get(kind)
        if operation is None:
            raise WireError(f"operation {kind} is not known here")
        arguments = operation.get_request(request)
        caller.answers[number] = None
        self._run[kind](*arguments, partial(self._answered, caller, number, operation))

    def _answered(self, caller: Caller, number: int, operation: Operation[Any], value: Any) -> None:
        if number not in caller.answers:
            return  # the caller no longer needs the answer
        answer = value if isinstance(value, Failure) else operation.put_answer(value)
        if isinstance(answer, bytes):
            answer = too_large(f"the answer of {operation.name}", len(answer)) or answer
        caller.answers[number] = answer
        caller.bytes += len(answer) if isinstance(answer, bytes) else 0
        self._tell(caller, number)

    def _tell(self, caller: Caller, number: int) -> None:
        if not caller.fresh:
            self._clock.call_soon(partial(self._flush, caller))
        caller.fresh.append(number)

    def _flush(self, caller: Caller) -> None:
        fresh, caller.fresh = caller.fresh, []
        if caller.send is None:
            return
        answers: list[AnswerBytes] = []
        size = 0
        for number in fresh:
            answer = caller.answers.get(number)
            if answer is not None:
                answers.append(AnswerBytes(number, answer))
                size += len(answer) if isinstance(answer, bytes) else 0
                if size >= BODY_BYTES or len(answers) >= CALLS_IN_BODY:
                    caller.send(put_answers(answers))
                    answers, size = [], 0
        if answers:
            caller.send(put_answers(answers))


def _method(store: MessageStore, operation: Operation[Any]) -> Callable[..., None]:
    """The method of a port, as a function that takes `done` behind all other arguments."""
    port, _, name = operation.name.partition(".")
    method: Callable[..., None] = getattr(getattr(store, port), name)
    at = operation.done_at

    def run(*arguments: Any) -> None:
        *given, done = arguments
        if at == NO_DONE:
            method(*given)
            done(None)
        else:
            method(*given[:at], done, *given[at:])

    return run
