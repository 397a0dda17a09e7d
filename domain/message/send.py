"""The commands that store messages, and their event: every message needs both, so they are compiled.

A compiled class has no interpreted base: `Send` and `SendOnce` are a `domain.command.Command`, and `Sent` a
`domain.event.Event`, by their attributes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from domain.message.message import Message, Placed

if TYPE_CHECKING:
    from domain.access.principal import Principal


class Send:
    """Append `messages` -> Sent. Refused: none of them was stored, except with FLUSH_TIMEOUT.

    principal as in `domain.command.Command`
    messages  at least one, of one topic or of several
    wait      False: the client expects no answer (QoS 0, NON, oneway), none is given; the message is stored all the same
    typed     True: the protocol declares message types, so each message must fit the type of its topic
    queues    queues of a topic that this send creates, at most the node's own number; 0: the node's own number; -1: as 0, but a
              topic that was deleted is not created again: TOPIC_DELETED
    once      key and digest of the request: repeated with the same ones, it is answered as the first time; None: it has no key
    early     True: Sent, without places, as soon as the messages are accepted; what is refused later is not answered

    Errors: TOPIC_NOT_FOUND, TOPIC_DELETED, TOPIC_ILLEGAL, QUEUE_ILLEGAL, NOT_ALLOWED, TYPE_CONFLICT, MESSAGE_TOO_LARGE,
    PROPERTIES_TOO_LARGE, PROPERTY_ILLEGAL, DELIVERY_TIME_ILLEGAL, KEY_REUSED, QUOTA, FLUSH_TIMEOUT.
    """

    __slots__ = ("early", "messages", "once", "principal", "queues", "ticket", "typed", "wait")

    def __init__(
        self,
        ticket: object,
        messages: list[Message],
        wait: bool = True,
        typed: bool = False,
        queues: int = 0,
        early: bool = False,
        once: tuple[bytes, bytes] | None = None,
    ) -> None:
        self.principal: Principal | None = None  # set: a look for an attribute that is not costs each message an exception
        self.ticket = ticket
        self.messages = messages
        self.wait = wait
        self.typed = typed
        self.queues = queues
        self.early = early
        self.once = once


@final
class SendRetry(Send):
    """Append messages to the retry topic of the sender's own group -> Sent. RocketMQ's orderly consumers do this by themselves.

    retry_max   redeliveries after which a message goes to the dead-letter topic instead; -1: the limit of the group

    The messages also go to the dead-letter topic while members of the group hold queue locks: an orderly consumer retries in
    place, and sends a message here only when its retries are used up. Errors as for Send, and GROUP_NOT_FOUND, GROUP_ILLEGAL.
    """

    __slots__ = ("group", "retry_max")

    def __init__(self, ticket: object, messages: list[Message], group: str, retry_max: int = -1, wait: bool = True) -> None:
        super().__init__(ticket, messages, wait)
        self.group = group
        self.retry_max = retry_max


@final
class SendOnce:
    """Store EXACTLY_ONCE messages of the client, each once -> Done, or Refused when no new message was stored.

    `packet_ids[i]` is the packet identifier of `messages[i]`. A packet identifier that the session already has marks a
    retransmission, which is not stored again. The session keeps packet identifiers, written in the same commit as their
    messages, until ReleasePacketIds (MQTT 5, 4.3.3).
    """

    __slots__ = ("messages", "packet_ids", "principal", "ticket")

    def __init__(self, ticket: object, messages: list[Message], packet_ids: list[int]) -> None:
        self.principal: Principal | None = None
        self.ticket = ticket
        self.messages = messages
        self.packet_ids = packet_ids


@final
class Sent:
    """The messages are stored, at the durability of their topics.

    placed   one value a message, in order; empty for an early answer (`domain.command.Send`): the messages are accepted only
    """

    __slots__ = ("placed", "ticket")

    def __init__(self, ticket: object, placed: list[Placed]) -> None:
        self.ticket = ticket
        self.placed = placed
