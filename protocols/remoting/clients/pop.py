"""Receipts and offsets of POP as text (RocketMQ's ExtraInfoUtil), and records of a retry topic as a client expects them.

    startOffsetInfo   r queueId startOffset            joined by ;   one segment for each (r, queueId): Java fails on two
    msgOffsetInfo     r queueId offset,offset,…        joined by ;   offsets in the order of the body
    orderCountInfo    r queueId count; r qo<queueId>%<offset> count
    POP_CK            ckOffset popTime invisibleTime reviveQid r broker queueId offset

r is 0 for the topic itself, 2 for `%RETRY%group+topic` and 1 for `%RETRY%group_topic`, the name of that in earlier versions.
"""

from __future__ import annotations

from collections.abc import Sequence

from domain import limits
from domain.address import RETRY_PREFIX
from domain.event import Leased
from domain.message import property as properties
from domain.message.receipt import RETRY_NONE, Receipt
from domain.message.record import Record


def offsets(messages: Sequence[Leased]) -> tuple[str, str]:
    """(startOffsetInfo, msgOffsetInfo) of the messages of one reply."""
    starts: dict[tuple[int, int], int] = {}
    listed: dict[tuple[int, int], list[str]] = {}
    for message in messages:
        receipt = message.receipt
        key = (receipt.retry, receipt.queue_id)
        if key in listed:
            listed[key].append(str(receipt.queue_offset))
        else:
            starts[key] = receipt.start_offset
            listed[key] = [str(receipt.queue_offset)]
    start = ";".join([f"{key[0]} {key[1]} {offset}" for key, offset in starts.items()])
    return start, ";".join([f"{key[0]} {key[1]} {','.join(each)}" for key, each in listed.items()])


def order_counts(messages: Sequence[Leased]) -> str:
    """orderCountInfo of an ordered reply: earlier deliveries of each message, and of the first message of each queue."""
    out: list[str] = []
    queues: dict[tuple[int, int], int] = {}
    for message in messages:
        receipt = message.receipt
        out.append(f"{receipt.retry} qo{receipt.queue_id}%{receipt.queue_offset} {message.attempt - 1}")
        queues.setdefault((receipt.retry, receipt.queue_id), message.attempt - 1)
    out.extend(f"{key[0]} {key[1]} {count}" for key, count in queues.items())
    return ";".join(out)


def text(receipt: Receipt) -> str:
    """A receipt as POP_CK: its eight fields, separated by blanks."""
    return (
        f"{receipt.start_offset} {receipt.pop_ms} {receipt.invisible_ms} {receipt.revive_queue} {receipt.retry}"
        f" {receipt.broker} {receipt.queue_id} {receipt.queue_offset}"
    )


def with_receipt(record: bytes, receipt: Receipt, topic: str) -> bytes:
    """The record with topic `topic` and its receipt in property POP_CK.

    Needed where a client cannot compute the receipt from the reply: for messages of the retry topic, which the client expects
    under the topic of its request, and for messages leased at another time than that of the reply.
    """
    view = Record(record)
    stored = view.properties
    if properties.has(stored, properties.POP_CK_START):
        stored = properties.without(stored, (properties.POP_CK,))
    mark = properties.entry(properties.POP_CK, text(receipt))
    stored = properties.cut(stored, limits.PROPERTIES_BYTES_MAX - len(mark)) + mark
    name = topic.encode()
    wide = len(name) > 127
    head = b"".join(
        (
            b"\xda\xa3\x20\xab" if wide else b"\xda\xa3\x20\xa7",
            record[8 : view.topic_at],
            len(name).to_bytes(2 if wide else 1, "big"),
            name,
            len(stored).to_bytes(2, "big"),
            stored,
        )
    )
    return (len(head) + 4).to_bytes(4, "big") + head


def origin_topic(topic: str, group: str, retry: int) -> str:
    """The topic of a POP request, from the topic of an acknowledgement, which may be the group's retry topic."""
    for separator in ("_", "+"):
        prefix = f"{RETRY_PREFIX}{group}{separator}"
        if retry != RETRY_NONE and topic.startswith(prefix) and len(topic) > len(prefix):
            return topic[len(prefix) :]
    return topic
