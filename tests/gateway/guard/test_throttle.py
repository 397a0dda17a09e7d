"""The throttle: which bucket counts, which clients wait, and which are refused."""

from __future__ import annotations

import pytest

from domain.access.principal import Principal
from domain.admin.topic import ListTopics
from domain.client.mqtt_session import Attach, SendOnce
from domain.command import Command, Send
from domain.errors import ErrorCode
from domain.event import Refused
from domain.limits import SECOND_NS
from domain.message.message import Message
from gateway.connection.client_connection import ClientConnection
from gateway.guard.settings import Excess, LimitsSettings
from gateway.guard.throttle import Throttle
from tests.connection_driver import RecordingDriver
from tests.gateway.scripted import RecordingHandler
from tests.simulation.kit.clock import VirtualClock


class CallRecorder(RecordingDriver):
    """A driver that records its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.throttled_until_ns: list[int] = []

    def throttle(self, until_ns: int) -> None:
        self.throttled_until_ns.append(until_ns)


class Stage:
    """A throttle before a handler that accepts everything."""

    def __init__(self, limits: LimitsSettings) -> None:
        self.clock = VirtualClock()
        self.handler = RecordingHandler()
        self.throttle = Throttle(limits, self.handler, self.clock)

    def connection(self, protocol: str, user: str = "", shared: bool = False) -> tuple[ClientConnection, CallRecorder]:
        recorder = CallRecorder()
        return ClientConnection(protocol, recorder, Principal(user, "10.0.0.1") if user else None, shared), recorder


def batch(count: int, size: int = 1, host: bytes = b"") -> Send:
    """`count` messages of `size` bytes each."""
    return Send("ticket", [Message("t", b"x" * size, born_host=host) for _ in range(count)])


def refusals(recorder: CallRecorder) -> list[ErrorCode]:
    return [event.failure.code for event in recorder.recorded if isinstance(event, Refused)]


def test_request_beyond_the_rate_is_refused_and_costs_nothing() -> None:
    stage = Stage(LimitsSettings(messages_per_s=10, burst_s=1))
    connection, recorder = stage.connection("http")
    stage.throttle.handle(connection, batch(10))
    for _ in range(5):
        stage.throttle.handle(connection, batch(1))
    assert refusals(recorder) == [ErrorCode.RATE] * 5
    stage.clock.run_ns(SECOND_NS // 10 + 1)
    stage.throttle.handle(connection, batch(1))
    assert len(stage.handler.commands) == 2


def test_mqtt_is_not_read_until_its_debt_is_paid_and_nothing_is_refused() -> None:
    stage = Stage(LimitsSettings(messages_per_s=10, burst_s=1))
    connection, recorder = stage.connection("mqtt")
    stage.throttle.handle(connection, batch(10))
    assert recorder.throttled_until_ns == [stage.clock.monotonic_ns() + SECOND_NS // 10]
    stage.throttle.handle(connection, SendOnce("ticket", [Message("t", b"")] * 100, list(range(100))))
    assert recorder.throttled_until_ns[1] == stage.clock.monotonic_ns() + 10 * SECOND_NS + SECOND_NS // 10
    assert recorder.recorded == []
    assert len(stage.handler.commands) == 2


def test_mqtt_can_be_refused_or_closed_instead() -> None:
    told: list[tuple[Excess, ErrorCode]] = [("refuse", ErrorCode.QUOTA), ("close", ErrorCode.RATE)]
    for excess, code in told:
        stage = Stage(LimitsSettings(messages_per_s=1, burst_s=1, mqtt_excess=excess))
        connection, recorder = stage.connection("mqtt")
        stage.throttle.handle(connection, batch(1))
        stage.throttle.handle(connection, batch(1))
        assert refusals(recorder) == [code]
        assert recorder.throttled_until_ns == []


def test_bytes_are_those_of_bodies() -> None:
    stage = Stage(LimitsSettings(bytes_per_s=1_000, burst_s=1))
    connection, recorder = stage.connection("grpc")
    stage.throttle.handle(connection, batch(2, 600))
    stage.throttle.handle(connection, batch(1, 0))
    assert refusals(recorder) == [ErrorCode.RATE]


def test_user_pays_over_all_connections_and_others_do_not() -> None:
    stage = Stage(LimitsSettings(user_messages_per_s=10, burst_s=1))
    first, _ = stage.connection("remoting", "alice")
    second, recorder = stage.connection("http", "alice")
    third, other = stage.connection("http", "bob")
    stage.throttle.handle(first, batch(10))
    stage.throttle.handle(second, batch(1))
    stage.throttle.handle(third, batch(1))
    assert refusals(recorder) == [ErrorCode.RATE]
    assert other.recorded == []


def test_principal_of_a_command_comes_before_that_of_its_session() -> None:
    stage = Stage(LimitsSettings(user_messages_per_s=1, burst_s=1))
    connection, recorder = stage.connection("http", "alice")
    for _ in range(2):
        command = batch(1)
        command.principal = Principal("bob", "10.0.0.1")
        stage.throttle.handle(connection, command)
    stage.throttle.handle(connection, batch(1))
    assert refusals(recorder) == [ErrorCode.RATE]
    assert len(stage.handler.commands) == 2


def test_peers_of_a_datagram_port_pay_each_for_itself() -> None:
    stage = Stage(LimitsSettings(messages_per_s=1, burst_s=1))
    connection, recorder = stage.connection("coap", shared=True)
    for host in (b"\x0a\x00\x00\x01\x00\x00\x00\x01", b"\x0a\x00\x00\x02\x00\x00\x00\x01"):
        stage.throttle.handle(connection, batch(1, host=host))
    assert recorder.recorded == []
    stage.throttle.handle(connection, batch(1, host=b"\x0a\x00\x00\x01\x00\x00\x00\x01"))
    assert refusals(recorder) == [ErrorCode.RATE]


def test_who_expects_no_answer_gets_none() -> None:
    stage = Stage(LimitsSettings(messages_per_s=1, burst_s=1))
    connection, recorder = stage.connection("remoting")
    stage.throttle.handle(connection, batch(1))
    oneway = batch(1)
    oneway.wait = False
    stage.throttle.handle(connection, oneway)
    assert recorder.recorded == []
    assert len(stage.handler.commands) == 1


def test_other_commands_pass() -> None:
    stage = Stage(LimitsSettings(messages_per_s=1, burst_s=1))
    connection, _ = stage.connection("remoting")
    for _ in range(5):
        stage.throttle.handle(connection, ListTopics(1))
    assert len(stage.handler.commands) == 5


def test_flapping_client_is_held_off_and_another_users_is_not(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(LimitsSettings(flapping_connects=2, flapping_window_s=60, flapping_hold_s=10))
    recorded: list[list[ErrorCode]] = []
    for user in ("alice", "alice", "alice", "bob", "alice"):
        connection, recorder = stage.connection("mqtt")
        command: Command = Attach("ticket", "sensor", True, 0, 10)
        command.principal = Principal(user, "10.0.0.1")
        stage.throttle.handle(connection, command)
        recorded.append(refusals(recorder))
    assert recorded == [[], [], [ErrorCode.RATE], [], [ErrorCode.RATE]]
    assert stage.throttle.held_off == 2
    (line,) = caplog.messages
    assert line == (
        "client 'sensor' of user 'alice' is refused for 10 s: it connected too often: if it may, raise limits.flapping_connects"
    )


def test_buckets_end_with_their_connection() -> None:
    stage = Stage(LimitsSettings(messages_per_s=1, burst_s=1))
    connection, _ = stage.connection("http")
    stage.throttle.handle(connection, batch(1))
    assert len(stage.throttle._connections) == 1
    connection.end()
    assert len(stage.throttle._connections) == 0
