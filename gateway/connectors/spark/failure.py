"""Errors of the source. Their texts say what is wrong, in which queue, and what to do.

SourceError              root of all errors
  OptionError            a wrong option or schema
  NoSuchTopicError       a topic does not exist
  OffsetExpiredError     retention has deleted messages that the query needs
  OffsetAheadError       the query is past the end of the queue: another cluster, or the topic was deleted and created again
  OffsetBackwardError    an end before its start: wrong offsets, or the checkpoint of another query
  RecordError            a malformed record, or a body that cannot be decompressed
"""

from __future__ import annotations

from domain.errors import GatewayError
from gateway.client.answer import QueueRoute


class SourceError(GatewayError):
    """Root of all errors of the source."""


class OptionError(SourceError):
    """A wrong option or schema."""


class NoSuchTopicError(SourceError):
    """A topic does not exist. `near`: similar names of topics."""

    def __init__(self, topic: str, nameserver: str, near: list[str]) -> None:
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        super().__init__(
            f"Topic {topic!r} does not exist at nameserver {nameserver}.{hint} "
            "Create it, send the first message to it, or correct option 'topics' (or 'nameserver')."
        )


class OffsetExpiredError(SourceError):
    """Retention has deleted the offsets from `wanted` to `first` - 1, which the query needs."""

    def __init__(self, queue: QueueRoute, wanted: int, first: int) -> None:
        super().__init__(
            f"{place(queue)}: offsets {wanted} to {first - 1} are gone (the first one left is {first}): retention removed them "
            "before the query read them. Set option failOnDataLoss=false to go on at the first one left, or raise the "
            "retention of the topic; to start anew use a new checkpoint."
        )


class OffsetAheadError(SourceError):
    """The query is at offset `wanted`, past the end of the queue at `after`."""

    def __init__(self, queue: QueueRoute, wanted: int, after: int) -> None:
        super().__init__(
            f"{place(queue)}: the query is at offset {wanted}, but the queue ends at {after}: the topic was deleted and made "
            "again, or this is another cluster. Start with a new checkpoint, or set option failOnDataLoss=false to take what "
            "is there."
        )


class OffsetBackwardError(SourceError):
    """The end of a batch is before its start."""

    def __init__(self, queue: QueueRoute, start: int, end: int) -> None:
        super().__init__(
            f"{place(queue)}: the batch would end at offset {end}, before it starts at {start}. "
            "Correct the starting or ending offsets; if the checkpoint belongs to another query, use one of its own."
        )


class RecordError(SourceError):
    """A malformed record, or a body that cannot be decompressed."""


def place(queue: QueueRoute) -> str:
    """The name of a queue in an error text."""
    return f"Topic {queue.topic!r}, queue {queue.queue_id} on {queue.broker}"
