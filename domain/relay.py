"""Questions that the gateway passes on to a client, over the client's own connection, and what the client says to them.

somebody -- Ask* command --> gateway -- Inquiry (ticket None) --> the client's connection
somebody <-- its answer ---- gateway <-- ClientAnswered ---------- the client's connection
"""

from __future__ import annotations

from dataclasses import dataclass

from domain.command import Command
from domain.errors import Failure
from domain.event import Event
from domain.message import Message


@dataclass(slots=True)
class SendReply(Command):
    """The reply to a request: handed to the client named in REPLY_TO_CLIENT, and stored -> Sent.

    MESSAGE_ILLEGAL without that property, TOPIC_NOT_FOUND. CLIENT_UNKNOWN when the client is not there, does not answer or does
    not want it: then nothing is stored.
    """

    ticket: object
    message: Message
    wait: bool = True


@dataclass(slots=True)
class Inquiry(Event):
    """Unasked (ticket None): a question to the client on this connection, to be answered by ClientAnswered with its `serial`.

    serial      identifies the question among those of the gateway
    client_id   the client that is asked
    about       the question itself

    An adapter whose protocol cannot ask it ignores it; the question then ends by its time-out.
    """

    ticket: None
    serial: int
    client_id: str
    about: RunningInfoRequest | ConsumptionRequest | PositionsRequest | ReplyDelivery


@dataclass(frozen=True, slots=True)
class RunningInfoRequest:
    """Answered with the JSON of RunningInfo."""

    group: str
    stacks: bool


@dataclass(frozen=True, slots=True)
class ConsumptionRequest:
    """Consume `record` outside of all order -> the JSON of Consumption."""

    group: str
    record: bytes
    message_id: str


@dataclass(frozen=True, slots=True)
class PositionsRequest:
    """Answered with the queues of `topic` that the client consumes, as in Positions."""

    group: str
    topic: str


@dataclass(frozen=True, slots=True)
class ReplyDelivery:
    """The reply to a request of the client: answered with b"" when it has taken it."""

    message: Message
    store_ms: int


@dataclass(slots=True)
class ClientAnswered(Command):
    """What a client says to an Inquiry. No answer. One whose question has ended, or was put to somebody else, is let go."""

    serial: int
    answer: bytes | list[tuple[str, str, int, int]] | Failure


@dataclass(slots=True)
class PositionsMoved(Event):
    """Unasked (ticket None): somebody has set positions of the client's group on a topic; it is to go on from there.

    `offsets`: (queue id, offset). `timestamp_ms`: the time that was asked for, -1 the end.
    """

    ticket: None
    group: str
    topic: str
    timestamp_ms: int
    offsets: list[tuple[int, int]]
