"""A topic that is made anew under many sessions: each reads it from its begin, and no turn works on all of them."""

from __future__ import annotations

import pytest

from domain.admin.topic import DeleteTopic, PutTopic
from domain.client.mqtt_session import (
    Attach,
    Attached,
    ConfirmDeliveries,
    Deliveries,
    MqttSubscription,
    Subscribe,
    Subscribed,
)
from domain.command import Disconnected, Send
from domain.message.message import Message
from domain.message.record import Record
from domain.topic.topic import Topic
from domain.turn import WALKS_NS
from domain.walk import STEP_NS
from gateway.usecase.sessions.queue_restarts import RESTARTED
from tests.gateway.cluster.forwarding.test_forwarder import Two
from tests.gateway.usecase.event_recorder import EventRecorder

CLIENTS = 4_000


class Devices:
    """Durable sessions that have had some messages of a topic."""

    def __init__(self) -> None:
        self.two = Two()
        self.clock, self.handle = self.two.clock, self.two.parts.gate.handle
        self.admin = EventRecorder()
        self.put_topic()
        self.clients = [self.connect(number) for number in range(CLIENTS)]
        self.clock.run_for(3_000)
        assert all([type(event) for event in each.take()] == [Attached, Subscribed] for each in self.clients)
        self.send(b"old-0", b"old-1", b"old-2")
        assert [self.bodies(each) for each in self.clients] == [[b"old-0", b"old-1", b"old-2"]] * CLIENTS

    def put_topic(self) -> None:
        self.handle(self.admin.connection, PutTopic(1, Topic("T", 1, 1)))
        self.clock.run_turn()

    def connect(self, number: int) -> EventRecorder:
        found = EventRecorder("mqtt")
        self.handle(found.connection, Attach(1, f"device-{number}", False, 3_600, 1_000))
        self.handle(found.connection, Subscribe(2, [MqttSubscription("T", 1)]))
        return found

    def leave(self, client: EventRecorder) -> None:
        self.handle(client.connection, Disconnected("lost"))
        client.connection.end()
        self.clock.run_for(1_000)

    def return_of(self, client: EventRecorder) -> EventRecorder:
        """A new connection of the client."""
        found = EventRecorder("mqtt")
        self.handle(found.connection, Attach(1, f"device-{self.clients.index(client)}", False, 3_600, 1_000))
        self.clock.run_for(1_000)
        return found

    def send(self, *bodies: bytes) -> None:
        for body in bodies:
            self.handle(self.admin.connection, Send(1, [Message("T", body, queue_id=0)]))
        self.clock.run_for(1_000)

    def bodies(self, client: EventRecorder) -> list[bytes]:
        """What a client has got; it acknowledges all."""
        items = [each for event in client.take() if isinstance(event, Deliveries) for each in event.items]
        self.handle(client.connection, ConfirmDeliveries([each.slot for each in items]))
        return [Record(each.routed.record.data).body for each in items]

    def positions(self) -> list[int]:
        """Positions of the connected sessions in the queue."""
        sessions = self.two.parts.sessions._sessions.values()
        return [session.positions.get(("T", 0), 0) for session in sessions]


@pytest.fixture
def devices() -> Devices:
    return Devices()


def test_each_session_gets_all_of_the_new_topic_once_and_a_turn_restarts_a_share(devices: Devices) -> None:
    devices.handle(devices.admin.connection, DeleteTopic(1, "T"))
    devices.clock.run_for(100)
    devices.put_topic()
    devices.clock.run_until(lambda: devices.positions().count(0) > 0)

    def left() -> int:
        return CLIENTS - devices.positions().count(0)

    share = RESTARTED * WALKS_NS // STEP_NS
    assert CLIENTS - share <= left() < CLIENTS
    leaver = next(each for each in devices.clients if devices.two.parts.sessions._sessions[each.connection].positions["T", 0])
    walks = devices.two.parts.handler.walks
    stopped = list(walks._walks)
    walks._walks.clear()
    new = [b"new-%d" % number for number in range(6)]
    devices.send(*new)
    devices.leave(leaver)
    again = devices.return_of(leaver)
    assert devices.bodies(again) == new, "it was made to begin anew before it was stored"
    for walk in stopped:
        walks.begin(walk)
    devices.clock.run_for(1_000)
    assert devices.positions() == [len(new)] * CLIENTS, "nobody goes back behind what it was sent"
    devices.send(b"last")
    others = [each for each in devices.clients if each is not leaver]
    assert [devices.bodies(each) for each in (again, *others)] == [[b"last"], *([[*new, b"last"]] * len(others))]
    for each in others[-20:]:
        devices.leave(each)
        assert devices.bodies(devices.return_of(each)) == [], "none comes again"
