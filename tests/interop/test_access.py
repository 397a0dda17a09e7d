"""Access control with real clients: each protocol's credentials and its answer to a refusal."""

from __future__ import annotations

import asyncio
import datetime
import hmac
import json
import shutil
import ssl
import subprocess
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import grpc
import jwt
import paho.mqtt.client as paho
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from protocols.grpc.messages import messaging_pb2 as pb
from tests.interop.grpc.setup import python_client
from tests.interop.node import ROOT, Node
from tests.interop.remoting.java import JavaClient

pytestmark = pytest.mark.interop

ADMIN = "root:r00t-and-branch"
BINARY = ("-Drocketmq.serialize.type=ROCKETMQ",)
ALICE = """
[[access.policies]]
subject = "User:alice"
resource = "Topic:open*"
actions = ["Pub", "Sub", "Get"]
[[access.policies]]
subject = "User:alice"
resource = "Group:readers*"
actions = ["Sub"]
[[access.policies]]
subject = "User:alice"
resource = "Topic:closed"
actions = ["Sub"]
"""
"""What the user alice may do."""
CONFIGURATION = f"""
durability = "page"
[access]
jwt_secret = "a secret of thirty-two bytes or so"
{ALICE}
[[access.policies]]
subject = "User:sensor-7"
resource = "Topic:measured"
actions = ["Pub"]
[[access.rules]]
filter = "own/%u/%c/#"
[[access.rules]]
filter = "open/nosubscribe"
actions = ["Sub"]
decision = "Deny"
exact = true
code = 0x80
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with access control and the users root (Super) and alice."""
    folder = tmp_path_factory.mktemp("access")
    file = folder / "headgate.toml"
    file.write_text(CONFIGURATION)
    authority(folder)
    more = ("--config", str(file), "--client-ca", str(folder / "ca.pem"))
    with Node(folder, *more, environment={"HEADGATE_ADMIN": ADMIN}) as running:
        yield running


def authority(folder: Path) -> None:
    """Write a certificate authority and a client certificate for `sensor-7` that it has signed."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority")])
    own = ec.generate_private_key(ec.SECP256R1())
    client = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sensor-7")])
    now = datetime.datetime.now(datetime.UTC)
    for file, whom, key in (("ca", name, own), ("client", subject, client)):
        certificate = (
            x509.CertificateBuilder()
            .subject_name(whom)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=whom is name, path_length=None), critical=True)
            .sign(own, hashes.SHA256())
        )
        (folder / f"{file}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "client.key").write_bytes(
        client.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory, java: JavaClient) -> JavaClient:
    """mqadmin with the Super user's credentials in conf/tools.yml."""
    user, _, password = ADMIN.partition(":")
    home = tmp_path_factory.mktemp("home")
    (home / "conf").mkdir()
    (home / "conf" / "tools.yml").write_text(f"accessKey: {user}\nsecretKey: {password}\n")
    return java.at(home)


@pytest.fixture(scope="module")
def alice(node: Node, admin: JavaClient) -> str:
    """The password of the user alice, created by mqadmin."""
    broker = ("-b", f"127.0.0.1:{node.port('remoting')}")
    said = admin.admin("createUser", *broker, "-u", "alice", "-p", "wonderland", "-t", "Normal")
    assert "success" in said, said
    return "wonderland"


def nameserver(node: Node) -> str:
    return f"127.0.0.1:{node.port('nameserver')}"


def test_the_java_client_signs_its_requests(java: JavaClient, node: Node, alice: str) -> None:
    def guarded(what: str, topic: str) -> str:
        return java.admin("Guarded", what, nameserver(node), topic, "readersJava", "alice", alice).strip()

    assert guarded("send", "openJava") == "DONE"
    assert guarded("receive", "openJava") == "DONE"
    assert guarded("send", "closed").startswith("REFUSED 16 User:alice has no permission for Pub on Topic:closed")
    binary = java.run("Guarded", "send", nameserver(node), "openJava", "senders", "alice", alice, options=BINARY)
    assert "DONE" in binary.stdout, binary.stderr[-2000:]


