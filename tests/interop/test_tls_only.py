"""A node that takes TLS only, and real clients: with TLS they work, without it each is told the reason in its protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from domain.refusal import TLS_ONLY
from protocols.grpc.messages import messaging_pb2 as pb
from tests.interop.remoting.java import JavaClient
from tests.interop.secured import ROOT_PASSWORD, Secured
from tests.patience import until

pytestmark = pytest.mark.interop
ADMIN = "org.apache.rocketmq.tools.command.MQAdminStartup"
ROUTE = "/apache.rocketmq.v2.MessagingService/QueryRoute"
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with Secured(tmp_path_factory.mktemp("tls-only")) as running:
        yield running


def test_mqadmin_connects_by_tls_and_is_told_without_it(secured: Secured, java: JavaClient, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "tools.yml").write_text(f"accessKey: root\nsecretKey: {ROOT_PASSWORD}\n")
    # In its test mode, which is the default, the Java client accepts every certificate.
    checks = ("-Dtls.enable=true", "-Dtls.test.mode.enable=false", "-Dtls.client.authServer=true")
    tls = (*checks, f"-Dtls.client.trustCertPath={secured.ca}")
    make = ("updateTopic", "-n", secured.nameserver, "-b", f"127.0.0.1:{secured.node.port('remoting')}", "-t", "made")
    at = java.at(tmp_path)
    assert f"CODE: 16  DESC: {TLS_ONLY}" in said(at, *make)
    assert "success" in said(at, *make, options=tls)
    assert "made" in said(at, "topicList", "-n", secured.nameserver, options=tls).split()


def said(java: JavaClient, *arguments: str, options: tuple[str, ...] = ()) -> str:
    """What one command of mqadmin says; it is run again when a busy machine exceeds the client's own time for an answer."""
    while True:
        done = java.run(ADMIN, *arguments, options=options)
        text = done.stdout + done.stderr
        if "RemotingTimeoutException" not in text and "RemotingConnectException" not in text:
            return text


def test_grpc_connects_by_tls_and_is_told_without_it(secured: Secured) -> None:
    address = f"127.0.0.1:{secured.node.port('grpc')}"
    request = pb.QueryRouteRequest(topic=pb.Resource(name="made")).SerializeToString()
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(ROUTE)(request, timeout=PATIENCE_S)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE, caught.value
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(secured.ca.read_bytes())) as channel:
        reply = pb.QueryRouteResponse.FromString(channel.unary_unary(ROUTE)(request, timeout=PATIENCE_S, wait_for_ready=True))
    assert reply.status.code == pb.CLIENT_ID_REQUIRED


@pytest.mark.parametrize("version", [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])
def test_mqtt_connects_by_tls_and_is_told_without_it(secured: Secured, version: MQTTProtocolVersion) -> None:
    for encrypted in (False, True):
        said: list[tuple[str, object]] = []

        def connected(
            _client: object,
            _data: object,
            _flags: object,
            reason: object,
            properties: object,
            said: list[tuple[str, object]] = said,
        ) -> None:
            said.append((str(reason), getattr(properties, "ReasonString", None)))

        client = paho.Client(CallbackAPIVersion.VERSION2, "device", protocol=version)
        client.username_pw_set("root", ROOT_PASSWORD)
        client.on_connect = connected
        if encrypted:
            client.tls_set(str(secured.ca))
        client.connect("127.0.0.1", secured.node.port("mqtt"))
        client.loop_start()
        try:
            until(lambda said=said: bool(said), PATIENCE_S)  # type: ignore[misc]
        finally:
            client.disconnect()
            client.loop_stop()
        reason = None if encrypted or version is not MQTTProtocolVersion.MQTTv5 else TLS_ONLY
        assert said[0] == ("Success" if encrypted else "Not authorized", reason)
