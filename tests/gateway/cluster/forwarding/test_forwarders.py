"""A gateway with several connections to its store: each client stays with one; what happens to one concerns its own only."""

from __future__ import annotations

from collections.abc import Sequence

from domain.client.mqtt_session import Attach, Attached
from domain.command import Disconnected, QueryLatest, Watch
from domain.event import Refused, Sent, WatchedMessages, WatchStarted
from domain.limits import SECOND_NS
from domain.store.store_ports import StateChange
from gateway.cluster.forwarding.forwarder import HELD_BYTES_MAX
from gateway.cluster.forwarding.forwarders import Forwarders
from gateway.cluster.forwarding.traffic import Traffic
from gateway.connection.client_connection import ClientConnection
from protocols.remoting.nodes.forwarding.stream import UNSIZED, VERSIONS
from tests.far_node import NodeLink, life
from tests.gateway.cluster.forwarding.test_forwarder import Two, send
from tests.gateway.usecase.event_recorder import EventRecorder

LARGE = bytes(1 << 20)


class Several(Two):
    """A node with a store, and a gateway with three connections to it."""

    def __init__(self, versions: tuple[int, ...] = VERSIONS) -> None:
        super().__init__()
        self.link.die()
        self.lost: list[tuple[str, Sequence[ClientConnection]]] = []
        lives = [life() for _ in range(3)]
        self.counted = Traffic()
        self.pool = Forwarders(
            self.clock, "DefaultCluster", "gateway", lives, versions, lambda *lost: self.lost.append(lost), lambda: self.counted
        )
        self.links = [NodeLink(self.parts.gate, self.clock, seed, forwarder=each) for seed, each in enumerate(self.pool.each)]
        self.clock.run_for(100)

    def client(self) -> EventRecorder:
        """A client that the store knows."""
        recorder = EventRecorder()
        self.pool.handle(recorder.connection, QueryLatest(0, "T"))
        self.clock.run_for(5)
        assert len(recorder.take()) == 1
        return recorder

    def number(self, recorder: EventRecorder) -> int:
        """The connection that a client is with."""
        return self.pool.each.index(self.pool._of[recorder.connection])


def test_clients_are_spread_and_stay_where_they_are() -> None:
    two = Several()
    clients = [two.client() for _ in range(9)]
    where = [two.number(each) for each in clients]
    assert sorted(where) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    for turn in range(20):
        for client in clients:
            two.pool.handle(client.connection, send(turn, b"%d" % turn))
    two.clock.run_for(200)
    assert [[getattr(event, "ticket", None) for event in client.take()] for client in clients] == [list(range(20))] * 9
    assert [two.number(each) for each in clients] == where
    for client in clients:
        two.pool.handle(client.connection, Disconnected("left"))
    assert two.pool._of == {}
    assert [each.clients for each in two.pool.each] == [0, 0, 0]


def test_a_connection_that_hangs_delays_its_own_clients_only_and_new_ones_avoid_one_that_is_gone() -> None:
    two = Several()
    clients = [two.client() for _ in range(3)]
    by_connection = {two.number(each): each for each in clients}
    two.links[1].hang(5 * SECOND_NS)
    for client in clients:
        two.pool.handle(client.connection, send(1, b"x"))
    two.clock.run_for(100)
    answered = {number: len(client.take()) for number, client in by_connection.items()}
    assert answered == {0: 1, 1: 0, 2: 1}
    two.clock.run_for(5_000)
    assert [type(event) for event in by_connection[1].take()] == [Sent]
    two.links[1].hang_up(again_ns=60 * SECOND_NS)
    assert {two.number(two.client()) for _ in range(6)} == {0, 2}
    two.pool.handle(by_connection[1].connection, send(2, b"y"))
    two.clock.run_for(13_000)
    [(why, lost)] = two.lost
    assert "not been reached" in why
    assert list(lost) == [by_connection[1].connection]
    assert [type(event) for event in by_connection[1].take()] == [Refused]
    two.pool.handle(by_connection[0].connection, send(3, b"z"))
    two.clock.run_for(100)
    assert [type(event) for event in by_connection[0].take()] == [Sent]


def test_a_session_comes_back_over_the_connection_that_it_had() -> None:
    two = Several()
    for name in ("a", "b", "c", "d"):
        where = set()
        for turn in range(4):
            recorder = EventRecorder()
            two.pool.handle(recorder.connection, Attach(turn, name, False, 100, 10))
            where.add(two.number(recorder))
            two.pool.handle(recorder.connection, Disconnected("lost"))
        assert len(where) == 1
        recorder = EventRecorder()
        two.pool.handle(recorder.connection, Attach(9, name, False, 100, 10))
        two.clock.run_for(100)
        [event] = recorder.take()
        assert isinstance(event, Attached)
        assert event.session_present


def test_what_stands_for_many_peers_has_the_first_connection() -> None:
    two = Several()
    shared, other = EventRecorder(), two.client()
    shared.connection.shared = True
    two.client()
    two.pool.handle(shared.connection, Watch("w", "T/#"))
    assert two.number(shared) == 0
    two.clock.run_for(100)
    two.pool.handle(other.connection, send(None, b"x"))
    two.clock.run_for(100)
    assert [type(event) for event in shared.take()][:2] == [WatchStarted, WatchedMessages]


def test_a_store_that_starts_again_has_the_clients_of_all_connections_begin_again() -> None:
    two = Several()
    clients = [two.client() for _ in range(3)]
    two.disk = two.disk.killed(two.clock)
    two.parts = two.store()
    for link in two.links:
        link.store = two.parts.gate
        link.hang_up()
    two.clock.run_for(500)
    assert {connection for _, lost in two.lost for connection in lost} == {client.connection for client in clients}
    assert {why for why, _ in two.lost} == {"the store has started again, or another replica leads"}


def test_users_come_over_one_connection_whatever_the_store_sends() -> None:
    for versions in (VERSIONS, (UNSIZED,)):
        two = Several(versions)
        changed: list[tuple[bytes, bytes | None]] = []
        two.pool.state.follow("access", lambda key, value, told=changed: told.append((key, value)))  # type: ignore[misc]
        assert two.pool.state.ready
        user = b'{"name":"ann","password":"p"}'
        two.parts.store.state.put([StateChange("access", b"uann", user)], None)
        two.clock.run_for(50)
        assert changed == [(b"uann", user)]


def test_what_is_held_for_the_store_is_bounded_for_all_connections_together() -> None:
    two = Several()
    clients = [two.client() for _ in range(3)]
    for link in two.links:
        link.hang(9 * SECOND_NS)
    for number in range(2 * HELD_BYTES_MAX // len(LARGE)):
        two.pool.handle(clients[number % 3].connection, send(number, LARGE))
    assert HELD_BYTES_MAX // 2 < two.pool.unanswered_bytes() < HELD_BYTES_MAX + 4 * len(LARGE)
    refused = sum(isinstance(event, Refused) for client in clients for event in client.take())
    assert refused > 0
