"""Settings of gRPC clients without the right to them, and the calls that other tests send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message as Proto

from protocols.grpc.messages import messaging_pb2 as pb
from protocols.remoting import codes
from tests.simulation.channel import Channel
from tests.simulation.test_forbidden import GROUP, RECEIPT, TOPIC, Scene

STREAMED = {"ReceiveMessage", "Telemetry"}
HANDLE = f"{RECEIPT} 0"


def topic(name: str = TOPIC) -> pb.Resource:
    return pb.Resource(name=name)


def message() -> pb.Message:
    made = pb.Message(topic=topic(), body=b"body")
    made.system_properties.message_id = "0" * 16
    made.system_properties.message_type = pb.NORMAL
    return made


def receive() -> pb.ReceiveMessageRequest:
    made = pb.ReceiveMessageRequest(group=topic(GROUP), batch_size=1)
    made.message_queue.topic.name, made.message_queue.id = TOPIC, -1
    made.filter_expression.expression = "*"
    made.invisible_duration.seconds, made.long_polling_timeout.seconds = 30, 1
    return made


def extension() -> pb.ChangeInvisibleDurationRequest:
    made = pb.ChangeInvisibleDurationRequest(group=topic(GROUP), topic=topic(), receipt_handle=HANDLE, message_id="m")
    made.invisible_duration.seconds = 30
    return made


def consumer() -> pb.TelemetryCommand:
    made = pb.TelemetryCommand()
    made.settings.client_type = pb.SIMPLE_CONSUMER
    made.settings.subscription.group.name = GROUP
    made.settings.subscription.subscriptions.add().topic.name = TOPIC
    return made


CALLS: dict[str, Callable[[], Proto]] = {
    "QueryRoute": lambda: pb.QueryRouteRequest(topic=topic()),
    "Heartbeat": lambda: pb.HeartbeatRequest(group=topic(GROUP), client_type=pb.SIMPLE_CONSUMER),
    "SendMessage": lambda: pb.SendMessageRequest(messages=[message()]),
    "QueryAssignment": lambda: pb.QueryAssignmentRequest(topic=topic(), group=topic(GROUP)),
    "ReceiveMessage": receive,
    "AckMessage": lambda: pb.AckMessageRequest(
        group=topic(GROUP), topic=topic(), entries=[pb.AckMessageEntry(message_id="m", receipt_handle=HANDLE)]
    ),
    "ForwardMessageToDeadLetterQueue": lambda: pb.ForwardMessageToDeadLetterQueueRequest(
        group=topic(GROUP), topic=topic(), receipt_handle=HANDLE, message_id="m", delivery_attempt=1, max_delivery_attempts=1
    ),
    "Telemetry": consumer,
    "NotifyClientTermination": lambda: pb.NotifyClientTerminationRequest(group=topic(GROUP)),
    "ChangeInvisibleDuration": extension,
    "RecallMessage": lambda: pb.RecallMessageRequest(
        topic=topic(), recall_handle="djEgc2ltIGJyb2tlci1hIDE3MDAwMDAwMDAwMDEgdQ=="
    ),
    "SyncLiteSubscription": lambda: pb.SyncLiteSubscriptionRequest(
        action=pb.PARTIAL_ADD, topic=topic(), group=topic(GROUP), lite_topic_set=["l"]
    ),
}
AFTER_SETTINGS = {"Heartbeat", "NotifyClientTermination"}
"""Calls of a client that is known by its settings. Without settings they do nothing for any user."""


def channel(scene: Scene, name: str, user: tuple[str, str], settings: pb.Settings | None = None) -> Channel:
    class Signed(Channel):
        pass

    Signed.user, Signed.password = user
    return Signed(scene.world, name, settings)


def statuses(there: Channel, name: str) -> set[int]:
    """The codes of the answers to a call. A Telemetry stream gets its code as a message."""
    if name == "Telemetry":
        there.world.clock.run_for(2_000)
        return {each.status.code for each in there.notified}
    kind: Any = getattr(pb, f"{name}Response")
    told = there.stream(name, CALLS[name](), kind)
    return {each.status.code for each in told if name not in STREAMED or each.HasField("status")}


@pytest.mark.parametrize("name", sorted(AFTER_SETTINGS))
def test_a_client_whose_settings_were_refused_stays_outside(name: str) -> None:
    scene = Scene()
    there = channel(scene, "client", ("alice", "alice"), consumer().settings)
    scene.world.clock.run_for(2_000)
    assert [each.status.code for each in there.notified] == [pb.UNAUTHORIZED]
    assert statuses(there, name) == {pb.UNRECOGNIZED_CLIENT_TYPE}
    assert scene.root.call(codes.GET_MEMBERS, {"consumerGroup": GROUP}).code == 1, "there is nobody in the group"


def test_settings_that_were_refused_do_not_take_the_place_of_another_client() -> None:
    """Another user sends settings with the same client id, which is not secret."""
    scene = Scene()
    there = channel(scene, "client", ("root", "wonderland"), consumer().settings)
    scene.world.clock.run_for(2_000)
    other = consumer()
    other.settings.subscription.group.name = "another"
    thief = channel(scene, "client", ("alice", "alice"), other.settings)
    scene.world.clock.run_for(2_000)
    assert [each.status.code for each in thief.notified] == [pb.UNAUTHORIZED]
    assert statuses(there, "Heartbeat") == {pb.OK}
    assert scene.root.call(codes.GET_MEMBERS, {"consumerGroup": GROUP}).code == 0
    assert scene.root.call(codes.GET_MEMBERS, {"consumerGroup": "another"}).code == 1, "the first one is what it was"


def test_a_producer_hears_when_it_makes_itself_known_that_it_may_not_send() -> None:
    scene = Scene()
    wanted = pb.Settings(client_type=pb.PRODUCER)
    wanted.publishing.topics.add().name = TOPIC
    denied = channel(scene, "producer", ("alice", "alice"), wanted)
    granted = channel(scene, "other", ("root", "wonderland"), wanted)
    scene.world.clock.run_for(2_000)
    assert [each.status.code for each in denied.notified] == [pb.UNAUTHORIZED]
    assert [(each.status.code, each.HasField("settings")) for each in granted.notified] == [(pb.OK, True)]
