"""What the pump counts, refused connections, throttled connections and revoked access."""

from __future__ import annotations

from domain.access.principal import GATEWAY, Principal
from domain.address import network_of_host
from domain.client.mqtt_session import AccessRevoked, Deliveries, ReadingResumed, SendOnce
from domain.command import Disconnected, Send
from domain.delivery.routed import Delivery, RoutedRecord
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused, Sent, WatchedMessages
from domain.limits import SECOND_NS
from domain.message.message import Message
from domain.message.record import Record
from domain.refusal import Ending
from gateway.connection.pump import Pump
from protocols.adapter import Peer
from tests.gateway.bench import Bench
from tests.gateway.scripted import FakeTransport, ScriptedConnection


def test_messages_and_refusals_are_counted() -> None:
    bench = Bench().open()
    bench.connection.commands = [Send(1, [Message("t", b"a"), Message("t", b"b")])]
    bench.pump.data_received(b"12345")
    bench.pump.client.answer(Sent(1, []))
    bench.pump.client.answer(WatchedMessages(2, [b"r", b"r", b"r"]))
    bench.pump.client.answer(Refused(3, Failure(ErrorCode.TOPIC_NOT_FOUND)))
    assert (bench.counters.messages_in, bench.counters.messages_out, bench.counters.bytes_in) == (2, 3, 5)
    assert bench.counters.refusals == {"topic-not-found": 1}


def test_what_sessions_send_and_get_is_counted() -> None:
    bench = Bench().open()
    bench.connection.commands = [SendOnce(1, [Message("t", b""), Message("t", b"")], [1, 2])]
    bench.pump.data_received(b"x")
    delivery = Delivery(RoutedRecord(Record(bytes(100)), b"", "t", 0), 0, 0, False, False, ())
    bench.pump.client.answer(Deliveries([delivery, delivery, delivery]))
    assert (bench.counters.messages_in, bench.counters.messages_out) == (2, 3)


def test_one_connection_too_many_is_closed_and_counted() -> None:
    bench = Bench(connections_max=1).open()
    second, transport = bench.another(), FakeTransport()
    second.connection_made(transport)
    assert transport.aborted
    second.connection_lost(None)
    assert bench.counters.refusals == {"connections-max": 1}
    assert bench.counters.connections_open == 1


def test_who_has_gone_before_it_was_accepted_is_not_read() -> None:
    bench, transport = Bench(), FakeTransport("")
    bench.connection.commands = [Send(1, [Message("t", b"a")])]
    bench.pump.connection_made(transport)
    bench.pump.data_received(b"x")
    bench.clock.run_turn()
    assert transport.aborted
    bench.pump.connection_lost(None)
    assert (bench.peer, bench.connection.received, bench.handler.commands) == (None, [], [])
    assert bench.counters.disconnects == {"reset": 1}
    assert bench.counters.connections_open == 0


