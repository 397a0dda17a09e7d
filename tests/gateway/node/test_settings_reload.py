"""Limits that a running node gets by a reload: they hold for whoever is connected, near or at a gateway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from domain.client.channel import ChannelCommand, ReadingPaused
from domain.command import Send
from domain.errors import ConfigError, ErrorCode
from domain.event import Event, Refused, Sent
from domain.message.message import Message
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import ConnectionContext
from gateway.connection.pump import Pump
from gateway.node.settings import Config
from gateway.node.settings_reload import SettingsReload
from tests.gateway.cluster.forwarding.test_forwarder import Two
from tests.gateway.scripted import FakeTransport, ScriptedConnection
from tests.gateway.usecase.event_recorder import EventRecorder

LIMITED = Config(tables={"limits": {"messages_per_s": 1, "burst_s": 1}})


def limited(two: Two, context: ConnectionContext) -> None:
    """Have the node with the store read settings with limits; it had none."""
    SettingsReload(Config(), lambda: LIMITED, two.parts, context).apply()


def context_of(two: Two) -> ConnectionContext:
    return ConnectionContext(two.parts.gate, two.clock, two.parts.counter_registry, ConnectionLimits(100))


def send(ticket: object) -> Send:
    return Send(ticket, [Message("T", b"x")])


def kinds(events: Iterable[Event]) -> Counter[object]:
    """How often: Sent, or the code of a refusal."""
    return Counter(event.failure.code if isinstance(event, Refused) else type(event) for event in events)


def test_a_rate_that_is_new_holds_for_clients_that_a_gateway_has() -> None:
    two, recorder = Two(), EventRecorder()
    two.gateway.handle(recorder.connection, send(0))
    two.clock.run_for(50)
    limited(two, context_of(two))
    for number in (1, 2):
        two.gateway.handle(recorder.connection, send(number))
    two.clock.run_for(50)
    assert kinds(recorder.take()) == {Sent: 2, ErrorCode.RATE: 1}


def test_a_rate_that_is_new_holds_for_open_connections() -> None:
    two = Two()
    context = context_of(two)
    connection = ScriptedConnection()
    pump = Pump(context, "remoting", lambda peer, now: connection)
    pump.connection_made(FakeTransport())
    limited(two, context)
    connection.commands = [send(1), send(2)]
    pump.data_received(b"x")
    two.clock.run_for(50)
    assert kinds(connection.answered) == {Sent: 1, ErrorCode.RATE: 1}


def test_a_rate_that_is_new_holds_for_channels_of_a_connection() -> None:
    two, recorder = Two(), EventRecorder("http")
    limited(two, context_of(two))
    for number in (1, 2):
        two.parts.gate.handle(recorder.connection, ChannelCommand("a", send(number)))
    paused = [event.ticket for event in recorder.take() if isinstance(event, ReadingPaused)]
    assert paused == ["a", "a"], "MQTT is not read from, for a second each time"


def test_a_node_whose_users_are_elsewhere_needs_none_in_its_settings() -> None:
    two = Two(config=Config(admin="root:r00t-and-branch"))
    assert two.parts.access is not None
    elsewhere = replace(two.parts, users_elsewhere=True)
    fresh = replace(LIMITED, admin="other:0ther-password")
    renewal = SettingsReload(Config(), lambda: fresh, elsewhere, context_of(two))
    renewal.apply()
    assert "other" not in two.parts.access.records.users
    SettingsReload(Config(), lambda: LIMITED, elsewhere, context_of(two)).apply()
    with pytest.raises(ConfigError, match="switched off"):
        SettingsReload(Config(), lambda: LIMITED, two.parts, context_of(two)).apply()
