"""Messages that a consumer sends to the retry topic of its group itself."""

from __future__ import annotations

from domain.command import Send
from domain.message import Message


class SendRetry(Send):
    """A queue-level consumer sends a message to its group's retry topic itself (RocketMQ's orderly consumers) -> Sent.

    Beyond `retry_max` redeliveries (-1: the group's own limit), or while members of the group hold queue locks, it goes to the
    dead-letter topic: what is kept in order is retried where it is, and comes here only when that is over.
    """

    __slots__ = ("group", "retry_max")

    def __init__(self, ticket: object, messages: list[Message], group: str, retry_max: int = -1, wait: bool = True) -> None:
        super().__init__(ticket, messages, wait)
        self.group = group
        self.retry_max = retry_max
