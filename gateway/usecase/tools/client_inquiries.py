"""Questions that the gateway passes on to clients over their own connections, and replies to requests of clients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, final

from domain import limits
from domain.admin.client import (
    ClientPositions,
    ConsumeDirectly,
    ConsumptionResult,
    QueryClientPositions,
    QueryRunningInfo,
    RunningInfo,
)
from domain.client.client_inquiry import (
    ClientAnswered,
    ConsumptionRequest,
    Inquiry,
    PositionsRequest,
    ReplyDelivery,
    RunningInfoRequest,
    SendReply,
)
from domain.errors import ErrorCode, Failure
from domain.event import Event, Refused, Sent
from domain.message import property as properties
from domain.message.message import Placed
from domain.ports import Clock, Timer
from domain.store.store_ports import MessageLog
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs
from gateway.usecase.membership.group_members import Member
from gateway.usecase.membership.members import Registry
from gateway.usecase.publish.send import Sending, too_large
from gateway.usecase.topics_and_groups.topics import Topics

ANSWER_NS: Final = 10 * limits.SECOND_NS
"""Time for a client to send its running information, or to consume a message."""
POSITIONS_NS: Final = 5 * limits.SECOND_NS
"""Time for a client to send its positions."""
REPLY_NS: Final = 3 * limits.SECOND_NS
"""Time for a client to take a reply."""
PENDING_MAX: Final = 16_384
"""Questions that wait for an answer, of all clients together."""

ClientQuestion = RunningInfoRequest | ConsumptionRequest | PositionsRequest | ReplyDelivery
Answer = bytes | list[tuple[str, str, int, int]] | Failure
Then = Callable[[Answer], None]


@final
class _PendingQuestion:
    """One question that waits for a client's answer.

    connection   the connection that the question was sent on
    then         gets the answer, or a Failure, once
    timer        ends the question when the client does not answer in time
    lost         ends the question when the connection closes
    """

    __slots__ = ("client_id", "connection", "lost", "then", "timer")

    def __init__(
        self, connection: ClientConnection, client_id: str, then: Then, timer: Timer, lost: Callable[[], None]
    ) -> None:
        self.connection = connection
        self.client_id = client_id
        self.then = then
        self.timer = timer
        self.lost = lost


class Relaying:
    """QueryRunningInfo, ConsumeDirectly, QueryClientPositions and SendReply, and ClientAnswered, which answers them."""

    def __init__(self, registry: Registry, topics: Topics, log: MessageLog, sending: Sending, clock: Clock) -> None:
        self._registry = registry
        self._topics = topics
        self._log = log
        self._sending = sending
        self._clock = clock
        self._pending: dict[int, _PendingQuestion] = {}
        self._serial = 0
        self.verbs: Verbs = {
            QueryRunningInfo: self._running_info,
            ConsumeDirectly: self._consumption,
            QueryClientPositions: self._positions,
            SendReply: self._reply,
            ClientAnswered: self._answered,
        }

    def waiting(self) -> int:
        """Questions that wait for an answer."""
        return len(self._pending)

    def _ask(self, connection: ClientConnection, client_id: str, about: ClientQuestion, wait_ns: int, then: Then) -> None:
        """Send a question to a client on `connection`. `then` gets the answer once.

        Failure: CLIENT_UNKNOWN when the connection closes or no answer comes within `wait_ns`, OVERLOADED beyond PENDING_MAX.
        """
        if len(self._pending) >= PENDING_MAX:
            then(Failure(ErrorCode.OVERLOADED, "too many questions wait for clients already"))
            return
        self._serial += 1
        serial = self._serial
        text = f"the client <{client_id}>"
        lost = partial(self._end, serial, Failure(ErrorCode.CLIENT_UNKNOWN, f"{text} has gone"))
        seconds = wait_ns // limits.SECOND_NS
        silent = Failure(ErrorCode.CLIENT_UNKNOWN, f"{text} did not answer within {seconds} s, timeout")
        timer = self._clock.call_at(self._clock.monotonic_ns() + wait_ns, partial(self._end, serial, silent))
        self._pending[serial] = _PendingQuestion(connection, client_id, then, timer, lost)
        connection.on_close.append(lost)
        connection.answer(Inquiry(None, serial, client_id, about))

    def _answered(self, connection: ClientConnection, command: ClientAnswered) -> None:
        question = self._pending.get(command.serial)
        if question is not None and question.connection is connection:
            self._end(command.serial, command.answer)

    def _end(self, serial: int, answer: Answer) -> None:
        question = self._pending.pop(serial, None)
        if question is None:
            return
        question.timer.cancel()
        if question.lost in question.connection.on_close and not question.connection.closed:
            question.connection.on_close.remove(question.lost)
        question.then(answer)

    def _member(self, group: str, client_id: str) -> tuple[str, Member] | Failure:
        """(client id, member) of a group; with client id "" the first by name. Failure: GROUP_OFFLINE."""
        members = self._registry.members(group)
        name = client_id or min(members, default="")
        found = members.get(name)
        if found is None:
            return Failure(ErrorCode.GROUP_OFFLINE, f"the consumer <{group}> <{client_id}> is not online")
        return name, found

    def _running_info(self, connection: ClientConnection, command: QueryRunningInfo) -> None:
        found = self._member(command.group, command.client_id)
        if isinstance(found, Failure):
            connection.answer(Refused(command.ticket, found))
            return
        then = partial(_notify, connection, command.ticket, RunningInfo)
        self._ask(found[1].connection, found[0], RunningInfoRequest(command.group, command.stacks), ANSWER_NS, then)

    def _consumption(self, connection: ClientConnection, command: ConsumeDirectly) -> None:
        found = self._member(command.group, command.client_id)
        if isinstance(found, Failure):
            connection.answer(Refused(command.ticket, found))
            return
        name, member = found

        def viewed(record: bytes | Failure) -> None:
            if isinstance(record, Failure):
                connection.answer(Refused(command.ticket, record))
                return
            about = ConsumptionRequest(command.group, record, command.message_id)
            self._ask(
                member.connection, name, about, ANSWER_NS, partial(_notify, connection, command.ticket, ConsumptionResult)
            )

        self._log.record_at(command.physical_offset, viewed)

    def _positions(self, connection: ClientConnection, command: QueryClientPositions) -> None:
        members = self._registry.members(command.group)
        wanted = [name for name in sorted(members) if command.client_id in ("", name)]
        if not wanted:
            failure = Failure(ErrorCode.GROUP_OFFLINE, f"the consumer <{command.group}> is not online")
            connection.answer(Refused(command.ticket, failure))
            return
        answers: dict[str, list[tuple[str, str, int, int]]] = {}
        failures: list[Failure] = []

        def answered(name: str, answer: Answer) -> None:
            if isinstance(answer, list):
                answers[name] = answer
            else:
                silent = Failure(ErrorCode.CLIENT_UNKNOWN, f"the client <{name}> said nothing of its positions")
                failures.append(answer if isinstance(answer, Failure) else silent)
            if len(answers) + len(failures) < len(wanted):
                return
            connection.answer(ClientPositions(command.ticket, answers) if answers else Refused(command.ticket, failures[0]))

        about = PositionsRequest(command.group, command.topic)
        for name in wanted:
            self._ask(members[name].connection, name, about, POSITIONS_NS, partial(answered, name))

    def _reply(self, connection: ClientConnection, command: SendReply) -> None:
        message = command.message
        client_id = properties.text(message.properties, properties.REPLY_TO_CLIENT)
        client = self._registry.client(client_id)
        failure = too_large((message,))
        if failure is not None:
            pass
        elif not client_id:
            failure = Failure(ErrorCode.MESSAGE_ILLEGAL, "a reply names the client that it is for in REPLY_TO_CLIENT")
        elif self._topics.find(message.topic) is None:
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {message.topic} does not exist")
        elif client is None:
            failure = Failure(ErrorCode.CLIENT_UNKNOWN, f"push reply message fail, <{client_id}> is not connected here")
        if failure is not None or client is None:
            if command.wait and failure is not None:
                connection.answer(Refused(command.ticket, failure))
            return

        def taken(answer: Answer) -> None:
            if not isinstance(answer, Failure):
                self._sending.submit([message], stored if command.wait else None)
            elif command.wait:
                connection.answer(Refused(command.ticket, answer))

        def stored(result: list[Placed] | Failure) -> None:
            connection.answer(Refused(command.ticket, result) if isinstance(result, Failure) else Sent(command.ticket, result))

        self._ask(client.connection, client_id, ReplyDelivery(message, self._clock.wall_ms()), REPLY_NS, taken)


def _notify(connection: ClientConnection, ticket: object, kind: Callable[[object, bytes], Event], answer: Answer) -> None:
    """Answer a command with the text that a client gave, or with why there is none."""
    if isinstance(answer, Failure):
        connection.answer(Refused(ticket, answer))
    elif isinstance(answer, bytes):
        connection.answer(kind(ticket, answer))
    else:
        connection.answer(Refused(ticket, Failure(ErrorCode.CLIENT_UNKNOWN, "the client answered another question")))
