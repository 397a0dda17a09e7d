"""Codecs of values whose form `forwarding/shape.py` does not derive from their class: their fields, one after the other."""

from __future__ import annotations

import struct
from typing import Final

from domain.delivery import retry_owner
from domain.errors import ErrorCode, Failure
from domain.filter.expression import Expressions
from domain.filter.filter import PATH, RETRY, Filter
from domain.filter.stored_path_filter import PathFilter
from domain.message.message import Message, Placed
from domain.message.receipt import Receipt
from protocols.remoting.nodes.calls.octets import Codec, Out, Reader, WireError, put_data, put_text

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


def _put_placed(out: Out, value: Placed) -> None:
    out.append(_PLACED.pack(value.queue_id, value.queue_offset, value.physical_offset, value.store_ms))
    put_text(out, value.message_id)
    put_text(out, value.recall_handle)


def _get_placed(reader: Reader) -> Placed:
    queue_id, queue_offset, physical_offset, store_ms = reader.unpack(_PLACED)
    return Placed(queue_id, queue_offset, physical_offset, store_ms, reader.text(), reader.text())


PLACED: Final[Codec[Placed]] = Codec(_put_placed, _get_placed)


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
