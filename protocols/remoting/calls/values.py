"""Codecs of the values that the ports of the store take and give: their fields, one after the other."""

from __future__ import annotations

import struct
from typing import Any, Final

import msgspec

from domain.delivery import retry_owner
from domain.errors import ErrorCode, Failure
from domain.event import Leased
from domain.filter.expression import Expressions
from domain.filter.filter import PATH, RETRY, Filter
from domain.filter.path_filter import PathFilter
from domain.message import Message, Placed
from domain.once import OnceKey
from domain.receipt import Receipt
from domain.store_ports import Expected, LeaseResult, ReadResult, SpaceLimit, StateChange, StatePairs
from domain.store_request import KeyQuery, LeaseRequest, PullRequest, ReadRequest
from domain.topic import Group, Topic
from protocols.remoting.calls.octets import (
    BOOL,
    DATA,
    I32,
    I64,
    TEXT,
    Codec,
    Out,
    Reader,
    WireError,
    listed,
    made,
    optional,
    put_data,
    put_text,
)

_MESSAGE: Final = struct.Struct(">iiiqiqB")
_FAILURE: Final = struct.Struct(">i?")
_PLACED: Final = struct.Struct(">iqqq")
_RECEIPT: Final = struct.Struct(">qqqiBiqq")
_COPIES: Final = "flush-timeout-of-copies"
"""FLUSH_TIMEOUT with `copies`. An earlier version takes it for INTERNAL, which clients may repeat too."""
_expressions: Final = Expressions()


def _put_failure(out: Out, value: Failure) -> None:
    put_text(out, _COPIES if value.copies else value.code.value)
    put_text(out, value.text)
    out.append(_FAILURE.pack(value.word, value.denied))


def _get_failure(reader: Reader) -> Failure:
    code, text = reader.text(), reader.text()
    word, denied = reader.unpack(_FAILURE)
    if code == _COPIES:
        return Failure(ErrorCode.FLUSH_TIMEOUT, text, word, bool(denied), copies=True)
    try:
        return Failure(ErrorCode(code), text, word, bool(denied))
    except ValueError:
        return Failure(ErrorCode.INTERNAL, f"{code}: {text}")  # a code of a later version


FAILURE: Final[Codec[Failure]] = Codec(_put_failure, _get_failure)


def _put_message(out: Out, value: Message) -> None:
    numbers = value.queue_id, value.sys_flag, value.flag, value.born_ms, value.reconsume_times, value.prepared_offset
    out.append(_MESSAGE.pack(*numbers, value.retain))
    put_text(out, value.topic)
    put_text(out, value.message_id)
    put_data(out, value.born_host)
    put_data(out, value.properties)
    put_data(out, value.body)


def _get_message(reader: Reader) -> Message:
    queue_id, sys_flag, flag, born_ms, reconsume_times, prepared_offset, retain = reader.unpack(_MESSAGE)
    topic, message_id, born_host = reader.text(), reader.text(), reader.data()
    if len(born_host) not in (8, 20):
        raise WireError(f"the address of a sender has {len(born_host)} bytes")
    stored = reader.data()
    return Message(
        topic, reader.data(), stored, queue_id=queue_id, message_id=message_id, sys_flag=sys_flag, flag=flag, born_ms=born_ms,
        born_host=born_host, reconsume_times=reconsume_times, prepared_offset=prepared_offset, retain=retain,
    )  # fmt: skip


MESSAGE: Final[Codec[Message]] = Codec(_put_message, _get_message)
MESSAGES: Final = listed(MESSAGE)


def _put_placed(out: Out, value: Placed) -> None:
    out.append(_PLACED.pack(value.queue_id, value.queue_offset, value.physical_offset, value.store_ms))
    put_text(out, value.message_id)
    put_text(out, value.recall_handle)


def _get_placed(reader: Reader) -> Placed:
    queue_id, queue_offset, physical_offset, store_ms = reader.unpack(_PLACED)
    return Placed(queue_id, queue_offset, physical_offset, store_ms, reader.text(), reader.text())


PLACED_ONE: Final[Codec[Placed]] = Codec(_put_placed, _get_placed)
PLACED: Final = listed(PLACED_ONE)


def _put_receipt(out: Out, value: Receipt) -> None:
    out.append(
        _RECEIPT.pack(
            value.start_offset, value.pop_ms, value.invisible_ms, value.revive_queue, value.retry, value.queue_id,
            value.queue_offset, value.physical_offset,
        )
    )  # fmt: skip
    put_text(out, value.broker)


def _get_receipt(reader: Reader) -> Receipt:
    start, pop_ms, invisible_ms, revive, retry, queue_id, queue_offset, physical = reader.unpack(_RECEIPT)
    return Receipt(start, pop_ms, invisible_ms, revive, retry, reader.text(), queue_id, queue_offset, physical)


RECEIPT: Final[Codec[Receipt]] = Codec(_put_receipt, _get_receipt)
RECEIPTS: Final = listed(RECEIPT)
OUTCOMES: Final = listed(optional(FAILURE))


