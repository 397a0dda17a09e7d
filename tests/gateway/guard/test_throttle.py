"""The throttle: which bucket counts, which clients wait, and which are refused."""

from __future__ import annotations

import pytest

from domain.access.principal import Principal
from domain.admin.topic import ListTopics, PutTopic
from domain.client.mqtt_session import (
    Attach,
    ConfirmDeliveries,
    MqttSubscription,
    SendOnce,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from domain.command import Acknowledge, Command, DeadLetter, Receive, Send
from domain.errors import ErrorCode
from domain.event import Refused
from domain.limits import SECOND_NS
from domain.message.message import SYS_PREPARED, Message
from domain.message.receipt import Receipt
from domain.topic.topic import Topic
from gateway.connection.client_connection import ClientConnection
from gateway.guard.settings import Excess, LimitsSettings
from gateway.guard.throttle import LONG_DEBT_NS, Log, Throttle
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


RECEIPT = Receipt(1, 2, 3, 4, 0, "b", 0, 0)


class WritingHandler(RecordingHandler):
    """A handler that accepts everything, and writes `each` bytes for a command that is no message."""

    def __init__(self) -> None:
        super().__init__()
        self.each = self.written = 0

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Handler."""
        super().handle(connection, command)
        self.written += self.each


class Stage:
    """A throttle before a handler that accepts everything."""

    def __init__(self, limits: LimitsSettings, each: int = 0) -> None:
        self.clock = VirtualClock()
        self.handler = WritingHandler()
        self.handler.each = each
        self.throttle = Throttle(limits, self.handler, self.clock, Log(lambda: self.handler.written))

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


def subscribe(count: int = 1) -> Subscribe:
    return Subscribe("ticket", [MqttSubscription(f"f{number}", 0) for number in range(count)])


def put() -> PutTopic:
    return PutTopic("ticket", Topic("t", 1, 1))


def test_a_command_that_sets_something_counts_as_a_message_and_is_refused() -> None:
    stage = Stage(LimitsSettings(messages_per_s=1, burst_s=1))
    connection, recorder = stage.connection("http")
    stage.throttle.handle(connection, put())
    stage.throttle.handle(connection, put())
    stage.throttle.handle(connection, batch(1))
    assert refusals(recorder) == [ErrorCode.RATE] * 2
    assert len(stage.handler.commands) == 1
    assert stage.throttle.figures()["rate_refused_total"] == 2


def test_a_command_counts_the_bytes_that_it_has_written() -> None:
    stage = Stage(LimitsSettings(bytes_per_s=1_000, burst_s=1), each=3_000)
    connection, recorder = stage.connection("remoting")
    stage.throttle.handle(connection, put())
    stage.throttle.handle(connection, batch(1, 0))
    assert refusals(recorder) == [ErrorCode.RATE]
    stage.clock.run_ns(2 * SECOND_NS + SECOND_NS // 500)
    stage.throttle.handle(connection, put())
    assert len(stage.handler.commands) == 2
    assert stage.throttle.figures()["rate_charged_bytes_total"] == 6_000


def test_subscriptions_are_refused_one_by_one_or_the_client_waits() -> None:
    stage = Stage(LimitsSettings(messages_per_s=1, burst_s=1, mqtt_excess="refuse"))
    connection, recorder = stage.connection("mqtt")
    stage.throttle.handle(connection, subscribe())
    stage.throttle.handle(connection, subscribe(3))
    (answer,) = recorder.recorded
    assert isinstance(answer, Subscribed)
    assert [failure and failure.code for failure in answer.outcomes] == [ErrorCode.QUOTA] * 3

    stage = Stage(LimitsSettings(messages_per_s=1, burst_s=1))
    connection, recorder = stage.connection("mqtt")
    for _ in range(3):
        stage.throttle.handle(connection, subscribe())
    assert recorder.recorded == []
    assert recorder.throttled_until_ns[-1] == stage.clock.monotonic_ns() + 3 * SECOND_NS


def test_connects_of_one_user_are_refused_once_they_would_wait_too_long() -> None:
    """Each comes on a connection of its own, which no delay of the one before holds up."""
    stage = Stage(LimitsSettings(user_messages_per_s=1, burst_s=1))
    codes: list[ErrorCode] = []
    for number in range(20):
        connection, recorder = stage.connection("mqtt", "alice")
        command: Command = Attach("ticket", f"c{number}", True, 0, 10)
        stage.throttle.handle(connection, command)
        codes += refusals(recorder)
    assert len(stage.handler.commands) == 1 + LONG_DEBT_NS // SECOND_NS
    assert codes == [ErrorCode.RATE] * (20 - len(stage.handler.commands))


def test_an_address_pays_for_all_its_connections_and_users() -> None:
    stage = Stage(LimitsSettings(address_messages_per_s=1, burst_s=1))
    answers: list[list[ErrorCode]] = []
    for host, user in (("10.0.0.1", "alice"), ("10.0.0.1", "bob"), ("10.0.0.2", "bob")):
        connection, recorder = stage.connection("http", user)
        connection.host = host
        stage.throttle.handle(connection, put())
        answers.append(refusals(recorder))
    assert answers == [[], [ErrorCode.RATE], []]


def test_an_address_behind_a_datagram_port_is_that_of_the_peer() -> None:
    stage = Stage(LimitsSettings(address_messages_per_s=1, burst_s=1))
    connection, recorder = stage.connection("coap", shared=True)
    for host in (b"\x0a\x00\x00\x01\x00\x00\x00\x01", b"\x0a\x00\x00\x02\x00\x00\x00\x01"):
        connection.sender = host
        stage.throttle.handle(connection, put())
    assert recorder.recorded == []
    connection.sender = b""
    stage.throttle.handle(connection, batch(1, host=b"\x0a\x00\x00\x01\x00\x00\x00\x09"))
    assert refusals(recorder) == [ErrorCode.RATE]


def test_who_reads_is_not_slowed_by_a_rate_of_messages_and_never_refused_for_a_short_debt() -> None:
    stage = Stage(LimitsSettings(messages_per_s=1, bytes_per_s=1_000, burst_s=1))
    connection, recorder = stage.connection("http")
    done = Acknowledge("ticket", "g", "t", [RECEIPT] * 10)
    for _ in range(3):
        stage.throttle.handle(connection, done)
    assert recorder.recorded == []
    assert recorder.throttled_until_ns, "1,920 bytes of 64 for a receipt"
    stage.throttle.handle(connection, Acknowledge("ticket", "g", "t", [RECEIPT] * 200))
    stage.throttle.handle(connection, done)
    assert refusals(recorder) == [ErrorCode.RATE], "the debt is longer than ten seconds"


def test_what_ends_something_and_what_cannot_be_refused_is_charged_and_passes() -> None:
    stage = Stage(LimitsSettings(messages_per_s=1, burst_s=1, mqtt_excess="refuse"))
    connection, recorder = stage.connection("mqtt")
    for _ in range(4):
        stage.throttle.handle(connection, Unsubscribe("ticket", ["f"]))
    stage.throttle.handle(connection, ConfirmDeliveries([1, 2]))
    assert len(stage.handler.commands) == 5
    stage.throttle.handle(connection, batch(1))
    assert refusals(recorder) == [ErrorCode.QUOTA]


def test_a_command_that_writes_now_and_then_is_charged_when_it_does() -> None:
    stage = Stage(LimitsSettings(messages_per_s=1, burst_s=1))
    connection, recorder = stage.connection("remoting")
    for _ in range(3):
        stage.throttle.handle(connection, Receive("ticket", "g", "t", 1, 1_000))
    assert recorder.throttled_until_ns == []
    stage.handler.each = 400
    for _ in range(2):
        stage.throttle.handle(connection, Receive("ticket", "g2", "t", 1, 1_000))
    assert recorder.recorded == []
    assert recorder.throttled_until_ns[-1] == stage.clock.monotonic_ns() + 2 * SECOND_NS
    stage.throttle.handle(connection, put())
    assert refusals(recorder) == [ErrorCode.RATE]


def test_a_half_message_counts_twice_and_a_copied_body_when_it_is_stored() -> None:
    stage = Stage(LimitsSettings(bytes_per_s=1_000, burst_s=1))
    connection, recorder = stage.connection("remoting")
    stage.throttle.handle(connection, Send("ticket", [Message("t", bytes(500), sys_flag=SYS_PREPARED)]))
    stage.throttle.handle(connection, batch(1, 0))
    assert refusals(recorder) == [ErrorCode.RATE]
    stage.clock.run_ns(SECOND_NS)
    stage.throttle.handle(connection, DeadLetter("ticket", "g", "t", RECEIPT))
    connection.wrote(4_000)
    stage.throttle.handle(connection, batch(1, 0))
    assert refusals(recorder) == [ErrorCode.RATE] * 2


def test_buckets_end_with_their_connection() -> None:
    stage = Stage(LimitsSettings(messages_per_s=1, burst_s=1))
    connection, _ = stage.connection("http")
    stage.throttle.handle(connection, batch(1))
    assert len(stage.throttle._connections) == 1
    connection.end()
    assert len(stage.throttle._connections) == 0
