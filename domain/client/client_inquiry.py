"""Questions of tools that the gateway relays to a client over the client's own connection, and the client's answers.

tool -- QueryRunningInfo, … --> gateway -- Inquiry (ticket None) --> connection of the client
tool <-- RunningInfo, … ------- gateway <-- ClientAnswered --------- connection of the client
"""

from __future__ import annotations

from dataclasses import dataclass

from domain.command import Command, TicketedCommand
from domain.errors import Failure
from domain.event import Event
from domain.message.message import Message


@dataclass(slots=True)
class SendReply(TicketedCommand):
    """Give a reply to the client named in its property REPLY_TO_CLIENT, and store it -> Sent (RocketMQ codes 324, 325).

    Errors: MESSAGE_ILLEGAL (without that property), TOPIC_NOT_FOUND, OVERLOADED, CLIENT_UNKNOWN (it is not connected, does
    not answer or refuses the reply: nothing is stored).
    """

    message: Message
    wait: bool = True


@dataclass(slots=True)
class Inquiry(Event):
    """A question to a client of this connection; ticket None. The client answers with ClientAnswered.

    An adapter whose protocol has no such question ignores it; the question then ends by its time-out.
    """

    ticket: None
    serial: int
    client_id: str
    about: RunningInfoRequest | ConsumptionRequest | PositionsRequest | ReplyDelivery


@dataclass(frozen=True, slots=True)
class RunningInfoRequest:
    """The client answers with the JSON of RunningInfo.

    stacks   True: with the stacks of its threads
    """

    group: str
    stacks: bool


@dataclass(frozen=True, slots=True)
class ConsumptionRequest:
    """The client consumes `record` at once and answers with the JSON of ConsumptionResult."""

    group: str
    record: bytes
    message_id: str


@dataclass(frozen=True, slots=True)
class PositionsRequest:
    """The client answers with the queues of `topic` that it consumes, as in ClientPositions."""

    group: str
    topic: str


@dataclass(frozen=True, slots=True)
class ReplyDelivery:
    """The reply to a request of the client, which answers with b"" when it has taken it.

    store_ms   time of the reply, epoch milliseconds
    """

    message: Message
    store_ms: int


@dataclass(slots=True)
class ClientAnswered(Command):
    """A client's answer to an Inquiry. No answer. Ignored when the question has ended.

    serial   of the Inquiry
    answer   as the question says, or the client's refusal
    """

    serial: int
    answer: bytes | list[tuple[str, str, int, int]] | Failure
