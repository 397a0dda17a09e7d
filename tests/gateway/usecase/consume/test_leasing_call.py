"""Messages that were leased for a client which has gone before they could be delivered."""

from __future__ import annotations

from domain.command import Pull, Receive
from domain.event import Received
from tests.gateway.usecase.bench import Bench
from tests.gateway.usecase.consume.test_sharing import Puller, group, names, receive
from tests.gateway.usecase.event_recorder import EventRecorder, only

__all__ = ["group"]


def test_messages_leased_for_a_client_that_has_gone_wake_a_waiting_member_and_count_no_attempt(group: Bench) -> None:
    gone, other = EventRecorder(), EventRecorder()
    group.handler.handle(gone.connection, Receive(1, "g", "t", 32, 60_000, from_first=True))
    gone.connection.end()
    group.handler.handle(other.connection, Receive(2, "g", "t", 32, 60_000, 5_000, from_first=True))
    group.clock.run_for(50)
    assert gone.take() == []
    received = only(Received, other.take())
    assert names(received.messages) == [str(number) for number in range(10)]
    assert {message.attempt for message in received.messages} == {1}
    assert group.handler.counters.sums()[1][0] == 10


def test_messages_pulled_over_a_connection_that_has_gone_wake_a_waiting_member_and_count_no_attempt(group: Bench) -> None:
    receive(group, 1)  # from here on, members that pull lease
    puller, gone, other = Puller(group), EventRecorder(), EventRecorder()
    group.handler.handle(gone.connection, Pull(1, "g", "t", 0, 0, 32, 0, member=puller.member))
    group.handler.handle(other.connection, Receive(2, "g", "t", 32, 60_000, 5_000, from_first=True))
    gone.connection.end()
    group.clock.run_for(50)
    assert gone.take() == []
    received = only(Received, other.take())
    assert names(received.messages) == [str(number) for number in range(1, 10)]
    assert {message.attempt for message in received.messages} == {1}
