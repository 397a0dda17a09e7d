"""Requests that send messages to a broker, and what it answers: SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from domain.address import TEMPLATE_TOPIC
from domain.errors import ErrorCode, Failure
from domain.message import property as properties
from domain.message.message import SYS_COMPRESSED, SYS_COMPRESSION_MASK, SYS_PREPARED, Message, Placed
from gateway.brokers.empty_body import sendable
from gateway.brokers.queue_numbers import BrokerQueue
from gateway.brokers.refusal import refusal
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

PRODUCER_GROUP: Final = "HEADGATE"
"""Producer group of messages that name none, and of recalls."""
SLAVE_NOT_AVAILABLE: Final = 11
FLUSH_SLAVE_TIMEOUT: Final = 12
UNSURE: Final = {
    codes.FLUSH_DISK_TIMEOUT: "has stored the message and does not know yet that it is on the disk",
    SLAVE_NOT_AVAILABLE: "has stored the message and has no replica to copy it to",
    FLUSH_SLAVE_TIMEOUT: "has stored the message and does not know yet that a replica has it",
}
"""Responses that are a success for RocketMQ: the message is stored, and what the cluster's settings promise does not hold."""
_OF_REPLICAS: Final = frozenset({SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT})
BATCH_BYTES_MAX: Final = 1024 * 1024
"""Bytes of messages that are sent as one batch."""

_ENTRY = struct.Struct(">iiiii")
_SHORT = struct.Struct(">h")


def illegal(message: Message) -> Failure | None:
    """MESSAGE_ILLEGAL for a message whose properties would not arrive as they are; None: they will.

    A broker reads the properties of a single send as text, and replaces what is not UTF-8. Those of a batch are bytes for it:
    such a message goes as a batch of one, which can hold neither half nor delayed messages.
    """
    if _text(message.properties) is not None or _is_plain(message):
        return None
    text = "properties that are not UTF-8 cannot be sent to Apache RocketMQ with a delayed, half, compressed or retried message"
    return Failure(ErrorCode.MESSAGE_ILLEGAL, text)


def _text(stored: bytes) -> str | None:
    """Properties as text; None: they are not UTF-8."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return None


def batched(messages: Sequence[Message]) -> list[list[Message]]:
    """The messages in order, those that may go as one batch together: of one topic and queue, neither half nor delayed."""
    runs: list[list[Message]] = []
    size = 0
    for message in messages:
        size += len(message.body) + len(message.properties)
        if runs and size <= BATCH_BYTES_MAX and _alike(runs[-1][0], message):
            runs[-1].append(message)
        else:
            runs.append([message])
            size = len(message.body) + len(message.properties)
    return runs


def _alike(first: Message, other: Message) -> bool:
    return (
        first.topic == other.topic
        and first.queue_id == other.queue_id
        and first.born_ms == other.born_ms
        and first.topic[:1] != "%"
        and _is_plain(first)
        and _is_plain(other)
    )


def _is_plain(message: Message) -> bool:
    kind = properties.message_type(message.properties)
    return message.sys_flag == 0 and message.reconsume_times == 0 and kind in ("NORMAL", "FIFO")


def send_request(messages: Sequence[Message], queue: BrokerQueue) -> Request:
    """The request for one message that is not `illegal`, or for several that `batched` has put together.

    Bodies and properties are passed byte for byte; a message without a body has the marked one.
    """
    first = messages[0]
    body, stored = sendable(first)
    group = properties.text(stored, properties.PGROUP) or PRODUCER_GROUP
    if first.sys_flag & SYS_PREPARED and not properties.has(stored, properties.TRAN_MSG_START):
        stored = properties.terminated(stored) + properties.TRAN_MSG_START + b"true" + properties.ENTRY_END
    text = _text(stored) if len(messages) == 1 else None
    fields = {
        "a": group,
        "b": first.topic,
        "c": TEMPLATE_TOPIC,
        "d": "4",
        "e": str(queue.queue_id),
        "f": str(first.sys_flag & (SYS_COMPRESSED | SYS_COMPRESSION_MASK)),
        "g": str(first.born_ms),
        "h": str(first.flag),
        "i": text or "",
        "j": str(first.reconsume_times),
        "k": "false",
        "m": "true" if text is None else "false",
        "n": queue.broker,
    }
    if text is not None:
        return Request(codes.SEND_V2, fields, body)
    return Request(codes.SEND_BATCH, fields, b"".join(_entry(message) for message in messages))


def _entry(message: Message) -> bytes:
    body, stored = sendable(message)
    head = _ENTRY.pack(22 + len(body) + len(stored), 0, 0, message.flag, len(body))
    return b"".join((head, body, _SHORT.pack(len(stored)), stored))


def sent(broker: str, frame: Frame, messages: Sequence[Message], place: int, now_ms: int) -> list[Placed] | Failure:
    """The answer of a broker. FLUSH_TIMEOUT: stored, and what the cluster promises does not hold; else nothing was stored."""
    if frame.code in UNSURE:
        text = f"broker {broker} {UNSURE[frame.code]}"
        return Failure(ErrorCode.FLUSH_TIMEOUT, text, copies=frame.code in _OF_REPLICAS)
    if frame.code != codes.SUCCESS:
        return refusal(broker, frame)
    fields = frame.fields() or {}
    offset = fields.get("queueOffset", "")
    ids = fields.get("msgId", "").split(",")
    if not offset.isdigit() or len(offset) > 19:
        return Failure(ErrorCode.FLUSH_TIMEOUT, f"broker {broker} answered a send without telling where the message is")
    handle = fields.get("recallHandle", "")
    return [
        Placed(place, int(offset) + at, _position(ids[at] if at < len(ids) else ""), now_ms, message.message_id, handle)
        for at, message in enumerate(messages)
    ]


def _position(offset_id: str) -> int:
    """The physical offset in an offset id; 0 when it is none."""
    try:
        return int(offset_id[-16:], 16) if len(offset_id) in (32, 56) else 0
    except ValueError:
        return 0
