"""Every command and event goes between nodes as it is."""

from __future__ import annotations

import contextlib
import enum
import importlib
import pkgutil
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any

import pytest

import domain
from domain.access.principal import Principal
from domain.client.mqtt_session import MqttSubscription
from domain.command import Command
from domain.delivery.routed import Delivery, RoutedRecord
from domain.errors import ErrorCode, Failure
from domain.event import Event
from domain.filter.filter import Filter
from domain.message.message import LOCAL_HOST, Message, Placed
from domain.message.receipt import Receipt
from domain.message.record import Record, encode
from protocols.remoting.nodes.calls.octets import Out, Reader, WireError
from protocols.remoting.nodes.calls.values import FILTER
from protocols.remoting.nodes.forwarding.kind import _UNANNOTATED, COMMAND_KINDS, COMMANDS, EVENT_KINDS, EVENTS, LATER, Kinds

NOT_FORWARDED = {
    "ChannelCommand", "ChannelEvent", "ReadingPaused", "ReadingResumed", "AccessRevoked", "GreetNode", "NodeGreeted",
    "NodeFrame", "NodeFrameOut", "Event", "Command", "TicketedEvent", "TicketedCommand",
}  # fmt: skip
"""What a gateway does itself, and what carries all others."""


def names(root: type) -> set[str]:
    """The names of all classes below `root` in the domain, without those that are for a controller and not for a store."""
    for module in pkgutil.walk_packages(domain.__path__, "domain."):
        importlib.import_module(module.name)
    modules = {each: each.__module__ for each in below(root) if each.__module__.startswith("domain.")}
    return {
        each.__name__
        for each, module in modules.items()
        if not module.startswith(("domain.controller.", "domain.replication."))
    } - NOT_FORWARDED


def below(root: type) -> Iterator[type]:
    known: list[type] = root.__subclasses__()
    for each in known:
        yield each
        yield from below(each)


def test_every_command_and_event_of_the_domain_has_a_number() -> None:
    compiled = {"Send", "SendRetry", "SendOnce", "ConfirmDeliveries"}
    assert {each.__name__ for each in COMMANDS} == names(Command) | compiled, "which have no base"
    assert {each.__name__ for each in EVENTS} == names(Event) | {"Sent", "Pulled", "Deliveries"}
    assert len(set(COMMANDS)) == len(COMMANDS)
    assert len(set(EVENTS)) == len(EVENTS)


def routed(chance: Random) -> RoutedRecord:
    """A record as it was routed."""
    stored = encode(Message("T", chance.randbytes(9), b"a\x01b\x02", queue_id=3), 5, 7, 9, LOCAL_HOST)
    return RoutedRecord(Record(stored), Record(stored).properties, "T/x", 1)


