"""Answer of a broker to POP_MESSAGE: messages with their receipts (RocketMQ's MQClientAPIImpl.processPopResponse).

Receipts are built from the first offset of each (retry flag, queue), which the broker reports; messages of a retry topic carry
their receipt in the property POP_CK. The body is a sequence of records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.address import RETRY_PREFIX
from domain.event import Leased
from domain.message import property as properties
from domain.message import receipt as receipts
from domain.message.receipt import RETRY_NONE, RETRY_V1, RETRY_V2, Receipt
from domain.message.record import MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN, Record, renamed, with_properties, with_reconsume_times
from domain.octets import uint16, uint32
from gateway.brokers.empty_body import restored
from gateway.brokers.refusal import BrokerAnswerError
from protocols.remoting.wire.frame import Frame

DIGITS_MAX: Final = 19


def read(frame: Frame, broker: str, topic: str, ordered: bool) -> list[Leased]:
    """The messages of an answer with code SUCCESS, in order. Raises BrokerAnswerError for a malformed answer."""
    fields = frame.fields()
    if fields is None:
        raise BrokerAnswerError("ext fields that cannot be read")
    pop_ms = _number(fields, "popTime")
    invisible_ms = _number(fields, "invisibleTime")
    revive = _number(fields, "reviveQid")
    starts = _segments(fields.get("startOffsetInfo", ""))
    counts = _segments(fields.get("orderCountInfo", "")) if ordered else {}
    wanted = topic.encode()
    first: dict[int, int] = {}
    found: list[Leased] = []
    for record in _records(frame.body):
        data = record.data
        at = record.properties_at
        plain = at - record.topic_at == 3 + len(wanted) and data.startswith(wanted, record.topic_at + 1)
        if counts or not plain or data.find(properties.POP_CK_START, at) >= 0:
            found.append(_seldom(record, broker, topic, (pop_ms, invisible_ms, revive), starts, counts))
            continue
        queue_id = record.queue_id
        offset = record.queue_offset
        start = first.get(queue_id, -1)
        if start < 0:
            start = first[queue_id] = starts.get(f"0 {queue_id}", offset)
        receipt = Receipt(start, pop_ms, invisible_ms, revive, 0, broker, queue_id, offset, record.physical_offset)
        found.append(Leased(data, receipt, record.reconsume_times + 1))
    return found


def _seldom(
    record: Record,
    broker: str,
    topic: str,
    lease: tuple[int, int, int],
    starts: dict[str, int],
    counts: Mapping[str, int],
) -> Leased:
    """A message of an ordered group or a retry topic. `lease`: pop time, invisible time and revive queue of the answer."""
    data, stored, name = record.data, record.properties, _topic(record)
    receipt = None
    if properties.has(stored, properties.POP_CK_START):
        receipt = receipts.parse(properties.text(stored, properties.POP_CK))
        stored = properties.without(stored, (properties.POP_CK,))
        data = with_properties(data, stored)
    if receipt is None:
        retry = _flag(name)
        start = starts.setdefault(f"{retry} {record.queue_id}", record.queue_offset)
        receipt = Receipt(start, *lease, retry, broker, record.queue_id, record.queue_offset)
    receipt.physical_offset = record.physical_offset
    attempt = record.reconsume_times + 1
    if counts:
        place = f"{receipt.retry} qo{receipt.queue_id}%{receipt.queue_offset}"
        again = counts.get(place) or counts.get(f"{receipt.retry} {receipt.queue_id}") or 0
        if again > 0:
            attempt = again + 1
            data = with_reconsume_times(data, again)
    return Leased(renamed(data, topic, stored) if name != topic else data, receipt, attempt)


def rest(frame: Frame) -> int:
    """Approximate number of further messages that the broker has for the group; 0 when it is not reported."""
    text = (frame.fields() or {}).get("restNum", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX else 0


def _flag(topic: str) -> int:
    if not topic.startswith(RETRY_PREFIX):
        return RETRY_NONE
    return RETRY_V2 if "+" in topic else RETRY_V1


def _topic(record: Record) -> str:
    try:
        return record.topic
    except UnicodeDecodeError as error:
        raise BrokerAnswerError("a topic that is no UTF-8") from error


def _records(body: bytes) -> list[Record]:
    """The records of a body. Raises BrokerAnswerError for a truncated or malformed record, since frames arrive complete."""
    found: list[Record] = []
    at, size = 0, len(body)
    while at < size:
        total = uint32(body, at) if at + RECORD_BYTES_MIN <= size else 0
        record = _record(body[at : at + total]) if RECORD_BYTES_MIN <= total <= size - at else None
        if record is None:
            raise BrokerAnswerError(f"what is no record, {at} bytes behind the start of the body")
        found.append(record)
        at += total
    return found


def _record(data: bytes) -> Record | None:
    """A view of one record with consistent lengths; None: it is malformed."""
    if uint32(data, 4) not in (MAGIC_V1, MAGIC_V2):
        return None
    try:
        record = Record(data)
        at = record.properties_at
        if at + uint16(data, at - 2) != len(data):
            return None
        whole = restored(data)
        return record if whole is data else Record(whole)
    except IndexError:
        return None


def _segments(text: str) -> dict[str, int]:
    """`0 3 120;1 0 5` -> {"0 3": 120, "1 0": 5}."""
    found: dict[str, int] = {}
    if text:
        for segment in text.split(";"):
            name, _, value = segment.rpartition(" ")
            if not value.isascii() or not value.isdigit() or len(value) > DIGITS_MAX:
                raise BrokerAnswerError(f"an offset that is none: {segment[:60]!r}")
            found[name] = int(value)
    return found


def _number(fields: Mapping[str, str], name: str) -> int:
    text = fields.get(name, "")
    if not text.isascii() or not text.isdigit() or len(text) > DIGITS_MAX:
        raise BrokerAnswerError(f"a field {name} that is no number: {text[:60]!r}")
    return int(text)
