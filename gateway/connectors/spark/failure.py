"""Errors of the source. Their texts say what is wrong, in which queue, and what to do.

SourceError              root of all errors
  OptionError            a wrong option or schema
  MissingError           a topic, a queue or a broker that the query reads does not answer
    NoSuchTopicError     a topic does not exist
  DataLossError          messages that the query needs are not there; with failOnDataLoss=false the query goes on without them
    OffsetExpiredError   retention has deleted them
    OffsetAheadError     the query is past the end of the queue: another cluster, or the end of the log was lost
    TopicRemadeError     the topic was deleted, or deleted and created again
    OffsetGapError       a queue has no messages at offsets inside the range that it says it has
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


class MissingError(SourceError):
    """A topic, a queue or a broker that the query reads does not answer.

    gone   True when a name server or the broker says that it does not exist; False: its broker is not there
    """

    def __init__(self, text: str, gone: bool) -> None:
        super().__init__(text)
        self.gone = gone


class NoSuchTopicError(MissingError):
    """A topic does not exist. `near`: similar names of topics."""

    def __init__(self, topic: str, nameserver: str, near: list[str]) -> None:
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        text = (
            f"Topic {topic!r} does not exist at nameserver {nameserver}.{hint} "
            "Create it, send the first message to it, or correct option 'topics' (or 'nameserver')."
        )
        super().__init__(text, gone=True)
        self.topic = topic


class DataLossError(SourceError):
    """Messages that the query needs are not there."""


class OffsetExpiredError(DataLossError):
    """Retention has deleted the offsets from `wanted` to `first` - 1, which the query needs."""

    def __init__(self, queue: QueueRoute, wanted: int, first: int) -> None:
        super().__init__(
            f"{place(queue)}: offsets {wanted} to {first - 1} are gone (the first one left is {first}): retention removed them "
            "before the query read them. Set option failOnDataLoss=false to go on at the first one left, or raise the "
            "retention of the topic; to start anew use a new checkpoint."
        )


class OffsetAheadError(DataLossError):
    """The query is at offset `wanted`, past the end of the queue at `after`."""

    def __init__(self, queue: QueueRoute, wanted: int, after: int) -> None:
        super().__init__(
            f"{place(queue)}: the query is at offset {wanted}, but the queue ends at {after}: the topic was deleted and made "
            "again, or this is another cluster. Start with a new checkpoint, or set option failOnDataLoss=false to take what "
            "is there."
        )


class TopicRemadeError(DataLossError):
    """The topic was deleted, or deleted and created again, since the query was at offset `wanted`."""

    def __init__(self, queue: QueueRoute, wanted: int) -> None:
        super().__init__(
            f"{place(queue)}: the query is at offset {wanted} of a topic that was deleted; the topic of this name is another "
            "one, or there is none. Messages that the query had not read are lost. Set option failOnDataLoss=false to read the "
            "new topic from its first message, or start with a new checkpoint."
        )


class OffsetGapError(DataLossError):
    """The queue has no messages at the offsets from `start` to `end` - 1."""

    def __init__(self, queue: QueueRoute, start: int, end: int) -> None:
        super().__init__(
            f"{place(queue)}: the broker has no messages at offsets {start} to {end - 1}, inside the range that it says it "
            "has: the log is damaged or compacted, or these are inner batches. Set option failOnDataLoss=false to go on "
            "without them."
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
