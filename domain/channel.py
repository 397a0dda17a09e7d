"""Channels: several clients, each with a session of its own, over one connection (WebSocket over HTTP/2, RFC 8441).

A channel is a client's place in its connection, minted by the adapter. Commands of its client travel inside `ChannelCommand`.
"""

from __future__ import annotations

from dataclasses import dataclass

from domain.command import Command
from domain.event import Event


@dataclass(slots=True)
class ChannelCommand(Command):
    """`command` of the client of `channel`, a hashable value -> its own events, each inside a Said.

    The first one of a channel begins its session; Disconnected ends it, as the end of the connection does.
    """

    channel: object
    command: Command


@dataclass(slots=True)
class ReadingPaused(Event):
    """Nothing more is to be read from the client of a channel, which is the ticket, before monotonic `until_ns`."""

    ticket: object
    until_ns: int


@dataclass(slots=True)
class ChannelEvent(Event):
    """An event for the client of a channel, which is the ticket; None: the gateway wants it closed."""

    ticket: object
    event: Event | None
