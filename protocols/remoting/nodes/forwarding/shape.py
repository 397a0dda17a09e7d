"""The encoding of values of any type of the domain between nodes: codecs made from the annotations of their classes."""

from __future__ import annotations

import enum
import struct
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import Any, Final

from domain.access.principal import Principal
from domain.client.mqtt_session import MqttSubscription
from domain.delivery.routed import Delivery, RoutedRecord
from domain.errors import Failure
from domain.filter.filter import Filter
from domain.message.message import Message, Placed
from domain.message.receipt import Receipt
from domain.message.record import Record
from protocols.remoting.nodes.calls import values
from protocols.remoting.nodes.calls.octets import (
    BOOL,
    DATA,
    I64,
    NOTHING,
    TEXT,
    Codec,
    Out,
    Reader,
    WireError,
    listed,
    made,
    optional,
    put_count,
    put_data,
    put_text,
)

_FIXED: Final[Mapping[Any, str]] = {int: "q", bool: "?", float: "d"}
_DOUBLE: Final = struct.Struct(">d")
_DELIVERY: Final = struct.Struct(">BBH??")
LEFT_OUT: Final = frozenset({"ticket", "principal"})
"""Fields of commands and events that do not go between nodes: each node has its own."""


def _subscription(*given: Any) -> MqttSubscription:
    pattern, group, level, no_local, as_published, retain_handling, identifier, since = given
    return MqttSubscription(pattern, level, no_local, as_published, retain_handling, identifier, since, group)


def _put_delivery(out: Out, value: Delivery) -> None:
    routed = value.routed
    out.append(_DELIVERY.pack(value.level, routed.level, value.slot, value.retained, value.duplicate))
    put_text(out, routed.path)
    put_data(out, routed.record.data)
    _IDENTIFIERS.put(out, list(value.identifiers))


def _get_delivery(reader: Reader) -> Delivery:
    level, routed_level, slot, retained, duplicate = reader.unpack(_DELIVERY)
    path = reader.text()
    try:
        record = Record(reader.data())
        routed = RoutedRecord(record, record.properties, path, routed_level)
    except (IndexError, struct.error) as error:
        raise WireError(f"a record is none: {error}") from error
    return Delivery(routed, level, slot, bool(retained), bool(duplicate), tuple(_IDENTIFIERS.get(reader)))


_IDENTIFIERS: Final = listed(I64)
_KNOWN: Final[dict[Any, Codec[Any]]] = {
    int: I64,
    bool: BOOL,
    float: Codec(lambda out, value: out.append(_DOUBLE.pack(value)), lambda reader: reader.unpack(_DOUBLE)[0]),
    str: TEXT,
    bytes: DATA,
    types.NoneType: NOTHING,
    Failure: values.FAILURE,
    Message: values.MESSAGE,
    Placed: values.PLACED,
    Receipt: values.RECEIPT,
    Filter | None: values.FILTER,
    Delivery: Codec(_put_delivery, _get_delivery),
    MqttSubscription: made(
        (TEXT, TEXT, I64, BOOL, BOOL, I64, I64, I64),
        _subscription,
        lambda value: (
            value.pattern, value.group, value.level, value.no_local, value.as_published, value.retain_handling,
            value.identifier, value.since,
        ),
    ),
}  # fmt: skip


def codec_of(hint: Any) -> Codec[Any]:
    """The codec of a type. Raises TypeError for a type that cannot go between nodes."""
    found = _KNOWN.get(hint)
    if found is None:
        found = _KNOWN[hint] = _composed(hint)
    return found


def _composed(hint: Any) -> Codec[Any]:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        others = [each for each in inner if each is not types.NoneType]
        codec = codec_of(others[0]) if len(others) == 1 else _union(others)
        return optional(codec) if len(others) < len(inner) else codec
    if origin is tuple:
        if inner[-1] is Ellipsis:
            items = listed(codec_of(inner[0]))
            return Codec(lambda out, value: items.put(out, list(value)), lambda reader: tuple(items.get(reader)))
        return made(tuple(codec_of(each) for each in inner), lambda *parts: parts, lambda value: value)
    if origin in (list, Sequence):
        return listed(codec_of(inner[0]))
    if origin in (dict, Mapping):
        return _mapping(codec_of(inner[0]), codec_of(inner[1]))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enum(hint)
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        return fields_of(hint, list(typing.get_type_hints(hint).items()))
    if isinstance(hint, type) and is_dataclass(hint):
        names = [each.name for each in fields(hint) if each.init]
        hints = typing.get_type_hints(hint, localns={"Principal": Principal})
        return fields_of(hint, [(name, hints[name]) for name in names])
    raise TypeError(f"{hint} has no form between nodes: add one to protocols/remoting/nodes/forwarding/shape.py")


def _union(kinds: list[Any]) -> Codec[Any]:
    """One of several types, behind its number."""
    classes = [typing.get_origin(each) or each for each in kinds]
    codecs = [codec_of(each) for each in kinds]

    def put(out: Out, value: Any) -> None:
        at = next(number for number, kind in enumerate(classes) if isinstance(value, kind))
        out.append(bytes((at,)))
        codecs[at].put(out, value)

    def get(reader: Reader) -> Any:
        at = reader.take(1)[0]
        if at >= len(codecs):
            raise WireError(f"a value of kind {at} is not known")
        return codecs[at].get(reader)

    return Codec(put, get)


def _mapping(key: Codec[Any], value: Codec[Any]) -> Codec[dict[Any, Any]]:
    def put(out: Out, table: Mapping[Any, Any]) -> None:
        put_count(out, len(table))
        for name, each in table.items():
            key.put(out, name)
            value.put(out, each)

    return Codec(put, lambda reader: {key.get(reader): value.get(reader) for _ in range(reader.count())})


def _enum(kind: type[enum.Enum]) -> Codec[Any]:
    value = codec_of(type(next(iter(kind)).value))

    def get(reader: Reader) -> Any:
        found = value.get(reader)
        try:
            return kind(found)
        except ValueError as error:
            raise WireError(f"{found!r} is no {kind.__name__}") from error

    return Codec(lambda out, member: value.put(out, member.value), get)


def fields_of(kind: type, hints: Sequence[tuple[str, Any]]) -> Codec[Any]:
    """An object by its attributes, in the order of its constructor's parameters: numbers first, at once, then all others.

    Those of LEFT_OUT are read as None.
    """
    fixed = [at for at, (_, hint) in enumerate(hints) if hint in _FIXED]
    others = [at for at, (name, _) in enumerate(hints) if at not in fixed and name not in LEFT_OUT]
    shape = struct.Struct(">" + "".join(_FIXED[hints[at][1]] for at in fixed))
    numbers = _attributes([hints[at][0] for at in fixed])
    codecs = [(at, hints[at][0], codec_of(hints[at][1])) for at in others]

    def put(out: Out, value: Any) -> None:
        if fixed:
            out.append(shape.pack(*numbers(value)))
        for _, name, codec in codecs:
            codec.put(out, getattr(value, name))

    def get(reader: Reader) -> Any:
        parts: list[Any] = [None] * len(hints)
        if fixed:
            for at, number in zip(fixed, reader.unpack(shape), strict=True):
                parts[at] = number
        for at, _, codec in codecs:
            parts[at] = codec.get(reader)
        return kind(*parts)

    return Codec(put, get)


def _attributes(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that reads these attributes."""
    if len(names) == 1:
        only = attrgetter(names[0])
        return lambda value: (only(value),)
    return attrgetter(*names) if names else lambda value: ()
