"""Reads of the records of a queue at a broker: PULL_MESSAGE (11) and its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from domain.errors import ErrorCode, Failure
from domain.message import record
from domain.octets import uint64
from domain.store.store_ports import ReadResult
from gateway.brokers.broker_links import Brokers
from gateway.brokers.empty_body import restored
from gateway.brokers.queue_numbers import BrokerQueue
from gateway.brokers.refusal import BrokerAnswerError, refusal
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

READER_GROUP: Final = "TOOLS_CONSUMER"
"""The consumer group of reads by offset. Every broker has it; no position is stored for it."""
_SUSPEND: Final = 2
_SUBSCRIPTION: Final = 4
LATER_MS: Final = 10_000
"""By how much clocks of brokers may differ. See `placed`."""


def pull_request(topic: str, queue: BrokerQueue, offset: int, limit: int, max_bytes: int, hold_ms: int = 0) -> Request:
    """Records from `offset` on. `hold_ms`: time for which the broker holds the request while there are none."""
    fields = {
        "consumerGroup": READER_GROUP, "topic": topic, "queueId": str(queue.queue_id), "queueOffset": str(offset),
        "maxMsgNums": str(limit), "sysFlag": str(_SUBSCRIPTION | (_SUSPEND if hold_ms else 0)), "commitOffset": "0",
        "suspendTimeoutMillis": str(hold_ms), "subscription": "*", "subVersion": "0", "expressionType": "TAG",
        "maxMsgBytes": str(max_bytes), "bname": queue.broker,
    }  # fmt: skip
    return Request(codes.PULL, fields)


def placed(data: bytes, place: int, position: int) -> bytes:
    """A record under the domain's queue id, and with `position` in place of its offset in the broker's log.

    Offsets in the logs of several brokers do not compare. What decides by them whether a message is older than a subscription
    gets the store time instead; a message that is read again, LATER_MS later: it is given rather once more than not at all.
    """
    return b"".join(
        (data[:12], place.to_bytes(4, "big"), data[16:28], position.to_bytes(8, "big"), data[36:])
    )  # fmt: skip


def pulled(broker: str, frame: Frame, place: int, offset: int, live: bool = False) -> ReadResult | Failure:
    """The answer to a pull. `live`: its records arrive for the first time. STORE_UNAVAILABLE for what cannot be read."""
    status = _STATUS.get(frame.code)
    if status is None:
        return refusal(broker, frame)
    try:
        next_offset, first, end = (_number(frame, name) for name in ("nextBeginOffset", "minOffset", "maxOffset"))
        records = _records(frame.body, place, live) if status == "FOUND" else []
    except BrokerAnswerError as error:
        return Failure(ErrorCode.STORE_UNAVAILABLE, f"broker {broker} answered a read with {error}")
    if status == "MOVED":
        status = "TOO_SMALL" if offset < first else "TOO_LARGE"
    return ReadResult(status, records, next_offset, first, end)


_STATUS: Final[Mapping[int, str]] = {
    codes.SUCCESS: "FOUND",
    codes.PULL_NOT_FOUND: "EMPTY",
    codes.PULL_RETRY_IMMEDIATELY: "NO_MATCH",
    codes.PULL_OFFSET_MOVED: "MOVED",
}


def _records(body: bytes, place: int, live: bool) -> list[bytes]:
    found: list[bytes] = []
    for data in split(body):
        at = 68 if data[39] & 0x10 else 56
        stored_ms = uint64(data, at)
        found.append(placed(data, place, stored_ms if live else stored_ms + LATER_MS))
    return found


def split(body: bytes) -> list[bytes]:
    """Records one after the other -> the records, each checked, without marked bodies. Raises BrokerAnswerError."""
    found: list[bytes] = []
    at, end = 0, len(body)
    while at < end:
        size = int.from_bytes(body[at : at + 4], "big")
        data = body[at : at + size]
        if not record.check(data):
            raise BrokerAnswerError(f"a record that is damaged, {at} bytes behind the first of {len(found) + 1}")
        found.append(restored(data))
        at += size
    return found


def _number(frame: Frame, name: str) -> int:
    text = (frame.fields() or {}).get(name, "")
    try:
        value = int(text)
    except ValueError:
        raise BrokerAnswerError(f"no number {name}") from None
    if not -1 <= value < 1 << 63:
        raise BrokerAnswerError(f"{name} {value}")
    return max(value, 0)


def ask_number(
    servers: Brokers, topic: str, queue: BrokerQueue, code: int, more: dict[str, str], done: Callable[[int | Failure], None]
) -> None:
    """Ask a broker for one offset of one queue."""

    def answered(answer: Frame | Failure) -> None:
        if isinstance(answer, Failure):
            done(answer)
            return
        text = (answer.fields() or {}).get("offset", "")
        if answer.code != codes.SUCCESS:
            done(refusal(queue.broker, answer))
        elif not text.lstrip("-").isdigit() or len(text) > 20:
            done(Failure(ErrorCode.STORE_UNAVAILABLE, f"broker {queue.broker} answered without an offset"))
        else:
            done(max(int(text), 0))

    fields = {"topic": topic, "queueId": str(queue.queue_id), "bname": queue.broker, **more}
    servers.ask(queue.broker, Request(code, fields), answered)
