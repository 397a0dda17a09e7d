"""A connection in memory, and encoded requests for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, overload

from domain.command import Command
from domain.event import Event
from gateway.node.settings_tables import read
from protocols.adapter import Peer
from protocols.remoting.adapter import RemotingAdapter
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.settings import RemotingSettings
from protocols.remoting.wire.frame import Frame, FrameDecoder, encode
from protocols.remoting.wire.header import JSON
from protocols.setting import Setting
from tests.simulation.kit.entropy import SeededEntropy

Kind = TypeVar("Kind", bound=Command)
BORN_HOST = b"\x0a\x00\x00\x09\x00\x00\xc3\x50"
PEER = Peer("10.0.0.9", 50000, BORN_HOST)


def adapter(**options: object) -> RemotingAdapter:
    setting = Setting(
        "c1", "b-a", "10.0.0.1", {"remoting": 10911, "nameserver": 9876}, SeededEntropy(1), lambda: 1_700_000_000_000
    )
    return RemotingAdapter(setting, read(RemotingSettings, "remoting", options, {}))


def connection(**options: object) -> RemotingConnection:
    return adapter(**options).connect(PEER, 0)


def request(
    code: int,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    serialize: int = JSON,
    opaque: int = 7,
    flag: int = 0,
) -> bytes:
    return encode(code, opaque, fields=fields, body=body, flag=flag, serialize=serialize)


@overload
def one(conn: RemotingConnection, data: bytes) -> Any: ...
@overload
def one(conn: RemotingConnection, data: bytes, kind: type[Kind]) -> Kind: ...
def one(conn: RemotingConnection, data: bytes, kind: type[object] = object) -> Any:
    """The only command of the request `data`, which is of this kind."""
    commands = conn.receive(data, 1)
    assert len(commands) == 1, (commands, replies(conn))
    assert isinstance(commands[0], kind)
    return commands[0]


def replies(conn: RemotingConnection) -> Sequence[Frame]:
    """The frames that the connection has queued."""
    decoder = FrameDecoder()
    frames = [frame for data in conn.outgoing() for frame in decoder.feed(data)]
    assert decoder.fault == ""
    assert decoder.held == 0
    return frames


def reply(conn: RemotingConnection) -> Frame:
    """The only frame that the connection has queued."""
    frames = replies(conn)
    assert len(frames) == 1
    return frames[0]


def exchanged(code: int, ext: Mapping[str, str], kind: type[Command], event: Event, *, serialize: int = JSON) -> Frame:
    """The reply to a request whose only command, of type `kind`, is answered with `event`."""
    conn = connection()
    command: Any = one(conn, request(code, ext, serialize=serialize), kind)
    event.ticket = command.ticket
    conn.answer(event, 1)
    return reply(conn)


def refused_reply(code: int, ext: Mapping[str, str] | None = None, body: bytes = b"") -> Frame:
    """The reply to a request that becomes no command."""
    conn = connection()
    assert conn.receive(request(code, ext, body), 1) == []
    return reply(conn)


def fields(frame: Frame) -> dict[str, str]:
    found = frame.fields()
    assert found is not None
    return found
