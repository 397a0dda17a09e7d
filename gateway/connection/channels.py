"""Connections that carry several clients: a ClientConnection for each channel (domain.client.channel)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

from domain.client.channel import ChannelCommand, ChannelEvent, ReadingPaused
from domain.client.mqtt_session import AccessRevoked, SendOnce
from domain.command import Command, Disconnected, Send
from domain.errors import Failure
from domain.event import Event, Refused
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import CommandEntry
from gateway.observe.counters import ProtocolCounters


@final
class _Channel:
    """The driver of a channel: sends events over the outer connection, with the name of the channel."""

    __slots__ = ("_counters", "_name", "_outer", "client", "refused")

    def __init__(self, outer: ClientConnection, name: object, counters: ProtocolCounters) -> None:
        self.client = ClientConnection(counters.protocol, self)
        self.refused = False
        self._counters = counters
        self._outer = outer
        self._name = name

    def answer(self, event: Event) -> None:
        """Send an event to the channel."""
        self._counters.answered(event)
        self.refused = type(event) is Refused
        self._outer.answer(ChannelEvent(self._name, event))

    def close(self) -> None:
        """Close the channel. The connection stays open for other channels."""
        self._outer.answer(ChannelEvent(self._name, None))

    def throttle(self, until_ns: int) -> None:
        """Pause reading from the channel until monotonic `until_ns`."""
        self._outer.answer(ReadingPaused(self._name, until_ns))

    def revoke_access(self, failure: Failure) -> None:
        """Notify the client in its protocol that it has lost its access, and close the channel."""
        self._outer.answer(ChannelEvent(self._name, AccessRevoked(failure)))
        self.close()


@final
class Channels:
    """The use case of ChannelCommand."""

    def __init__(self, counters: ProtocolCounters, entry: CommandEntry) -> None:
        """`counters`: of MQTT, the protocol inside. `entry`: where the commands of channels go."""
        self._counters = counters
        self._entry = entry
        self._known: dict[ClientConnection, dict[object, _Channel]] = {}
        self.verbs: Mapping[type[Command], Callable[[ClientConnection, Any], None]] = {ChannelCommand: self._within}

    def _within(self, connection: ClientConnection, command: ChannelCommand) -> None:
        channels = self._known.get(connection)
        if channels is None:
            channels = self._known[connection] = {}
            connection.on_close.append(lambda: self._end(connection))
        channel = channels.get(command.channel)
        if channel is None:
            channel = channels[command.channel] = _Channel(connection, command.channel, self._counters)
        if isinstance(command.command, Send | SendOnce):
            self._counters.messages_in += len(command.command.messages)
        self._entry.handler.handle(channel.client, command.command)
        if isinstance(command.command, Disconnected):
            self._counters.disconnected(command.command.reason, channel.refused)
            del channels[command.channel]
            channel.client.end()

    def _end(self, connection: ClientConnection) -> None:
        for channel in self._known.pop(connection).values():
            self._counters.disconnected("lost")
            self._entry.handler.handle(channel.client, Disconnected("lost"))
            channel.client.end()
