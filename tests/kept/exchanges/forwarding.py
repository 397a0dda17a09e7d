"""A gateway and the node that carries out its clients' commands: greetings, frames of both versions, and all items."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from domain.access.principal import Principal
from domain.client.node import NodeFrameOut, NodeGreeted
from domain.command import Disconnected
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from protocols.remoting.dispatch import READERS
from protocols.remoting.nodes.calls.octets import BOOL, DATA, I64, TEXT, Out, Reader, optional
from protocols.remoting.nodes.calls.values import FAILURE
from protocols.remoting.nodes.extension import node_frame
from protocols.remoting.nodes.forwarding import item
from protocols.remoting.nodes.forwarding.greeting import Greeting, Welcome, encode, greeting_of, welcome_of
from protocols.remoting.nodes.forwarding.item import ClientItem
from protocols.remoting.nodes.forwarding.kind import COMMAND_KINDS, EVENT_KINDS
from protocols.remoting.nodes.forwarding.stream import UNSIZED, VERSION, NodeStream
from protocols.remoting.nodes.node_dialog import NodeDialog
from tests.kept.exchanges.exchange import Exchange, Exchanges, answer, frame_of, head_of
from tests.simulation.kit.clock import VirtualClock

GREETING = Greeting("main", "gateway-1", "0a" * 16, "0b" * 16, 17, (2, 1), True)
WELCOME = Welcome("main", "broker-a", "0b" * 16, True, True, 12, 2)
FAILED = Failure(ErrorCode.NOT_ALLOWED, "nö", 3, True)
PRINCIPAL = Principal("ann", "10.0.0.9", False, True, 1_700_000_000_000, 0, ("password", b"\x01\x02"))
COUNTS = (bytes(range(16)), 1, 2, 3, 1 << 40)
_VALUE = optional(DATA)


def _item(kind: int, client: int, *fields: tuple[Any, Any]) -> Out:
    out: Out = [item.CLIENT_HEAD.pack(kind, client)]
    for codec, value in fields:
        codec.put(out, value)
    return out


def _value(value: bytes | None) -> Out:
    out: Out = [bytes((item.VALUE,))]
    TEXT.put(out, "access")
    DATA.put(out, b"uann")
    _VALUE.put(out, value)
    return out


def _command() -> Out:
    out = [item.COMMAND_HEAD.pack(item.COMMAND, 5, 7, 2)]
    COMMAND_KINDS.of[Disconnected].put(out, Disconnected("left"))
    return out


def _event() -> Out:
    out = [item.EVENT_HEAD.pack(item.EVENT, 5, 7)]
    EVENT_KINDS.of[Refused].put(out, Refused(None, FAILED))
    return out


ITEMS: dict[str, Callable[[], Out]] = {
    "client": lambda: item.put_client(ClientItem(5, "mqtt", "10.0.0.9", False)),
    "shared client": lambda: item.put_client(ClientItem(6, "coap", "", True)),
    "principal": lambda: item.put_principal(2, PRINCIPAL),
    "command": _command,
    "stalled": lambda: _item(item.STALLED, 5, (BOOL, True)),
    "traffic": lambda: [bytes((item.TRAFFIC,)), item.TRAFFIC_FIELDS.pack(*COUNTS)],
    "event": _event,
    "close": lambda: _item(item.CLOSE, 5),
    "throttle": lambda: _item(item.THROTTLE, 5, (I64, 1 << 33)),
    "revoke": lambda: _item(item.REVOKE, 5, (FAILURE, FAILED)),
    "reads wait": lambda: _item(item.READS_WAIT, 5, (BOOL, True)),
    "value": lambda: _value(b'{"name":"ann"}'),
    "removed value": lambda: _value(None),
    "complete": lambda: [bytes((item.COMPLETE,))],
    "gone": lambda: _item(item.GONE, 5),
}


def _take(reader: Reader) -> Any:
    """One item."""
    kind = reader.take(1)[0]
    taken: dict[int, Callable[[], Any]] = {
        item.CLIENT: lambda: item.get_client(reader),
        item.PRINCIPAL: lambda: item.get_principal(reader),
        item.COMMAND: lambda: (*reader.unpack(item.OF_COMMAND), COMMAND_KINDS.get(reader)),
        item.STALLED: lambda: (I64.get(reader), BOOL.get(reader)),
        item.TRAFFIC: lambda: reader.unpack(item.TRAFFIC_FIELDS),
        item.EVENT: lambda: (*reader.unpack(item.OF_EVENT), EVENT_KINDS.get(reader)),
        item.CLOSE: lambda: I64.get(reader),
        item.THROTTLE: lambda: (I64.get(reader), I64.get(reader)),
        item.REVOKE: lambda: (I64.get(reader), FAILURE.get(reader)),
        item.READS_WAIT: lambda: (I64.get(reader), BOOL.get(reader)),
        item.VALUE: lambda: (TEXT.get(reader), DATA.get(reader), _VALUE.get(reader)),
        item.COMPLETE: lambda: None,
        item.GONE: lambda: I64.get(reader),
    }
    return kind, taken[kind]()


def _read_item(data: bytes) -> Any:
    reader = Reader(data)
    found = _take(reader)
    assert not reader.left
    return found


def _frame(version: int) -> bytes:
    """The second frame of a stream on which three have come."""
    sent: list[bytes] = []
    stream = NodeStream(VirtualClock())
    stream.received = 3
    stream.connected(sent.append, 0, version)
    stream.put(ITEMS["client"]())
    stream.flush()
    for name in ("shared client", "command"):
        stream.put(ITEMS[name]())
    stream.flush()
    return sent[1]


def _frame_items(version: int, data: bytes) -> Any:
    found: list[Any] = []
    stream = NodeStream(VirtualClock())
    stream.connected(lambda _: None, 0, version)
    stream.received = 1
    for _ in range(3):
        stream.put([b"\x16"])
        stream.flush()
    takers = {kind: partial(_taken, found, kind) for kind in range(32)}
    stream.take_all(data, takers, lambda reader, error: found.append(str(error)))
    return [stream.received, stream.unacknowledged_bytes, found]


def _taken(found: list[Any], kind: int, reader: Reader) -> None:
    reader.at -= 1
    found.append(_take(reader))


class _Speaker:
    """What speaks over a connection, for the frames of the remoting protocol around it."""

    def greeting(self) -> bytes:
        return encode(GREETING)

    def greeted(self, body: bytes) -> None:
        pass

    def connected(self, send: Callable[[bytes], None]) -> None:
        send(_frame(VERSION))

    def received(self, body: bytes) -> None:
        pass

    def doubt(self) -> str:
        return ""

    def lost(self) -> None:
        pass


def _written(at: int) -> bytes:
    """What a gateway writes: a greeting, a frame, a ping."""
    written: list[bytes] = []
    dialog = NodeDialog(_Speaker(), None, written.append)
    dialog.open()
    dialog.receive(WELCOMED.made())
    dialog.ping()
    return written[at]


def greet() -> bytes:
    written: list[bytes] = []
    NodeDialog(_Speaker(), None, written.append).open()
    return written[0]


WELCOMED = answer(READERS, greet, NodeGreeted(None, encode(WELCOME)), lambda frame: welcome_of(frame.body))


def _read_greeting(data: bytes) -> Any:
    return [*head_of(frame_of(data)), greeting_of(frame_of(data).body)]


def _plain(data: bytes) -> Any:
    return [*head_of(frame_of(data)), frame_of(data).body]


FORWARDING: Exchanges = {
    "greeting": Exchange(greet, _read_greeting),
    "welcome": WELCOMED,
    "frame of a gateway": Exchange(partial(_written, 1), _plain),
    "frame of a store": Exchange(lambda: node_frame(9, NodeFrameOut(None, _frame(VERSION))), _plain),
    "ping": Exchange(partial(_written, 2), _plain),
    "frame version 1": Exchange(partial(_frame, UNSIZED), partial(_frame_items, UNSIZED)),
    "frame version 2": Exchange(partial(_frame, VERSION), partial(_frame_items, VERSION)),
    **{f"item: {name}": Exchange(lambda made=made: b"".join(made()), _read_item) for name, made in ITEMS.items()},  # type: ignore[misc]
}