def test_a_java_client_with_a_wrong_password_gets_no_route(java: JavaClient, node: Node, alice: str) -> None:
    said = java.admin("Guarded", "send", nameserver(node), "openJava", "senders", "alice", alice + "!")
    assert "DONE" not in said
    assert "No route info of this topic" in said


def test_mqadmin_without_credentials_is_told_why(java: JavaClient, node: Node) -> None:
    said = java.admin("listUser", "-b", f"127.0.0.1:{node.port('remoting')}")
    assert "CODE: 16" in said
    assert "username cannot be null." in said


def test_users_and_policies_by_mqadmin_survive_a_kill(admin: JavaClient, java: JavaClient, node: Node, alice: str) -> None:
    broker = ("-b", f"127.0.0.1:{node.port('remoting')}")
    assert "success" in admin.admin("createUser", *broker, "-u", "bert", "-p", "sesame", "-t", "Normal")
    given = ("-s", "User:bert", "-r", "Topic:bert*", "-a", "Pub,Sub", "-d", "Allow", "-i", "127.0.0.0/8")
    assert "success" in admin.admin("createAcl", *broker, *given)
    assert "DONE" in java.admin("Guarded", "send", nameserver(node), "bertTopic", "senders", "bert", "sesame")
    assert "success" in admin.admin("updateUser", *broker, "-u", "bert", "-p", "street")

    node.kill()
    node.start()

    assert "DONE" in java.admin("Guarded", "send", nameserver(node), "bertTopic", "senders", "bert", "street")
    users = admin.admin("listUser", *broker)
    assert all(name in users for name in ("root", "alice", "bert")), users
    assert "bert" in admin.admin("getUser", *broker, "-u", "bert")
    assert "Topic:bert*" in admin.admin("getAcl", *broker, "-s", "User:bert")
    changed = ("-s", "User:bert", "-r", "Topic:bert*", "-a", "Sub", "-d", "Allow")
    assert "success" in admin.admin("updateAcl", *broker, *changed)
    assert "REFUSED 16" in java.admin("Guarded", "send", nameserver(node), "bertTopic", "senders", "bert", "street")
    assert "Topic:bert*" in admin.admin("listAcl", *broker)
    assert "success" in admin.admin("deleteAcl", *broker, "-s", "User:bert", "-r", "Topic:bert*")
    assert "Topic:bert*" not in admin.admin("listAcl", *broker)
    assert "success" in admin.admin("deleteUser", *broker, "-u", "bert")
    assert "bert" not in admin.admin("listUser", *broker)


