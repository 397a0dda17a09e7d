"""Channels: a session for each client of a connection that carries several (domain.channel)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, final

from domain.channel import ChannelCommand, ChannelEvent, ReadingPaused
from domain.command import Command, Disconnected, Send
from domain.errors import Failure
from domain.event import Event, Refused
from domain.mqtt_session import AccessRevoked, SendOnce
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler


class Counts(Protocol):
    """Where what happens in channels is counted: the figures of the protocol inside."""

    protocol: str
    messages_in: int

    def answered(self, event: Event) -> None:
        """What one event hands to a client, or refuses."""

    def disconnected(self, reason: str, told: bool = False) -> None:
        """A client has gone."""


@final
class _Channel:
    """The shell of a channel's session: its connection's session, with the channel's name on everything."""

    __slots__ = ("_counts", "_name", "_outer", "client", "refused")

    def __init__(self, outer: ClientConnection, name: object, counts: Counts) -> None:
        self.client = ClientConnection(counts.protocol, self)
        self.refused = False
        self._counts = counts
        self._outer = outer
        self._name = name

    def answer(self, event: Event) -> None:
        """To the channel."""
        self._counts.answered(event)
        self.refused = type(event) is Refused
        self._outer.answer(ChannelEvent(self._name, event))

    def close(self) -> None:
        """The channel alone: the connection may carry others."""
        self._outer.answer(ChannelEvent(self._name, None))

    def throttle(self, until_ns: int) -> None:
        """The channel alone."""
        self._outer.answer(ReadingPaused(self._name, until_ns))

    def revoke_access(self, failure: Failure) -> None:
        """Access has ended: the client hears it in its protocol's words, and the channel is closed."""
        self._outer.answer(ChannelEvent(self._name, AccessRevoked(failure)))
        self.close()


@final
class Channels:
    """A use case. `handler` is set once there is one, before the first connection. `counts`: of MQTT, which channels carry."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self.handler: Handler
        self._known: dict[ClientConnection, dict[object, _Channel]] = {}

    def verbs(self) -> Mapping[type[Command], Callable[[ClientConnection, Any], None]]:
        """Within."""
        return {ChannelCommand: self._within}

    def _within(self, connection: ClientConnection, command: ChannelCommand) -> None:
        channels = self._known.get(connection)
        if channels is None:
            channels = self._known[connection] = {}
            connection.on_close.append(lambda: self._end(connection))
        channel = channels.get(command.channel)
        if channel is None:
            channel = channels[command.channel] = _Channel(connection, command.channel, self._counts)
        if isinstance(command.command, Send | SendOnce):
            self._counts.messages_in += len(command.command.messages)
        self.handler.handle(channel.client, command.command)
        if isinstance(command.command, Disconnected):
            self._counts.disconnected(command.command.reason, channel.refused)
            del channels[command.channel]
            channel.client.end()

    def _end(self, connection: ClientConnection) -> None:
        for channel in self._known.pop(connection).values():
            self._counts.disconnected("lost")
            self.handler.handle(channel.client, Disconnected("lost"))
            channel.client.end()