def sample(hint: Any, chance: Random) -> Any:
    """Some value of a type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint == Filter | None:
        kind, text = chance.choice((("", ""), ("TAG", "a || b"), ("SQL92", "a > 3"), ("PATH", "T\x00T/+")))
        out: Out = []
        for part in (kind, text):
            out += [len(part.encode()).to_bytes(4, "big"), part.encode()]
        return FILTER.get(Reader(b"".join(out)))
    if origin in (types.UnionType, typing.Union):
        return sample(chance.choice(inner), chance)
    if origin is tuple:
        return tuple(sample(each, chance) for each in (inner[:1] * 3 if inner[-1] is Ellipsis else inner))
    if origin in (list, Sequence):
        return [sample(inner[0], chance) for _ in range(chance.randrange(3))]
    if origin in (dict, Mapping):
        return {sample(inner[0], chance): sample(inner[1], chance) for _ in range(2)}
    plain: Callable[[], Any] | None = {
        int: lambda: chance.randrange(-(1 << 62), 1 << 62),
        bool: lambda: chance.random() < 0.5,
        float: chance.random,
        str: lambda: "ä" * chance.randrange(4),
        bytes: lambda: chance.randbytes(chance.randrange(5)),
        types.NoneType: lambda: None,
        object: lambda: None,
        Failure: lambda: Failure(chance.choice(list(ErrorCode)), "why", chance.randrange(300), chance.random() < 0.5),
        Message: lambda: Message("T", b"body", b"a\x01b\x02", queue_id=2, message_id="id", born_ms=4, retain=1),
        Placed: lambda: Placed(1, 2, 3, 4, "id", "handle"),
        Receipt: lambda: Receipt(1, 2, 3, 4, 0, "b", 5, 6, 7),
        MqttSubscription: lambda: MqttSubscription("a/+", 1, True, False, 2, 7, 99, "g"),
        Delivery: lambda: Delivery(routed(chance), 1, 3, True, False, (4, 5)),
    }.get(hint)  # fmt: skip
    if plain is not None:
        return plain()
    if issubclass(hint, enum.Enum):
        return chance.choice(list(hint))
    return hint(*[sample(each, chance) for _, each in parameters(hint)])


def parameters(of: Any) -> list[tuple[str, Any]]:
    if of in _UNANNOTATED:
        return _UNANNOTATED[of]
    hints = typing.get_type_hints(of, localns={"Principal": Principal})
    return [(each.name, hints[each.name]) for each in fields(of) if each.init] if is_dataclass(of) else list(hints.items())


def shown(value: Any) -> Any:
    """A value as something that can be compared."""
    if hasattr(value, "expression") and hasattr(value, "matches"):
        return value.expression
    if isinstance(value, RoutedRecord):
        return value.record.data, value.stored, value.path, value.level, value.compressed
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    if isinstance(value, dict):
        return {shown_key(key): shown(each) for key, each in value.items()}
    if isinstance(value, enum.Enum) or value is None or isinstance(value, int | float | str | bytes):
        return value
    # A compiled class has its attributes under another name.
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", getattr(kind, "__mypyc_attrs__", ()))]
    named = [name for name in slots if name not in ("ticket", "principal", "refused")]
    if not named and is_dataclass(value):
        named = [each.name for each in fields(value) if each.name != "ticket"]
    return type(value).__name__, {name: shown(getattr(value, name)) for name in named}


def shown_key(key: Any) -> Any:
    return tuple(key) if isinstance(key, list | tuple) else key


def written(of: type, chance: Random, count: int) -> Iterator[tuple[Kinds, Any, bytes]]:
    """(table, value, its bytes) of some values of a class."""
    kinds = COMMAND_KINDS if of in COMMAND_KINDS.of else EVENT_KINDS
    for _ in range(count):
        value = of(*[None if name == "ticket" else sample(hint, chance) for name, hint in parameters(of)])
        out: Out = []
        kinds.of[of].put(out, value)
        yield kinds, value, b"".join(out)


@pytest.mark.parametrize("of", [*COMMANDS, *EVENTS], ids=lambda of: of.__name__)
def test_what_is_read_is_what_was_written(of: type) -> None:
    for kinds, value, data in written(of, Random(of.__name__), 20):
        reader = Reader(data)
        again = kinds.get(reader)
        assert type(again) is of
        assert repr(shown(again)) == repr(shown(value))  # that True is 1 must not be overlooked
        assert reader.left == 0


@pytest.mark.parametrize("of", LATER, ids=lambda of: of.__name__)
def test_fields_that_came_later_are_left_out_where_items_have_no_length(of: type) -> None:
    kind = COMMAND_KINDS.of.get(of) or EVENT_KINDS.of[of]
    for kinds, value, whole in written(of, Random(of.__name__), 5):
        out: Out = []
        kind.put(out, value, sized=False)
        short = b"".join(out)
        assert whole.startswith(short)
        assert len(short) < len(whole)
        reader = Reader(short + b"next item")
        reader.sized = False
        again: Out = []
        kind.put(again, kinds.get(reader))
        assert (b"".join(again), reader.take(9)) == (short, b"next item"), "they have their defaults"


@pytest.mark.parametrize("of", [*COMMANDS, *EVENTS], ids=lambda of: of.__name__)
def test_damaged_bytes_are_an_error_of_the_wire_or_another_value(of: type) -> None:
    chance = Random(of.__name__)
    for kinds, _, data in written(of, chance, 10):
        for _ in range(20):
            at = chance.randrange(2, len(data) + 1)
            broken = data[:at] if chance.random() < 0.5 or at == len(data) else data[:at] + chance.randbytes(1) + data[at + 1 :]
            with contextlib.suppress(WireError):
                kinds.get(Reader(broken))
