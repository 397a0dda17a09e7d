"""Requests for leases to a broker: POP_MESSAGE, NOTIFICATION, ACK_MESSAGE, BATCH_ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME.

RocketMQ's PopMessageRequestHeader, NotificationRequestHeader, AckMessageRequestHeader, BatchAckMessageRequestBody,
ChangeInvisibleTimeRequestHeader. Times count from the broker's clock (`bornTime` 0).
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable
from typing import Final

import orjson

from domain.address import RETRY_PREFIX
from domain.message.receipt import RETRY_V2, Receipt
from gateway.link.request import Request
from protocols.remoting import codes

ACK_SPAN_MAX: Final = 4_096
"""Largest distance of an acknowledged offset from the first offset of its lease in a batch, where it is a bit in a set."""


def pop(
    group: str,
    topic: str,
    queue_id: int,
    limit: int,
    invisible_ms: int,
    expression: tuple[str, str] | None,
    from_first: bool,
    ordered: bool,
    attempt_id: str,
) -> Request:
    """POP_MESSAGE: lease up to `limit` messages without a wait. `queue_id` -1: from any queue of the broker."""
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "maxMsgNums": str(limit),
        "invisibleTime": str(invisible_ms),
        "pollTime": "0",
        "bornTime": "0",
        "initMode": "0" if from_first else "1",
        "order": "true" if ordered else "false",
    }
    if expression is not None:
        fields["expType"], fields["exp"] = expression
    if attempt_id:
        fields["attemptId"] = attempt_id
    return Request(codes.POP, fields)


def notification(
    group: str, topic: str, queue_id: int, poll_ms: int, expression: tuple[str, str] | None, ordered: bool
) -> Request:
    """NOTIFICATION: the broker answers when a POP would find messages, after `poll_ms` at the latest."""
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "pollTime": str(poll_ms),
        "bornTime": "0",
        "order": "true" if ordered else "false",
    }
    if expression is not None:
        fields["expType"], fields["exp"] = expression
    return Request(codes.NOTIFICATION, fields)


def acknowledge(group: str, topic: str, receipt: Receipt) -> Request:
    """ACK_MESSAGE for one lease."""
    return Request(codes.ACK, _of_lease(group, topic, receipt))


def acknowledge_batch(broker: str, leases: Iterable[tuple[str, str, Receipt]]) -> Request:
    """BATCH_ACK_MESSAGE for leases (group, topic, receipt). Each receipt has to be `batchable`."""
    sets: dict[tuple[str, str, int, int, int, int, int, int], int] = {}
    for group, topic, receipt in leases:
        key = (
            group, origin_of(group, topic), receipt.retry, receipt.start_offset, receipt.queue_id, receipt.revive_queue,
            receipt.pop_ms, receipt.invisible_ms,
        )  # fmt: skip
        sets[key] = sets.get(key, 0) | 1 << receipt.queue_offset - receipt.start_offset
    acks = [
        {
            "c": group, "t": topic, "r": str(retry), "so": start, "q": queue_id, "rq": revive, "pt": pop_ms, "it": invisible_ms,
            "b": binascii.b2a_base64(bits.to_bytes(bits.bit_length() + 7 >> 3, "little"), newline=False).decode(),
        }
        for (group, topic, retry, start, queue_id, revive, pop_ms, invisible_ms), bits in sets.items()
    ]  # fmt: skip
    return Request(codes.BATCH_ACK, {"bname": broker}, orjson.dumps({"acks": acks, "brokerName": broker}))


def change_invisible(group: str, topic: str, receipt: Receipt, invisible_ms: int) -> Request:
    """CHANGE_MESSAGE_INVISIBLETIME: the lease ends `invisible_ms` from now."""
    fields = _of_lease(group, topic, receipt)
    fields["invisibleTime"] = str(invisible_ms)
    return Request(codes.CHANGE_INVISIBLE, fields)


def send_back_to_dead_letters(group: str, topic: str, receipt: Receipt, message_id: str) -> Request:
    """CONSUMER_SEND_MSG_BACK: copy a leased message to the dead-letter topic of `group`, as Apache's proxy does."""
    return Request(
        codes.SEND_BACK,
        {
            "offset": str(receipt.physical_offset),
            "group": group,
            "delayLevel": "-1",
            "originMsgId": message_id,
            "originTopic": real_topic(group, topic, receipt),
            "unitMode": "false",
            "maxReconsumeTimes": "0",
        },
    )


def _of_lease(group: str, topic: str, receipt: Receipt) -> dict[str, str]:
    return {
        "consumerGroup": group,
        "topic": real_topic(group, topic, receipt),
        "queueId": str(receipt.queue_id),
        "extraInfo": receipt.text(),
        "offset": str(receipt.queue_offset),
    }


def origin_of(group: str, topic: str) -> str:
    """The topic that clients know: `topic`, or its origin if it is the group's retry topic for another one."""
    prefix = f"{RETRY_PREFIX}{group}"
    if topic.startswith(prefix) and topic[len(prefix) : len(prefix) + 1] in ("_", "+") and len(topic) > len(prefix) + 1:
        return topic[len(prefix) + 1 :]
    return topic


def real_topic(group: str, topic: str, receipt: Receipt) -> str:
    """The topic in whose queue a leased message is: `%RETRY%group_topic`, `%RETRY%group+topic`, or the topic itself.

    RocketMQ's ExtraInfoUtil.getRealTopic.
    """
    if receipt.retry == 0:
        return topic
    origin = origin_of(group, topic)
    if origin == topic and topic.startswith(RETRY_PREFIX):
        return topic
    return f"{RETRY_PREFIX}{group}{'+' if receipt.retry == RETRY_V2 else '_'}{origin}"


def is_own_retry_topic(group: str, topic: str) -> bool:
    """True for the group's own retry topic of another topic: brokers read it together with that topic."""
    return origin_of(group, topic) != topic


def batchable(receipt: Receipt) -> bool:
    """True when a receipt can be in a batch (ACK_SPAN_MAX). A forged receipt may have any offset."""
    return 0 <= receipt.queue_offset - receipt.start_offset <= ACK_SPAN_MAX
