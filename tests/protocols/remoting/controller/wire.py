"""Frames as Apache's brokers and mqadmin write them, the commands that they become, and the frames that answer them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, overload

from domain.command import Command
from domain.event import Event
from gateway.node.settings_tables import read
from protocols.remoting.client import Client, NodeInfo
from protocols.remoting.controller.dispatch import READERS
from protocols.remoting.settings import RemotingSettings
from protocols.remoting.ticket import RequestError, Ticket
from protocols.remoting.wire.frame import Frame, FrameDecoder
from protocols.setting import Setting
from tests.protocols.remoting.frames import PEER, Kind
from tests.simulation.kit.entropy import SeededEntropy

CLIENT = Client(
    NodeInfo(
        Setting("main", "n", "10.0.0.1", {"remoting": 10911}, SeededEntropy(1), lambda: 1_700_000_000_000),
        read(RemotingSettings, "remoting", {}, {}),
    ),
    PEER,
)
"""The readers of these requests use nothing of it."""


def java(code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", opaque: int = 7, flag: int = 0) -> bytes:
    """A request as RemotingCommand of 5.5 writes it: keys in alphabetical order, no blanks."""
    ext = ",".join(f'"{name}":"{value}"' for name, value in (fields or {}).items())
    extension = f'"extFields":{{{ext}}},' if fields is not None else ""
    header = (
        f'{{"code":{code},{extension}"flag":{flag},"language":"JAVA","opaque":{opaque},'
        '"serializeTypeCurrentRPC":"JSON","version":515}'
    ).encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


@overload
def command_of(data: bytes) -> Any: ...
@overload
def command_of(data: bytes, kind: type[Kind]) -> Kind: ...
def command_of(data: bytes, kind: type[object] = object) -> Any:
    """The command of a request, which is of this kind."""
    (frame,) = FrameDecoder().feed(data)
    outcome = READERS[frame.code](CLIENT, frame)
    assert isinstance(outcome, tuple), outcome
    (command,) = outcome
    assert isinstance(command, kind)
    return command


def refusal_of(data: bytes) -> tuple[int, str]:
    """Code and remark for a request that becomes no command."""
    try:
        command = command_of(data)
    except RequestError as error:
        return error.code, error.remark
    raise AssertionError(command)


def reply_to(command: Command, event: Event) -> bytes:
    """The frame that answers."""
    ticket = getattr(command, "ticket", None)
    assert isinstance(ticket, Ticket)
    found = ticket.render(CLIENT, ticket, event)
    assert isinstance(found, bytes)
    return found


def parts(data: bytes) -> tuple[bytes, bytes]:
    """(header, body) of one frame in JSON."""
    length, header = struct.unpack_from(">II", data)
    assert length + 4 == len(data)
    return data[8 : 8 + header], data[8 + header :]


def decoded(data: bytes) -> Frame:
    """One frame."""
    (frame,) = FrameDecoder().feed(data)
    return frame
