"""Channels: several clients over one connection, each with its own session (WebSocket over HTTP/2, RFC 8441).

The adapter makes one hashable value for each channel. Commands of its client travel inside `ChannelCommand`, events for its
client inside `ChannelEvent`.
"""

from __future__ import annotations

from dataclasses import dataclass

from domain.command import Command
from domain.event import Event, TicketedEvent


@dataclass(slots=True)
class ChannelCommand(Command):
    """One command of the client of `channel` -> its own events, each inside a ChannelEvent.

    The first command of a channel begins its session. Disconnected ends it, as does the end of the connection.
    """

    channel: object
    command: Command


@dataclass(slots=True)
class ReadingPaused(TicketedEvent):
    """The adapter must not read from the client of a channel before `until_ns`, monotonic nanoseconds.

    ticket   the channel
    """

    until_ns: int


@dataclass(slots=True)
class ChannelEvent(TicketedEvent):
    """One event for the client of a channel.

    ticket   the channel
    event    None: the adapter has to close the channel
    """

    event: Event | None
