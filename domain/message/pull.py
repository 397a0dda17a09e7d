"""The events that answer Pull, which carry many messages.

A compiled class has no interpreted base: both are a `domain.event.Event` by their attributes.
"""

from __future__ import annotations

from typing import final


class Pulled:
    """The answer to Pull.

    status        FOUND; NO_MATCH: messages are there, none matches; EMPTY: no message yet; TOO_SMALL, TOO_LARGE: the offset is
                  below or above what the queue has
    records       in offset order, as they are in the log
    next_offset   offset to go on at, a valid one also when `offset` was out of range
    min_offset    first offset that the queue still has
    max_offset    next offset to be readable
    unmarked      True: no record has a property that starts with `HG_`; False: some may have
    """

    __slots__ = ("max_offset", "min_offset", "next_offset", "records", "status", "ticket", "unmarked")

    def __init__(
        self,
        ticket: object,
        status: str,
        records: list[bytes],
        next_offset: int,
        min_offset: int,
        max_offset: int,
        unmarked: bool = False,
    ) -> None:
        self.ticket = ticket
        self.status = status
        self.records = records
        self.next_offset = next_offset
        self.min_offset = min_offset
        self.max_offset = max_offset
        self.unmarked = unmarked


@final
class PulledBy(Pulled):
    """Pulled, with the replica that is to be asked next. Only for clients that reach replicas themselves.

    status   also ELSEWHERE: without records, and `next_offset` is the one asked for
    reader   number of the replica; 0: the leader
    """

    __slots__ = ("reader",)

    def __init__(
        self,
        ticket: object,
        status: str,
        records: list[bytes],
        next_offset: int,
        min_offset: int,
        max_offset: int,
        unmarked: bool = False,
        reader: int = 0,
    ) -> None:
        super().__init__(ticket, status, records, next_offset, min_offset, max_offset, unmarked)
        self.reader = reader