def test_the_python_sdk_signs_its_calls(node: Node, alice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIENT_ACCESS_KEY", "alice")
    monkeypatch.setenv("CLIENT_SECRET_KEY", alice)
    assert len(python_client(node, "simple", "openGrpc", "readersGrpc", tmp_path)["sent"]) == 20
    monkeypatch.setenv("CLIENT_SECRET_KEY", "wrong")
    with pytest.raises(AssertionError, match=r"failed to fetch topic:openGrpc route"):
        python_client(node, "send", "openGrpc", "readersGrpc", tmp_path)


def test_grpc_says_unauthorized_of_users_and_of_rights(node: Node, alice: str) -> None:
    def send(topic: str, user: str, password: str) -> int:
        date = "20261121T101010Z"
        mac = hmac.digest(password.encode(), date.encode(), "sha1").hex().upper()
        signature = f"MQv2-HMAC-SHA1 Credential={user}//Rocketmq, SignedHeaders=x-mq-date-time, Signature={mac}"
        metadata = [("x-mq-client-id", "stub"), ("x-mq-date-time", date), ("authorization", signature)][: 3 if user else 1]
        message = pb.Message(body=b"x")
        message.topic.name = topic
        message.system_properties.message_id = "A" * 32
        with grpc.insecure_channel(f"127.0.0.1:{node.port('grpc')}") as channel:
            call = channel.unary_unary(
                "/apache.rocketmq.v2.MessagingService/SendMessage",
                request_serializer=pb.SendMessageRequest.SerializeToString,
                response_deserializer=pb.SendMessageResponse.FromString,
            )
            return int(call(pb.SendMessageRequest(messages=[message]), metadata=metadata, timeout=10).status.code)

    assert send("openGrpc", "alice", alice) == pb.OK
    assert send("openGrpc", "alice", "wrong") == pb.UNAUTHORIZED
    assert send("openGrpc", "nobody", alice) == pb.UNAUTHORIZED
    assert send("openGrpc", "", "") == pb.UNAUTHORIZED
    assert send("closed", "alice", alice) == pb.UNAUTHORIZED


@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
def test_curl(node: Node, alice: str, version: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    base = f"http://127.0.0.1:{node.port('http')}"

    def curl(path: str, *more: str) -> tuple[int, dict[str, str]]:
        command = ["curl", "-sS", version, "-w", '\n{"status": %{http_code}, "head": %{header_json}}', *more, base + path]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        found = json.loads(done.stdout[done.stdout.index('\n{"status"') :])
        return found["status"], {name: ", ".join(values) for name, values in found["head"].items()}

    status, head = curl("/v1/topics/openHttp/messages", "-d", "x")
    assert status == 401
    assert "Basic" in head["www-authenticate"]
    assert "Bearer" in head["www-authenticate"]
    assert curl("/v1/topics/openHttp/messages", "-d", "x", "-u", "alice:wrong")[0] == 401
    assert curl("/v1/topics/openHttp/messages", "-d", "x", "-u", f"alice:{alice}")[0] == 201
    assert curl("/v1/topics/closed/messages", "-d", "x", "-u", f"alice:{alice}")[0] == 403
    assert curl("/v1/topics/openHttp/messages", "-d", "x", "-H", f"Authorization: Bearer {token('alice')}")[0] == 201
    assert curl("/v1/topics/openHttp/messages", "-d", "x", "-H", "Authorization: Bearer eyJ.x.y")[0] == 401
    assert curl("/v1/topics", "-u", f"alice:{alice}")[0] == 403
    assert curl("/v1/topics", "-u", ADMIN)[0] == 200


def token(user: str) -> str:
    return jwt.encode({"sub": user, "exp": int(time.time()) + 60}, "a secret of thirty-two bytes or so", "HS256")


class Mqtt:
    """One paho client whose network loop is run by the test."""

    def __init__(
        self, node: Node, version: int, client_id: str, user: str = "", password: str = "", port: str = "mqtt"
    ) -> None:
        self.code = -1
        self.granted: list[int] = []
        self.acknowledged: list[int] = []
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion(version))
        if user:
            self.client.username_pw_set(user, password)
        if port == "mqtts":
            self.client.tls_set_context(context(node))
        self.client.on_connect = lambda _client, _data, _flags, code, _properties: setattr(self, "code", code.value)
        self.client.on_subscribe = lambda _client, _data, _mid, codes, _properties: setattr(
            self, "granted", [code.value for code in codes]
        )
        self.client.on_publish = lambda _client, _data, _mid, code, _properties: self.acknowledged.append(code.value)
        self.client.connect("127.0.0.1", node.port(port))
        self.until(lambda: self.code >= 0)

    def until(self, there: object) -> None:
        end = time.monotonic() + 10
        while not there() and time.monotonic() < end:  # type: ignore[operator]
            self.client.loop(0.05)

    def subscribe(self, *filters: str) -> list[int]:
        self.granted = []
        self.client.subscribe([(one, 1) for one in filters])
        self.until(lambda: self.granted)
        return self.granted

    def publish(self, path: str) -> int:
        self.acknowledged.clear()
        self.client.publish(path, b"x", 1)
        self.until(lambda: self.acknowledged)
        return self.acknowledged[0]


def context(node: Node) -> ssl.SSLContext:
    found = ssl.create_default_context()
    found.check_hostname = False
    found.verify_mode = ssl.CERT_NONE
    found.load_cert_chain(node.folder / "client.pem", node.folder / "client.key")
    return found


def test_a_client_certificate_is_a_user(node: Node) -> None:
    client = Mqtt(node, paho.MQTTv5, "m7", port="mqtts")
    assert client.code == 0
    assert client.publish("measured/7") == 0
    assert client.publish("open/7") == 0x87
    client.client.disconnect()


def test_mqtt_5(node: Node, alice: str) -> None:
    assert Mqtt(node, paho.MQTTv5, "m1").code == 0x86
    assert Mqtt(node, paho.MQTTv5, "m1", "alice", "wrong").code == 0x86
    assert Mqtt(node, paho.MQTTv5, "m1", "alice", token("bob")).code == 0x86
    assert Mqtt(node, paho.MQTTv5, "m1", "alice", token("alice")).code == 0
    client = Mqtt(node, paho.MQTTv5, "m1", "alice", alice)
    assert client.code == 0
    filters = ("open/#", "own/alice/m1/#", "own/alice/m2/#", "open/nosubscribe", "elsewhere", "#")
    assert client.subscribe(*filters) == [1, 1, 0x87, 0x80, 0x87, 0x87]
    assert client.publish("open/x") == 0
    assert client.publish("own/alice/m1/x") == 0
    assert client.publish("own/alice/m2/x") == 0x87
    assert client.publish("closed/x") == 0x87
    client.client.disconnect()


def test_mqtt_311(node: Node, alice: str) -> None:
    assert Mqtt(node, paho.MQTTv311, "m3").code in (4, 0x86)
    client = Mqtt(node, paho.MQTTv311, "m3", "alice", alice)
    assert client.subscribe("open/#", "open/nosubscribe", "elsewhere") == [1, 0x80, 0x80]
    client.client.disconnect()


def test_coap_without_credentials_is_unauthorized(node: Node) -> None:
    aiocoap = pytest.importorskip("aiocoap")

    async def ask() -> str:
        client = await aiocoap.Context.create_client_context()
        try:
            request = aiocoap.Message(code=aiocoap.POST, uri=f"coap://127.0.0.1:{node.port('coap')}/mq/open", payload=b"x")
            return str((await asyncio.wait_for(client.request(request).response, 20)).code)
        finally:
            await client.shutdown()

    assert asyncio.run(ask()).startswith("4.01")


def test_no_secret_is_in_the_log(node: Node, alice: str) -> None:
    assert not any(secret in node.text() for secret in ("r00t-and-branch", alice, "a secret of thirty-two"))
    assert 'headgate_access_refusals_total{reason="not-allowed"}' in node.admin("/metrics", ADMIN)


def test_metrics_are_for_those_who_may_read_the_cluster(node: Node, alice: str) -> None:
    for user, status in (("", 401), (f"alice:{alice}", 403), ("alice:wrong", 401)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            node.admin("/metrics", user)
        assert refused.value.code == status
    assert '"serving"' in node.admin("/healthz", "")


def test_the_configuration_for_the_paho_suites(tmp_path: Path) -> None:
    with Node(tmp_path, "--config", str(ROOT / "tests" / "conformance" / "paho.toml")) as node:
        for version in (paho.MQTTv311, paho.MQTTv5):
            client = Mqtt(node, version, "m8")
            assert client.subscribe("test/nosubscribe", "test/#", "#", "+/+", "$SYS/#", "TopicA/B") == [0x80, 1, 1, 1, 1, 1]
            client.client.disconnect()
