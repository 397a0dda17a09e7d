"""The store's end: carries out the calls of other nodes, each number once, and answers once a turn. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, final

from domain.errors import Failure
from domain.limits import SECOND_NS
from domain.message_store import MessageStore
from domain.ports import Clock
from protocols.remoting.calls.frame import AnswerBytes, CallBytes, get_calls, put_answers
from protocols.remoting.calls.link import BYTES_MAX, CALLS_MAX
from protocols.remoting.calls.octets import WireError
from protocols.remoting.calls.operations import NO_DONE, OPERATIONS, Operation

FORGET_NS: Final = 60 * SECOND_NS
"""How long the answers of a caller without a connection are remembered; its calls end before."""


@final
class Caller:
    """What the store knows about the calls of one life of a node.

    send      sends the body of a frame over its newest connection; None: it has none
    answers   number of a call -> its answer; None: it is being carried out. Those that the caller has are forgotten
    early     number -> call that came before an earlier one: calls are carried out in the order of their numbers
    next      number of the next call to be carried out
    settled   the caller has the answers of all calls below, or has given them up
    since_ns  when it lost its connection, monotonic
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
    """Carries out calls on a store's ports."""

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self._clock = clock
        self._callers: dict[str, Caller] = {}
        self._run = {number: _method(store, operation) for number, operation in OPERATIONS.items()}

    def connected(self, node: str, send: Callable[[bytes], None]) -> None:
        """The life `node` of a gateway has a new connection, which takes the place of its former one."""
        now = self._clock.monotonic_ns()
        for name, known in list(self._callers.items()):
            if known.send is None and now - known.since_ns > FORGET_NS:
                del self._callers[name]
        self._callers.setdefault(node, Caller()).send = send

    def lost(self, node: str, send: Callable[[bytes], None]) -> None:
        """The connection with this `send` is gone."""
        caller = self._callers.get(node)
        if caller is not None and caller.send is send:
            caller.send = None
            caller.since_ns = self._clock.monotonic_ns()

    def received(self, node: str, body: bytes) -> None:
        """Calls have come. Raises WireError: the connection has to be closed."""
        caller = self._callers[node]
        settled, calls = get_calls(body)
        if settled > caller.settled:
            caller.settled = settled
            for number in [number for number in caller.answers if number < settled]:
                answer = caller.answers.pop(number)
                caller.bytes -= len(answer) if isinstance(answer, bytes) else 0
            caller.next = max(caller.next, settled)
        if len(caller.answers) + len(caller.early) + len(calls) > 2 * CALLS_MAX or caller.bytes > 2 * BYTES_MAX:
            raise WireError("too many calls are not settled")
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
            raise WireError(f"there is no operation {kind}")
        arguments = operation.get_request(request)
        caller.answers[number] = None
        self._run[kind](*arguments, partial(self._answered, caller, number, operation))

    def _answered(self, caller: Caller, number: int, operation: Operation[Any], value: Any) -> None:
        if number not in caller.answers:
            return  # the caller has given it up
        answer = caller.answers[number] = value if isinstance(value, Failure) else operation.put_answer(value)
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
        for number in fresh:
            answer = caller.answers.get(number)
            if answer is not None:
                answers.append(AnswerBytes(number, answer))
        if answers:
            caller.send(put_answers(answers))


def _method(store: MessageStore, operation: Operation[Any]) -> Callable[..., None]:
    """The method of a port, as a function of its arguments without `done`, and `done` last."""
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
