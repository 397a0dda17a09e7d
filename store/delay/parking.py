"""Parking: delayed messages as messages of a system topic, SCHEDULE_TOPIC_XXXX by level, rmq_sys_wheel_timer by time.

A timer's queue id is its bucket of 2^20 ms (17 minutes). Its index row holds the milliseconds within the bucket, its property
TIMER_OUT_MS the whole due time. The properties REAL_TOPIC and REAL_QID hold the destination.
"""

from __future__ import annotations

from typing import Final

from domain import limits
from domain.address import RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from domain.errors import ErrorCode, Failure
from domain.message import property as properties
from domain.message.message import Message
from domain.message.record import Record

BUCKET_BITS: Final = 20
BUCKET_MASK: Final = (1 << BUCKET_BITS) - 1
LEVELS_MS: Final = (
    1_000, 5_000, 10_000, 30_000, 60_000, 120_000, 180_000, 240_000, 300_000, 360_000, 420_000, 480_000, 540_000, 600_000,
    1_200_000, 1_800_000, 3_600_000, 7_200_000,
)  # fmt: skip
_TIMER_KEYS = (properties.TIMER_DELAY_SEC, properties.TIMER_DELAY_MS, properties.TIMER_DELIVER_MS)
_TIMER_STARTS = (properties.TIMER_DELAY_SEC_START, properties.TIMER_DELAY_MS_START, properties.TIMER_DELIVER_MS_START)
_TIMES = (*_TIMER_KEYS, properties.TIMER_OUT_MS)
_PLACE_KEYS = (properties.REAL_TOPIC, properties.REAL_QID)


def is_parking_topic(topic: str) -> bool:
    """True for the topics that hold parked messages."""
    return topic in (SCHEDULE_TOPIC, TIMER_TOPIC)


def park(message: Message, now_ms: int, after_ms: int) -> Message | Failure:
    """The message to append: `message` itself when it is due, else its parked form, due at `after_ms` or later.

    A level goes before TIMER_*; a level above 18 counts as 18, and 0 as none. Among times, seconds go before milliseconds, and
    these before an instant. A time in the past is due now. A message that was a timer (TIMER_OUT_MS) is not parked again
    (ScheduleMessageService, HookUtils). DELIVERY_TIME_ILLEGAL: not a number, or a delay above limits.DELAY_MS_MAX.
    """
    stored = message.properties
    level_text = properties.find(stored, properties.DELAY_START)
    if level_text:
        level = _number(level_text)
        if level is None:
            return Failure(ErrorCode.DELIVERY_TIME_ILLEGAL, "DELAY is not a number")
        if level > 0:
            return _parked(message, SCHEDULE_TOPIC, min(level, len(LEVELS_MS)) - 1, {})
        message = _with_destination(message, message.topic, message.queue_id, properties.without(stored, (properties.DELAY,)))
    due = None if properties.find(stored, properties.TIMER_OUT_MS_START) else _due(stored, now_ms)
    if due is None:
        return message
    if isinstance(due, Failure):
        return due
    if due - now_ms > limits.DELAY_MS_MAX:
        return Failure(ErrorCode.DELIVERY_TIME_ILLEGAL, "a message can be delayed by at most 366 days")
    return message if due <= now_ms else parked_until(message, max(due, after_ms))


def parked_until(message: Message, due_ms: int) -> Message:
    """`message` as a timer that is due at `due_ms`."""
    return _parked(message, TIMER_TOPIC, due_ms >> BUCKET_BITS, {properties.TIMER_OUT_MS: str(due_ms)})


def _due(stored: bytes, now_ms: int) -> int | Failure | None:
    for key, start, unit in zip(_TIMER_KEYS, _TIMER_STARTS, (1_000, 1, 0), strict=True):
        text = properties.find(stored, start)
        if text:
            number = _number(text)
            if number is None:
                return Failure(ErrorCode.DELIVERY_TIME_ILLEGAL, f"{key} is not a number")
            return number if unit == 0 else now_ms + number * unit
    return None


def _number(text: bytes) -> int | None:
    digits = text[1:] if text[:1] == b"-" else text
    return int(text) if digits.isdigit() and len(digits) <= 18 else None


def _parked(message: Message, topic: str, queue_id: int, values: dict[str, str]) -> Message:
    stored = properties.with_values(
        message.properties,
        {properties.REAL_TOPIC: message.topic, properties.REAL_QID: str(message.queue_id), **values},
    )
    return _with_destination(message, topic, queue_id, stored)


def _with_destination(message: Message, topic: str, queue_id: int, stored: bytes) -> Message:
    return Message(
        topic, message.body, stored, queue_id=queue_id, message_id=message.message_id, sys_flag=message.sys_flag,
        flag=message.flag, born_ms=message.born_ms, born_host=message.born_host, reconsume_times=message.reconsume_times,
        prepared_offset=message.prepared_offset, retain=message.retain,
    )  # fmt: skip


def due_of(stored: bytes) -> int:
    """The due time of a timer in epoch ms, from its properties."""
    return int(properties.find(stored, properties.TIMER_OUT_MS_START) or b"0")


def message_of(record: Record, topic: str, queue_id: int, stored: bytes) -> Message:
    """The message of `record`, with another destination and the properties `stored`."""
    return Message(
        topic, record.body, stored, queue_id=queue_id, message_id=properties.text(stored, properties.UNIQ_KEY),
        sys_flag=record.sys_flag, flag=record.flag, born_ms=record.born_ms, born_host=record.born_host,
        reconsume_times=record.reconsume_times, prepared_offset=record.prepared_offset,
    )  # fmt: skip


def delivered(data: bytes) -> Message:
    """Parked record -> message for its real topic.

    The delay properties that the sender set stay: consumers see them (ScheduleMessageService, TimerMessageStore). Retries lose
    theirs, which the broker has set.
    """
    record = Record(data)
    stored = record.properties
    topic = properties.text(stored, properties.REAL_TOPIC)
    # Earlier versions parked messages without a queue, with the id -1.
    queue_id = max(_number(properties.find(stored, properties.REAL_QID_START)) or 0, 0)
    return message_of(record, topic, queue_id, properties.without(stored, _dropped_keys(topic, stored)))


def _dropped_keys(topic: str, stored: bytes) -> tuple[str, ...]:
    """Properties that a message loses when it is delivered to `topic`."""
    if topic.startswith(RETRY_PREFIX):
        return (*_PLACE_KEYS, properties.DELAY, *_TIMES)
    if properties.find(stored, properties.DELAY_START):
        return (*_PLACE_KEYS, *_TIMES)
    if any(properties.find(stored, start) for start in _TIMER_STARTS):
        return _PLACE_KEYS
    return (*_PLACE_KEYS, properties.TIMER_OUT_MS)
