"""Requests to the store that have more fields than a queue and a number, and the answer to a read.

A caller may keep its request, change it and pass it again after the answer; the store keeps no request after that.
"""

from __future__ import annotations

from typing import final

from domain.filter.filter import Filter


@final
class ReadRequest:
    """Records of one queue, from an offset on.

    topic       topic, or the name of a lite topic's queue
    max_bytes   most bytes of records in the answer; one record is given however large it is
    wanted      only records that it matches, None: all
    """

    __slots__ = ("limit", "max_bytes", "offset", "queue_id", "topic", "wanted")

    def __init__(
        self, topic: str, queue_id: int, offset: int, limit: int, max_bytes: int, wanted: Filter | None = None
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.offset = offset
        self.limit = limit
        self.max_bytes = max_bytes
        self.wanted = wanted


@final
class ReadResult:
    """Records of one queue.

    status        as in event.Pulled: FOUND, EMPTY, NO_MATCH, TOO_SMALL, TOO_LARGE
    records       in offset order
    next_offset   offset to go on at
    min_offset    first offset that the queue still has
    max_offset    next offset to be readable
    pop_ms        pop time of the leases on these records, 0: they are not leased
    """

    __slots__ = ("max_offset", "min_offset", "next_offset", "pop_ms", "records", "status")

    def __init__(
        self, status: str, records: list[bytes], next_offset: int, min_offset: int, max_offset: int, pop_ms: int = 0
    ) -> None:
        self.status = status
        self.records = records
        self.next_offset = next_offset
        self.min_offset = min_offset
        self.max_offset = max_offset
        self.pop_ms = pop_ms

    def left(self, records: list[bytes], empty: str, next_offset: int = -1) -> ReadResult:
        """The same with a part of its records; `empty` is the status without any. `next_offset` -1: it stays."""
        return ReadResult(
            "FOUND" if records else empty, records, self.next_offset if next_offset < 0 else next_offset,
            self.min_offset, self.max_offset, self.pop_ms,
        )  # fmt: skip


@final
class PullRequest:
    """A read by a member of a clustering group.

    retry_topic   topic that gets messages which came back behind the member's offset and which nobody leases;
                  "": the member reads none and is given these messages itself
    """

    __slots__ = ("group", "member", "read", "retry_topic")

    def __init__(self, group: str, member: str, retry_topic: str, read: ReadRequest) -> None:
        self.group = group
        self.member = member
        self.retry_topic = retry_topic
        self.read = read


@final
class LeaseTerms:
    """The terms on which messages are leased.

    ordered        never past an un-settled message of the same ordering key
    attempt_id     a call that repeats the id of an earlier one gets the messages of that one again, while it holds them and
                   whatever `LeaseRequest.limit` says, and no others; no delivery is counted, "": no id
    fleeting       the leases end when `Leases.lapse` is called after the next start of the store
    """

    __slots__ = ("attempt_id", "fleeting", "invisible_ms", "ordered")

    def __init__(self, invisible_ms: int, ordered: bool = False, attempt_id: str = "", fleeting: bool = False) -> None:
        self.invisible_ms = invisible_ms
        self.ordered = ordered
        self.attempt_id = attempt_id
        self.fleeting = fleeting


@final
class LeaseRequest:
    """Free messages of one topic for one group.

    topic          topic, or the name of a lite topic's queue
    queue_id       queue of the topic, -1: any, in turn; below: all, in an order of priority (domain.delivery.priority.looking)
    wanted         only messages that it matches, None: all; the others are settled in passing
    from_first     where a group without a position starts: True at the first message, False at the last one there is
    """

    __slots__ = ("from_first", "group", "limit", "queue_id", "terms", "topic", "wanted")

    def __init__(
        self,
        group: str,
        topic: str,
        limit: int,
        terms: LeaseTerms,
        *,
        queue_id: int = -1,
        wanted: Filter | None = None,
        from_first: bool = False,
    ) -> None:
        self.group = group
        self.topic = topic
        self.limit = limit
        self.terms = terms
        self.queue_id = queue_id
        self.wanted = wanted
        self.from_first = from_first


@final
class KeyQuery:
    """Records of one topic by key and store time.

    key         UNIQ_KEY of the records or, unless `unique`, one of the words of their KEYS
    begin_ms    first store time, epoch milliseconds
    end_ms      last store time, epoch milliseconds, included
    max_bytes   most bytes of records in the answer; one record is given however large it is
    unique      compare with UNIQ_KEY alone
    """

    __slots__ = ("begin_ms", "end_ms", "key", "limit", "max_bytes", "topic", "unique")

    def __init__(self, topic: str, key: str, begin_ms: int, end_ms: int, limit: int, max_bytes: int, unique: bool) -> None:
        self.topic = topic
        self.key = key
        self.begin_ms = begin_ms
        self.end_ms = end_ms
        self.limit = limit
        self.max_bytes = max_bytes
        self.unique = unique
