"""Messages that a gateway has sent behind one that the store refuses: not stored where the refusal ends the connection."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from domain.client.mqtt_session import Attach, EndsAt, SendOnce
from domain.command import Command, Send
from domain.errors import ErrorCode
from domain.event import Done, Event, Refused, Sent
from domain.message.message import Message
from domain.topic.topic import PERM_READ, Topic
from domain.walk import Walk
from protocols.remoting.nodes.forwarding.stream import UNSIZED, VERSION
from tests.gateway.cluster.forwarding.test_forwarder import Two
from tests.gateway.usecase.event_recorder import EventRecorder


class Scene:
    """An MQTT client at a gateway, and topic T, which takes no messages at first. The gateway hears the store late."""

    def __init__(self, ends_at: EndsAt, versions: tuple[int, ...] = (VERSION, UNSIZED)) -> None:
        self.two = two = Two(versions=versions)
        self.recorder = EventRecorder("mqtt")
        self.perm(PERM_READ)
        attach = Attach(1, "device", False, 100, 10)
        attach.ends_at = ends_at
        self.ask(attach)
        two.clock.run_for(50)
        self.recorder.take()
        self._late: list[bytes] = []
        self._heard = two.link.frame
        two.link.frame = self._late.append  # type: ignore[method-assign, assignment]

    def perm(self, perm: int) -> None:
        """Topic T takes messages, or does not."""
        made: list[object] = []
        self.two.parts.store.metadata.put_topic(Topic("T", perm=perm), made.append)
        self.two.clock.run_for(50)
        assert made == [None]

    def ask(self, command: Command) -> None:
        """A command of the client."""
        self.two.gateway.handle(self.recorder.connection, command)

    def answers(self) -> Sequence[Event]:
        """What the client is told, now that the gateway hears the store again."""
        self.two.clock.run_for(50)
        self.two.link.frame = self._heard  # type: ignore[method-assign]
        for body in self._late:
            self._heard(body)
        self.two.clock.run_for(50)
        return self.recorder.take()


def once(ticket: object, packet_id: int, body: bytes) -> SendOnce:
    return SendOnce(ticket, [Message("T", body)], [packet_id])


def send(ticket: object, body: bytes) -> Command:
    return Send(ticket, [Message("T", body)])


@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_behind_a_refused_one_is_not_stored_although_the_store_would_take_it_now(qos: int) -> None:
    scene = Scene(EndsAt.ALL)
    scene.ask(send(2, b"one") if qos == 1 else once(2, 1, b"one"))
    scene.two.clock.run_for(20)
    scene.perm(6)
    scene.ask(send(3, b"two") if qos == 1 else once(3, 2, b"two"))
    refused = [event for event in scene.answers() if isinstance(event, Refused)]
    assert [(event.ticket, event.failure.code) for event in refused] == [
        (2, ErrorCode.NOT_ALLOWED),
        (3, ErrorCode.NOT_ALLOWED),
    ]
    assert scene.two.bodies("T") == []


@pytest.mark.parametrize("ends_at", [EndsAt.NONE, EndsAt.UNSURE])
def test_where_the_refusal_has_an_answer_of_its_own_the_next_message_is_stored(ends_at: EndsAt) -> None:
    scene = Scene(ends_at)
    scene.ask(once(2, 1, b"one"))
    scene.two.clock.run_for(20)
    scene.perm(6)
    scene.ask(once(3, 2, b"two"))
    assert [type(event) for event in scene.answers()] == [Refused, Done]
    assert scene.two.bodies("T") == [b"two"]


def test_frames_of_version_1_have_no_place_for_it() -> None:
    scene = Scene(EndsAt.ALL, (UNSIZED,))
    scene.ask(send(2, b"one"))
    scene.two.clock.run_for(20)
    scene.perm(6)
    scene.ask(send(3, b"two"))
    assert [type(event) for event in scene.answers()] == [Refused, Sent]
    assert scene.two.bodies("T") == [b"two"]


def test_a_message_behind_those_that_a_lost_store_has_not_answered_is_refused() -> None:
    """Clients of a lost store begin again one by one. What one sends before its turn is no message of a new connection."""
    scene = Scene(EndsAt.ALL)
    two = scene.two
    scene.ask(send(2, b"one"))
    two.clock.run_for(20)
    two.link.frame = scene._heard  # type: ignore[method-assign]
    two.disk = two.disk.killed(two.clock)
    two.parts = two.store()
    two.link.store = two.parts.gate
    scene.perm(6)
    walks: list[Walk] = []
    two.gateway._walks.begin = walks.append  # type: ignore[method-assign, assignment]
    two.link.hang_up()
    two.clock.run_for(500)
    scene.ask(send(3, b"two"))
    for _ in walks.pop():
        two.clock.run_for(1)
    assert [(event.ticket, event.failure.code) for event in scene.recorder.take() if isinstance(event, Refused)] == [
        (3, ErrorCode.STORE_UNAVAILABLE),
        (2, ErrorCode.STORE_UNAVAILABLE),
    ]
    assert two.bodies("T") == []
