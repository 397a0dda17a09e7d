"""Channels: a session for each client of a connection that carries several (domain.channel)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, final

from domain.channel import Said, Within
from domain.command import Command, Disconnected
from domain.errors import Failure
from domain.event import Event
from gateway.session import Session


class Handler(Protocol):
    """Who carries out what comes out of a channel: the same that stands before every other connection."""

    def handle(self, session: Session, command: Command) -> None:
        """Carry out one command."""


@final
class _Channel:
    """The shell of a channel's session: its connection's session, with the channel's name on everything."""

    __slots__ = ("_name", "_outer")

    def __init__(self, outer: Session, name: object) -> None:
        self._outer = outer
        self._name = name

    def answer(self, event: Event) -> None:
        """To the channel."""
        self._outer.answer(Said(self._name, event))

    def close(self) -> None:
        """The channel alone: the connection may carry others."""
        self._outer.answer(Said(self._name, None))

    def rest(self, until_ns: int) -> None:
        """The connection rests: a channel cannot do so by itself."""
        self._outer.shell.rest(until_ns)

    def expel(self, failure: Failure) -> None:
        """As `close`."""
        self.close()


@final
class Channels:
    """A use case. `handler` is set once there is one, before the first connection."""

    def __init__(self) -> None:
        self.handler: Handler
        self._known: dict[Session, dict[object, Session]] = {}

    def verbs(self) -> Mapping[type[Command], Callable[[Session, Any], None]]:
        """Within."""
        return {Within: self._within}

    def _within(self, session: Session, command: Within) -> None:
        channels = self._known.get(session)
        if channels is None:
            channels = self._known[session] = {}
            session.on_close.append(lambda: self._end(session))
        inner = channels.get(command.channel)
        if inner is None:
            inner = channels[command.channel] = Session(session.protocol, _Channel(session, command.channel))
        self.handler.handle(inner, command.command)
        if isinstance(command.command, Disconnected):
            del channels[command.channel]
            inner.end()

    def _end(self, session: Session) -> None:
        for inner in self._known.pop(session).values():
            self.handler.handle(inner, Disconnected("lost"))
            inner.end()
