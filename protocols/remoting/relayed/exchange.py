"""Commands of a relayed connection to the relay, and its events. None of them is forwarded to another node."""

from __future__ import annotations

from typing import final

from domain.command import Command
from domain.event import Event
from protocols.remoting.relayed.frame_slice import FrameSlice


@final
class RelayFrames(Command):
    """Whole frames of a client, in the order in which they came. No event answers it: replies come as RelayOutput, at any time.

    frames       requests, and replies to requests of servers
    """

    __slots__ = ("frames", "local_port", "ticket")

    def __init__(self, local_port: int, frames: list[FrameSlice]) -> None:
        self.ticket = None
        self.local_port = local_port
        self.frames = frames


@final
class RelayOutput(Event):
    """Whole frames for the client of this connection, in pieces of any size; ticket None."""

    __slots__ = ("pieces", "ticket")

    def __init__(self, pieces: list[bytes]) -> None:
        self.ticket = None
        self.pieces = pieces


@final
class RelayReading(Event):
    """Read from the client from now on, or stop; ticket None."""

    __slots__ = ("reading", "ticket")

    def __init__(self, reading: bool) -> None:
        self.ticket = None
        self.reading = reading
