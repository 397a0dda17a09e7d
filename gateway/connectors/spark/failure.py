"""What the source tells a person: what is wrong, where, and what to do.

SourceError              the root
  OptionError            an option or a schema that has to be changed
  NoSuchTopicError       a topic that does not exist
  OffsetExpiredError     messages that the query needs are gone from the store
  OffsetAheadError       the query is further than the store: another cluster, or the topic was deleted and made again
  OffsetBackwardError    an end before its start: wrong offsets, or the checkpoint of another query
  RecordError            bytes that are no record, or a body that cannot be decompressed
"""

from __future__ import annotations

from domain.errors import GatewayError
from gateway.client.answer import QueueRoute


class SourceError(GatewayError):
    """The root of what the source raises."""


class OptionError(SourceError):
    """An option or a schema that has to be changed."""


class NoSuchTopicError(SourceError):
    """A topic that does not exist."""

    def __init__(self, topic: str, nameserver: str, near: list[str]) -> None:
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        super().__init__(
            f"Topic {topic!r} does not exist at nameserver {nameserver}.{hint} "
            "Create it, send the first message to it, or correct option 'topics' (or 'nameserver')."
        )


class OffsetExpiredError(SourceError):
    """Messages that the query needs are gone from the store."""

    def __init__(self, queue: QueueRoute, wanted: int, first: int) -> None:
        super().__init__(
            f"{place(queue)}: offsets {wanted} to {first - 1} are gone (the first one left is {first}): retention removed them "
            "before the query read them. Set option failOnDataLoss=false to go on at the first one left, or raise the "
            "retention of the topic; to start anew use a new checkpoint."
        )


class OffsetAheadError(SourceError):
    """The query is further than the store."""

    def __init__(self, queue: QueueRoute, wanted: int, after: int) -> None:
        super().__init__(
            f"{place(queue)}: the query is at offset {wanted}, but the queue ends at {after}: the topic was deleted and made "
            "again, or this is another cluster. Start with a new checkpoint, or set option failOnDataLoss=false to take what "
            "is there."
        )


class OffsetBackwardError(SourceError):
    """An end before its start."""

    def __init__(self, queue: QueueRoute, start: int, end: int) -> None:
        super().__init__(
            f"{place(queue)}: the batch would end at offset {end}, before it starts at {start}. "
            "Correct the starting or ending offsets; if the checkpoint belongs to another query, use one of its own."
        )


class RecordError(SourceError):
    """Bytes that are no record, or a body that cannot be decompressed."""


def place(queue: QueueRoute) -> str:
    """A queue in words."""
    return f"Topic {queue.topic!r}, queue {queue.queue_id} on {queue.broker}"
