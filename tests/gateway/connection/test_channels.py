"""Channels: several clients over one connection, each with its own session, its own end and its own answers."""

from __future__ import annotations

import pytest

from domain.client.channel import ChannelCommand, ChannelEvent, ReadingPaused
from domain.client.mqtt_session import AccessRevoked, SendOnce
from domain.command import Command, Disconnected, Send
from domain.errors import ErrorCode, Failure
from domain.event import Done, Event, Refused
from domain.message.message import Message
from gateway.connection.channels import Channels
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import CommandEntry
from gateway.observe.counters import CounterRegistry
from tests.connection_driver import RecordingDriver

REFUSED = Failure(ErrorCode.NOT_ALLOWED, "no")


class Asked(Command):
    """A command of which only the way is looked at."""


class Stage:
    """One connection with channels, and the handler of their commands."""

    def __init__(self) -> None:
        self.counters = CounterRegistry().of("mqtt")
        self.outer = RecordingDriver()
        self.connection = ClientConnection("websocket", self.outer)
        self.channels = Channels(self.counters, CommandEntry(self))
        self.handled: list[tuple[ClientConnection, Command]] = []

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Handler.handle."""
        self.handled.append((connection, command))

    def send(self, channel: object, command: Command) -> ClientConnection:
        """A command of the client of `channel`; the connection that the handler saw."""
        self.channels.verbs[ChannelCommand](self.connection, ChannelCommand(channel, command))
        return self.handled[-1][0]


def test_each_channel_has_a_connection_of_its_own_that_it_keeps() -> None:
    stage = Stage()
    first, second = stage.send("a", Asked()), stage.send("b", Asked())
    assert first is not second
    assert stage.send("a", Asked()) is first
    assert (first.protocol, stage.connection.protocol) == ("mqtt", "websocket")


def test_an_answer_goes_to_its_channel_and_is_counted() -> None:
    stage = Stage()
    stage.send("a", Asked())
    stage.send("b", Asked()).answer(Refused(7, REFUSED))
    assert stage.outer.recorded == [ChannelEvent("b", Refused(7, REFUSED))]
    assert stage.counters.refusals == {"not-allowed": 1}


def test_a_throttled_client_pauses_its_channel_alone() -> None:
    stage = Stage()
    stage.send("a", Asked()).driver.throttle(99)
    assert stage.outer.recorded == [ReadingPaused("a", 99)]


def test_a_client_that_lost_its_access_is_told_and_its_channel_closed() -> None:
    stage = Stage()
    stage.send("a", Asked()).driver.revoke_access(REFUSED)
    assert stage.outer.recorded == [ChannelEvent("a", AccessRevoked(REFUSED)), ChannelEvent("a", None)]
    assert not stage.connection.closed


@pytest.mark.parametrize("command", [Send(1, [Message("t", b"")] * 3), SendOnce(1, [Message("t", b"")] * 3, [1, 2, 3])])
def test_messages_inside_channels_are_counted(command: Command) -> None:
    stage = Stage()
    stage.send("a", command)
    assert stage.counters.messages_in == 3


def test_a_client_that_disconnects_ends_its_channel_alone() -> None:
    stage = Stage()
    first, second = stage.send("a", Asked()), stage.send("b", Asked())
    stage.send("a", Disconnected("normal"))
    assert (first.closed, second.closed, stage.connection.closed) == (True, False, False)
    assert stage.counters.disconnects == {"normal": 1}
    assert stage.send("a", Asked()) is not first


@pytest.mark.parametrize(("answers", "told"), [([Refused(1, REFUSED)], True), ([Refused(1, REFUSED), Done(2)], False)])
def test_an_end_right_after_a_refusal_is_counted_as_told(answers: list[Event], told: bool) -> None:
    stage = Stage()
    client = stage.send("a", Asked())
    for answer in answers:
        client.answer(answer)
    stage.send("a", Disconnected("protocol-error"))
    assert stage.counters.disconnects == {"protocol-error": 1}
    assert stage.counters.refusals == {"not-allowed": 1} | ({} if told else {"protocol-error": 1})


def test_the_end_of_the_connection_ends_the_sessions_that_are_left() -> None:
    stage = Stage()
    gone, left = stage.send("a", Asked()), stage.send("b", Asked())
    stage.send("a", Disconnected("normal"))
    del stage.handled[:]
    stage.connection.end()
    assert stage.handled == [(left, Disconnected("lost"))]
    assert (gone.closed, left.closed) == (True, True)
    assert stage.counters.disconnects == {"normal": 1, "lost": 1}


def test_connections_do_not_share_channels_of_the_same_name() -> None:
    stage = Stage()
    first = stage.send("a", Asked())
    stage.connection = ClientConnection("websocket", RecordingDriver())
    assert stage.send("a", Asked()) is not first
    stage.connection.end()
    assert not first.closed
