"""Values of all commands and events that go between nodes, from the annotations of their classes."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any

from domain.access.principal import Principal
from domain.client.mqtt_session import MqttSubscription
from domain.delivery.routed import Delivery, RoutedRecord
from domain.errors import Failure
from domain.filter.filter import Filter
from domain.message.message import LOCAL_HOST, Message, Placed
from domain.message.receipt import Receipt
from domain.message.record import Record, encode
from protocols.remoting.nodes.calls.octets import Out, Reader
from protocols.remoting.nodes.calls.values import FILTER
from protocols.remoting.nodes.forwarding.kind import _UNANNOTATED, COMMAND_KINDS, COMMANDS, EVENT_KINDS, EVENTS
from tests.kept.shown import shown
from tests.kept.vectors import Vector, save

FILTERS = (("TAG", "a || b"), ("SQL92", "a > 3"), ("PATH", "T\x00T/+"), ("", ""))
VARIANTS_MAX = 80


class Sampler:
    """Values of types: the variant's number selects among the members of enumerations and unions.

    seen   what has been selected in this variant
    """

    def __init__(self, name: str, variant: int) -> None:
        self._chance = Random(f"{name} {variant}")
        self._variant = variant
        self.seen: set[tuple[Any, ...]] = set()
        self._kind = name

    def _choice(self, hint: Any, options: Sequence[Any], own: bool) -> Any:
        at = self._variant % len(options)
        self.seen.add((str(hint), at) if own else (self._kind, str(hint), at))
        return options[at]

    def _int(self, least: int, most: int) -> int:
        return self._chance.randrange(least, most)

    def _data(self) -> bytes:
        return self._chance.randbytes(1 + self._variant % 5)

    def value(self, hint: Any) -> Any:
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if hint == Filter | None:
            return self._filter()
        if origin in (types.UnionType, typing.Union):
            return self.value(self._choice(hint, inner, False))
        if origin is tuple:
            return tuple(self.value(each) for each in (inner[:1] * 2 if inner[-1] is Ellipsis else inner))
        if origin in (list, Sequence):
            return [self.value(inner[0]) for _ in range(0 if self._variant == 1 else 1 + (self._variant == 0))]
        if origin in (dict, Mapping):
            return {self.value(inner[0]): self.value(inner[1]) for _ in range(0 if self._variant == 1 else 2)}
        if hint in (types.NoneType, object):
            return None
        plain = {int: self._number, bool: self._flag, float: self._chance.random, str: self._text, bytes: self._data}.get(hint)
        if plain is not None:
            return plain()
        made = {
            Failure: self._failure, Message: self._message, Placed: self._placed, Receipt: self._receipt,
            MqttSubscription: self._subscription, Delivery: self._delivery,
        }.get(hint)  # fmt: skip
        if made is not None:
            return made()
        if issubclass(hint, enum.Enum):
            return self._choice(hint, list(hint), True)
        return hint(*[self.value(each) for _, each in parameters(hint)])

    def _number(self) -> int:
        return self._int(-(1 << 62), 0) if self._variant == 1 else self._int(0, 1 << 62)

    def _flag(self) -> bool:
        return self._chance.random() < 0.5

    def _text(self) -> str:
        return "" if self._variant == 1 else f"täxt {self._int(0, 1000)}"

    def _filter(self) -> Any:
        kind, text = self._choice("filter", FILTERS, False)
        out = []
        for part in (kind, text):
            out += [len(part.encode()).to_bytes(4, "big"), part.encode()]
        return FILTER.get(Reader(b"".join(out)))

    def _failure(self) -> Failure:
        hints = typing.get_type_hints(Failure)
        code = self._choice("ErrorCode", list(hints["code"]), True)
        return Failure(code, self._text(), self._int(0, 300), self._flag())

    def _message(self) -> Message:
        return Message(
            self._text(), self._data(), b"a\x01b\x02", queue_id=self._int(0, 99), message_id=self._text(),
            sys_flag=self._int(0, 99), flag=self._int(-9, 99), born_ms=self._int(0, 1 << 50), reconsume_times=self._int(0, 9),
            prepared_offset=self._int(0, 1 << 50), retain=self._variant % 3,
            born_host=LOCAL_HOST if self._flag() else self._chance.randbytes(20),
        )  # fmt: skip

    def _placed(self) -> Placed:
        numbers = (self._int(0, 1 << 30), *(self._int(0, 1 << 60) for _ in range(3)))
        return Placed(*numbers, self._text(), self._text())

    def _receipt(self) -> Receipt:
        start, pop_ms, invisible_ms, offset, physical = (self._int(0, 1 << 60) for _ in range(5))
        return Receipt(start, pop_ms, invisible_ms, 7, self._variant % 2, self._text(), self._int(0, 99), offset, physical)

    def _subscription(self) -> MqttSubscription:
        flags = self._flag(), self._flag()
        return MqttSubscription("a/+", self._variant % 3, *flags, 2, self._int(0, 99), self._int(0, 1 << 60), self._text())

    def _delivery(self) -> Delivery:
        stored = encode(Message("T", self._data(), b"a\x01b\x02", queue_id=3), 5, 7, 9, LOCAL_HOST)
        routed = RoutedRecord(Record(stored), Record(stored).properties, "T/x", 1)
        return Delivery(routed, self._variant % 3, self._int(0, 1 << 16), self._flag(), self._flag(), (4, 5))


def parameters(of: Any) -> list[tuple[str, Any]]:
    """(parameter of the constructor, type)."""
    if of in _UNANNOTATED:
        return _UNANNOTATED[of]
    hints = typing.get_type_hints(of, localns={"Principal": Principal})
    return [(each.name, hints[each.name]) for each in fields(of)] if is_dataclass(of) else list(hints.items())


def vectors(classes: Sequence[type], kinds: Any) -> Iterator[Vector]:
    """Of each class a full and an empty value, and as many more as let every choice of it be made once."""
    seen: set[tuple[Any, ...]] = set()
    for of in classes:
        for variant in range(VARIANTS_MAX):
            sampler = Sampler(of.__name__, variant)
            value = of(*[None if name == "ticket" else sampler.value(hint) for name, hint in parameters(of)])
            if variant > 1 and sampler.seen <= seen:
                continue
            seen |= sampler.seen
            out: Out = []
            kinds.of[of].put(out, value)
            data = b"".join(out)
            if variant == 1 and sampler.seen <= seen and not parameters(of):
                continue
            yield Vector(f"{of.__name__} {variant}", shown(kinds.get(Reader(data))), data)


def main() -> None:
    """Write both files."""
    save("commands", "commands between nodes: number of the kind, and its fields", vectors(COMMANDS, COMMAND_KINDS))
    save("events", "events between nodes: number of the kind, and its fields", vectors(EVENTS, EVENT_KINDS))
