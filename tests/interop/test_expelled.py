"""Users that mqadmin disables or deletes while their clients are connected, and rate limits of RocketMQ clients."""

from __future__ import annotations

import hmac
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from protocols.grpc.messages import messaging_pb2 as pb
from tests.interop.grpc.setup import python_client
from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient
from tests.interop.test_guard import figure, refusal, start
from tests.interop.test_reload import Client
from tests.patience import until

pytestmark = pytest.mark.interop
PASSWORD = "wonderland"


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory, java: JavaClient) -> JavaClient:
    home = tmp_path_factory.mktemp("home")
    (home / "conf").mkdir()
    (home / "conf" / "tools.yml").write_text("accessKey: root\nsecretKey: branch\n")
    return java.at(home)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, "--durability", "page", environment={"HEADGATE_ADMIN": "root:branch"}) as running:
        yield running


def ended(node: Node, protocol: str) -> int:
    """Number of connections that were closed because their user lost access."""
    return figure(node, f'headgate_disconnects_total{{protocol="{protocol}",reason="revoked"}}')


def telemetry(channel: grpc.Channel, user: str) -> grpc.Call:
    """Open a Telemetry stream and wait for the server's first answer."""
    date = "20261121T101010Z"
    mac = hmac.digest(PASSWORD.encode(), date.encode(), "sha1").hex().upper()
    signature = f"MQv2-HMAC-SHA1 Credential={user}//Rocketmq, SignedHeaders=x-mq-date-time, Signature={mac}"
    settings = pb.TelemetryCommand(settings=pb.Settings(client_type=pb.PRODUCER, publishing=pb.Publishing()))

    def asked() -> Iterator[pb.TelemetryCommand]:
        yield settings
        time.sleep(60)

    verb = channel.stream_stream(
        "/apache.rocketmq.v2.MessagingService/Telemetry",
        request_serializer=pb.TelemetryCommand.SerializeToString,
        response_deserializer=pb.TelemetryCommand.FromString,
    )
    call = verb(asked(), metadata=[("x-mq-client-id", "c"), ("x-mq-date-time", date), ("authorization", signature)])
    assert next(call).HasField("settings")
    return call


@pytest.mark.parametrize("change", [("updateUser", "-s", "disable"), ("deleteUser",)], ids=["disabled", "deleted"])
def test_every_client_of_a_user_that_is_gone_is_sent_away(
    node: Node, java: JavaClient, admin: JavaClient, change: tuple[str, ...]
) -> None:
    broker = ("-b", f"127.0.0.1:{node.port('remoting')}")
    assert "success" in admin.admin("createUser", *broker, "-u", "carol", "-p", PASSWORD, "-t", "Normal")
    for resource, actions in (("Topic:*", "Pub,Sub,Get"), ("Group:*", "Sub")):
        given = ("-s", "User:carol", "-r", resource, "-a", actions, "-d", "Allow")
        assert "success" in admin.admin("createAcl", *broker, *given)
    nameserver = f"127.0.0.1:{node.port('nameserver')}"
    mqtt = Client(node, user=("carol", PASSWORD))
    assert mqtt.publish("quiet") == 0
    command = [*java.command("Guarded"), "receive", nameserver, "quiet", "readers", "carol", PASSWORD]
    consumer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        cluster = ("-n", nameserver, "-g", "readers")
        until(lambda: "JAVA" in admin.admin("consumerConnection", *cluster), 40)
        with grpc.insecure_channel(f"127.0.0.1:{node.port('grpc')}") as channel:
            call = telemetry(channel, "carol")
            assert (mqtt.ended, call.is_active()) == ([], True)
            assert "success" in admin.admin(change[0], *broker, "-u", "carol", *change[1:])
            until(lambda: mqtt.ended == [0x98] and not call.is_active(), 1)
            until(lambda: all(ended(node, protocol) >= 1 for protocol in ("mqtt", "grpc", "remoting")), 30)
    finally:
        consumer.terminate()
        consumer.wait(20)


def test_rates_as_the_java_client_and_the_python_sdk_meet_them(java: JavaClient, tmp_path: Path) -> None:
    with start(tmp_path, "[limits]\nmessages_per_s = 1\nburst_s = 1\n") as node:
        said = java.admin("Guarded", "send", f"127.0.0.1:{node.port('nameserver')}", "often", "senders", "nobody", "none")
        assert "REFUSED 215 the client sends more than it may" in said
        assert figure(node, refusal("remoting", "rate")) >= 1
        with pytest.raises(AssertionError, match=r"(?i)too.?many.?requests"):
            python_client(node, "send", "often", "senders", tmp_path)
        assert figure(node, refusal("grpc", "rate")) >= 1