def _put_extended(out: Out, value: Receipt | Failure) -> None:
    failed = isinstance(value, Failure)
    BOOL.put(out, failed)
    if isinstance(value, Failure):
        _put_failure(out, value)
    else:
        _put_receipt(out, value)


EXTENDED: Final[Codec[list[Receipt | Failure]]] = listed(
    Codec(_put_extended, lambda reader: _get_failure(reader) if BOOL.get(reader) else _get_receipt(reader))
)
LEASED: Final = made((DATA, RECEIPT, I32), Leased, lambda value: (value.record, value.receipt, value.attempt))
LEASE_RESULT: Final = made(
    (listed(LEASED), I64, I64, BOOL),
    LeaseResult,
    lambda value: (value.messages, value.pop_ms, value.remaining, value.unfinished),
)
READ_RESULT: Final = made(
    (TEXT, listed(DATA), I64, I64, I64, I64),
    ReadResult,
    lambda value: (value.status, value.records, value.next_offset, value.min_offset, value.max_offset, value.pop_ms),
)
LIMIT: Final = made((I64, I64), SpaceLimit, lambda value: (value.keys_max, value.bytes_max))


def _change(space: str, key: bytes, value: bytes | None, within: SpaceLimit | None) -> StateChange:
    return StateChange(space, key, value, within=within)


CHANGE: Final = made(
    (TEXT, DATA, optional(DATA), optional(LIMIT)),
    _change,
    lambda value: (value.space, value.key, value.value, value.within),
)
CHANGES: Final = listed(CHANGE)
EXPECTED: Final = listed(made((TEXT, DATA, optional(DATA)), Expected, lambda value: (value.space, value.key, value.value)))
PAIR: Final = made((DATA, DATA), lambda key, value: (key, value), lambda pair: pair)
STATE_PAIRS: Final = made((listed(PAIR), optional(DATA)), StatePairs, lambda value: (value.pairs, value.next_key))
ONCE_KEY: Final = made((TEXT, DATA, DATA), OnceKey, lambda value: value)


def _put_filter(out: Out, value: Filter | None) -> None:
    kind, text = ("", "") if value is None else value.expression
    put_text(out, kind)
    put_text(out, text)


def _get_filter(reader: Reader) -> Filter | None:
    kind, text = reader.text(), reader.text()
    if kind != RETRY:
        return _filter(kind, text)
    try:
        return retry_owner.parse(text, _filter)
    except ValueError as error:
        raise WireError(f"a filter cannot be read: {error}") from error


def _filter(kind: str, text: str) -> Filter | None:
    if kind == PATH:
        topic, *patterns = text.split("\x00")
        return PathFilter(topic, patterns)
    found = _expressions.compile(kind, text)
    if isinstance(found, Failure):
        raise WireError(f"a filter cannot be read: {found.text}")
    return found


FILTER: Final[Codec[Filter | None]] = Codec(_put_filter, _get_filter)
READ: Final = made(
    (TEXT, I32, I64, I32, I32, FILTER),
    ReadRequest,
    lambda value: (value.topic, value.queue_id, value.offset, value.limit, value.max_bytes, value.wanted),
)
PULL: Final = made(
    (TEXT, TEXT, TEXT, READ), PullRequest, lambda value: (value.group, value.member, value.retry_topic, value.read)
)


def _lease(*fields: Any) -> LeaseRequest:
    group, topic, limit, invisible_ms, queue_id, wanted, from_first, ordered, attempt_id, fleeting = fields
    return LeaseRequest(
        group, topic, limit, invisible_ms, queue_id=queue_id, wanted=wanted, from_first=from_first, ordered=ordered,
        attempt_id=attempt_id, fleeting=fleeting,
    )  # fmt: skip


LEASE: Final = made(
    (TEXT, TEXT, I32, I64, I32, FILTER, BOOL, BOOL, TEXT, BOOL),
    _lease,
    lambda value: (
        value.group, value.topic, value.limit, value.invisible_ms, value.queue_id, value.wanted, value.from_first,
        value.ordered, value.attempt_id, value.fleeting,
    ),
)  # fmt: skip
KEY_QUERY: Final = made(
    (TEXT, TEXT, I64, I64, I32, I32, BOOL),
    KeyQuery,
    lambda value: (value.topic, value.key, value.begin_ms, value.end_ms, value.limit, value.max_bytes, value.unique),
)
OFFSETS: Final = listed(made((TEXT, I32, I64), lambda topic, queue_id, offset: (topic, queue_id, offset), lambda value: value))
BOUNDS: Final = made((I64, I64), lambda first, end: (first, end), lambda value: value)


def _json(kind: Any) -> Codec[Any]:
    """Codec of a topic or group: JSON behind its length, 4 bytes. Fields that this version does not know are ignored."""

    def get(reader: Reader) -> Any:
        try:
            return msgspec.json.decode(reader.data(), type=kind)
        except msgspec.MsgspecError as error:
            raise WireError(f"a {kind.__name__} cannot be read: {error}") from error

    return Codec(lambda out, value: put_data(out, msgspec.json.encode(value)), get)


TOPIC: Final[Codec[Topic]] = _json(Topic)
GROUP: Final[Codec[Group]] = _json(Group)