class Bouncer:
    """An admission check that admits a number of connections and lists those that are open."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.inside: list[str] = []

    def enter(self, host: str, now: int) -> Ending | None:
        if len(self.inside) >= self.most:
            return Ending.CONNECT_RATE
        self.inside.append(host)
        return None

    def leave(self, host: str) -> None:
        self.inside.remove(host)


def test_who_is_turned_away_at_the_door_hears_nothing_and_is_counted() -> None:
    bench = Bench()
    admission_check = bench.context.limits.admission_check = Bouncer(1)
    bench.open()
    other, transport = bench.another(), FakeTransport()
    other.connection_made(transport)
    other.data_received(b"x")
    bench.clock.run_turn()
    assert (transport.aborted, transport.writes) == (True, [])
    assert bench.counters.refusals == {"connect-rate": 1}
    assert admission_check.inside == ["10.1.2.3"]
    other.connection_lost(None)
    bench.pump.connection_lost(None)
    assert admission_check.inside == []


class Fronted(ScriptedConnection):
    """A connection through a proxy: `protocol` and `peer` are the client's once the proxy's header has come."""

    protocol, peer = "", Peer("10.1.2.3", 4567, b"")

    @property
    def chosen(self) -> Fronted:
        return self


def test_a_client_behind_a_proxy_is_asked_for_by_its_own_address_once_that_is_known() -> None:
    bench = Bench()
    doors = bench.context.limits.admission_check = Bouncer(1)
    bench.context.limits.is_proxy = lambda host: host == "10.1.2.3"
    for is_admitted in (True, False):
        fronted, transport = Fronted(), FakeTransport("10.1.2.3")
        pump = Pump(bench.context, "test", lambda peer, now, fronted=fronted: fronted, {"mqtt": "test"})  # type: ignore[misc]
        pump.connection_made(transport)
        assert not transport.aborted, "proxies are not asked for"
        fronted.protocol, fronted.peer, fronted.commands = "mqtt", Peer("203.0.113.9", 1, b""), [Send(1, [Message("t", b"a")])]
        pump.data_received(b"x")
        assert transport.aborted is not is_admitted
        assert (pump.client.host == network_of_host("203.0.113.9")) is is_admitted
    assert doors.inside == ["203.0.113.9"]
    assert bench.counters.refusals == {"connect-rate": 1}
    assert len(bench.handler.commands) == 1


def test_connection_that_rests_is_read_again_and_excused_when_it_is_over() -> None:
    bench = Bench().open()
    bench.pump.driver.throttle(bench.clock.monotonic_ns() + SECOND_NS)
    bench.pump.driver.throttle(bench.clock.monotonic_ns() + 1)
    assert not bench.transport.reading
    bench.clock.run_ns(SECOND_NS // 2)
    assert not bench.transport.reading
    bench.clock.run_ns(SECOND_NS)
    assert bench.transport.reading
    assert bench.connection.answered == [ReadingResumed()]


def test_deadline_of_a_connection_that_rests_is_asked_for_again_once_it_is_excused() -> None:
    bench = Bench().open()
    bench.connection.when = bench.clock.monotonic_ns() + SECOND_NS
    bench.pump.client.answer(Done(1))
    bench.clock.run_turn()
    bench.pump.driver.throttle(bench.clock.monotonic_ns() + 5 * SECOND_NS)
    bench.connection.at_expiry = [Disconnected("keep-alive")]
    bench.clock.run_ns(SECOND_NS)
    assert ReadingResumed() in bench.connection.answered


def test_expelled_connection_says_its_word_and_ends() -> None:
    bench = Bench().open()
    failure = Failure(ErrorCode.NOT_ALLOWED, "gone")
    bench.pump.driver.revoke_access(failure)
    bench.pump.driver.revoke_access(failure)
    bench.clock.run_turn()
    assert bench.connection.answered == [AccessRevoked(failure)]
    assert bench.transport.writes == [b"answer"]
    assert [end.reason for end in bench.ends] == ["revoked"]
    assert bench.transport.closing


def test_refusal_that_ends_its_connection_is_counted_once() -> None:
    bench = Bench().open()
    bench.pump.client.answer(Refused(1, Failure(ErrorCode.NOT_ALLOWED)))
    bench.connection.at_expiry = [Disconnected("not-allowed")]
    bench.connection.when = bench.clock.monotonic_ns()
    bench.clock.run_turn()
    bench.clock.run_ns(1)
    assert bench.counters.disconnects == {"not-allowed": 1}
    assert bench.counters.refusals == {"not-allowed": 1}


def sent_by(principal: Principal | None) -> Send:
    """A message of somebody."""
    command = Send(1, [Message("t", b"a")])
    command.principal = principal
    return command


def test_a_client_counts_among_the_unknown_until_a_command_of_somebody_comes_or_it_goes() -> None:
    bench = Bench(controlled=True).open()
    shares = bench.context.limits.unauthenticated
    assert shares is not None
    assert shares.bytes_held == 1
    for principal, held in ((None, 1), (GATEWAY, 1), (Principal("alice", "10.0.0.1"), 0)):
        bench.connection.commands = [sent_by(principal)]
        bench.pump.data_received(b"x")
        assert shares.bytes_held == held
    other = bench.another()
    other.connection_made(FakeTransport())
    assert shares.bytes_held == 1
    other.connection_lost(None)
    assert shares.bytes_held == 0


def test_a_client_that_others_know_is_none_of_the_unknown() -> None:
    bench = Bench(controlled=True).open()
    bench.pump.client.known_elsewhere = True
    bench.connection.commands = [sent_by(None)]
    bench.pump.data_received(b"x")
    assert bench.context.limits.unauthenticated is not None
    assert bench.context.limits.unauthenticated.bytes_held == 0


def test_one_unknown_client_too_many_is_closed_and_counted() -> None:
    bench = Bench(connections_max=16, controlled=True)
    transports = [FakeTransport() for _ in range(5)]
    for each in transports:
        bench.another().connection_made(each)
    assert [each.aborted for each in transports] == [False] * 4 + [True]
    assert bench.counters.refusals == {"unauthenticated-connections": 1}
