"""OSCORE against a real node: aiocoap with its credentials file, observation and blocks, rights, and replays after kill -9."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiocoap
import pytest

from domain.access.oscore import OscoreContext
from protocols.coap.message import message
from tests.interop.cluster.cluster import ROLES
from tests.interop.node import Node
from tests.interop.webhooks.api import Api
from tests.patience import until
from tests.protocols.coap.oscore_device import Answer, Device

pytest.importorskip("lakers", reason="aiocoap's extra oscore is not installed")
pytestmark = pytest.mark.interop
ROOT = "root:rootsecret"
ANSWER_S = 20.0
SECRET = bytes(range(16))


def context(user: str, number: int) -> OscoreContext:
    return OscoreContext(user, bytes((number,)), b"", SECRET, b"salt", b"floor 1")


def give(node: Node, given: OscoreContext, *resources: str) -> None:
    """Make a user with a security context and rights."""
    root = Api(node, ROOT)
    assert root.call("POST", f"/v1/users/{given.user}", {"password": "never used by the device"})[0] == 204
    document = {
        "device_id": given.device_id.hex(), "node_id": given.node_id.hex(), "secret": given.secret.hex(),
        "salt": given.salt.hex(), "id_context": given.id_context.hex() if given.id_context is not None else None,
    }  # fmt: skip
    assert root.call("PUT", f"/v1/users/{given.user}/oscore", document)[0] == 204
    for resource in resources:
        assert root.call("PUT", f"/v1/users/{given.user}/policies", {"resource": resource, "actions": ["All"]})[0] == 204


def files(folder: Path, node: Node, given: OscoreContext, scheme: str = "coap") -> Path:
    """aiocoap's credentials file, with the context that it names."""
    own = folder / given.user
    own.mkdir(parents=True)
    settings = {
        "sender-id_hex": given.device_id.hex(), "recipient-id_hex": given.node_id.hex(), "secret_hex": given.secret.hex(),
        "salt_hex": given.salt.hex(), "id-context_hex": (given.id_context or b"").hex(),
    }  # fmt: skip
    (own / "settings.json").write_text(json.dumps(settings))
    name = f"{scheme}://127.0.0.1:{node.port('coap' if scheme == 'coap' else 'coap-tcp')}/*"
    file = folder / f"{given.user}.json"
    file.write_text(json.dumps({name: {"oscore": {"basedir": f"{own}/"}}}))
    return file


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("oscore"), "--admin", ROOT) as running:
        yield running


def test_a_context_is_managed_and_never_told(node: Node) -> None:
    root = Api(node, ROOT)
    given = context("managed", 40)
    assert root.call("GET", "/v1/users/managed/oscore")[0] == 404
    document = {"device_id": "28", "node_id": "", "secret": SECRET.hex(), "id_context": b"floor 1".hex()}
    assert root.call("PUT", "/v1/users/managed/oscore", document)[0] == 400, "no such user"
    give(node, given, "Topic:field")
    status, found = root.call("GET", "/v1/users/managed/oscore")
    assert (status, found) == (200, {"device_id": "28", "node_id": "", "id_context": b"floor 1".hex(), "algorithm": 10})
    give(node, context("other", 41))
    assert root.call("PUT", "/v1/users/other/oscore", document)[0] == 400, "the identifiers of another user"
    for change in (
        {"secret": "00"},
        {"device_id": "00" * 8},
        {"node_id": "28"},
        {"algorithm": 9},
        {"salt": "z"},
        {"key": "00"},
    ):
        status, problem = root.call("PUT", "/v1/users/managed/oscore", {**document, **change})
        assert status == 400
        assert SECRET.hex() not in json.dumps(problem)
    assert Api(node).call("GET", "/v1/users/managed/oscore")[0] == 401
    assert Api(node, "other:never used by the device").call("PUT", "/v1/users/other/oscore", document)[0] == 403
    assert root.call("DELETE", "/v1/users/managed/oscore")[0] == 204
    assert root.call("GET", "/v1/users/managed/oscore")[0] == 404
    log = node.log.read_text()
    assert SECRET.hex() not in log
    assert repr(SECRET) not in log


def test_the_command_of_the_page(node: Node, tmp_path: Path) -> None:
    given = context("sensor7", 1)
    give(node, given, "Topic:sensors")
    credentials = files(tmp_path, node, given)

    def run(*options: str) -> str:
        program = Path(sys.executable).with_name("aiocoap-client")
        url = f"coap://127.0.0.1:{node.port('coap')}/mq/sensors/room1/temp"
        command = [str(program), "--credentials", str(credentials), *options, url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout + done.stderr

    run("-m", "put", "--payload", "21.5")
    assert run().strip().endswith("21.5")


@pytest.mark.parametrize("scheme", ["coap", "coap+tcp"])
def test_observation_and_blocks(node: Node, tmp_path: Path, scheme: str) -> None:
    given = context(f"sensor-{scheme[-3:]}", 2 if scheme == "coap" else 3)
    give(node, given, "Topic:live", "Topic:large")
    body = bytes(range(256)) * 40

    async def scene() -> None:
        client = await aiocoap.Context.create_client_context()
        client.client_credentials.load_from_dict(json.loads(files(tmp_path, node, given, scheme).read_text()))
        port = node.port("coap" if scheme == "coap" else "coap-tcp")
        base = f"{scheme}://127.0.0.1:{port}/mq"

        async def ask(code: aiocoap.Code, path: str, payload: bytes = b"") -> aiocoap.Message:
            sent = aiocoap.Message(code=code, payload=payload, uri=base + path)
            return await asyncio.wait_for(client.request(sent).response, ANSWER_S)

        try:
            assert (await ask(aiocoap.PUT, "/large/a", body)).code.is_successful()
            assert (await ask(aiocoap.GET, "/large/a")).payload == body
            watched = f"/live/{scheme[-3:]}"
            observing = client.request(aiocoap.Message(code=aiocoap.GET, uri=base + watched, observe=0))
            first = await asyncio.wait_for(observing.response, ANSWER_S)
            assert (first.code, first.payload) == (aiocoap.CONTENT, b"")
            notes = aiter(observing.observation)
            for number in range(20):
                assert (await ask(aiocoap.POST, watched, b"%d" % number)).code == aiocoap.CREATED
                assert (await asyncio.wait_for(anext(notes), ANSWER_S)).payload == b"%d" % number
            assert (await ask(aiocoap.POST, "/elsewhere", b"x")).code == aiocoap.FORBIDDEN
            Api(node, ROOT).call("DELETE", f"/v1/users/{given.user}/oscore")
            ended = await asyncio.wait_for(anext(notes, None), ANSWER_S)
            assert ended is None or ended.code == aiocoap.UNAUTHORIZED
        except aiocoap.error.ObservationCancelled:
            pass  # the last notification was the error
        finally:
            await client.shutdown()

    asyncio.run(asyncio.wait_for(scene(), 90))


class Wire:
    """A device at a socket of its own, whose datagrams can be sent again."""

    def __init__(self, node: Node, given: OscoreContext) -> None:
        self.node = node
        self.device = Device(given)
        self.mid = 0
        self.port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.port.settimeout(5)

    def send(self, data: bytes) -> Answer:
        """Send a datagram, and again until it is answered."""
        for _ in range(6):
            self.port.sendto(data, ("127.0.0.1", self.node.port("coap")))
            with contextlib.suppress(TimeoutError, ConnectionError):
                while (answer := self.port.recv(65_535))[4:6] != data[4:6]:
                    pass  # an empty ACK, or the answer to an earlier datagram that was sent twice
                return self.device.read(answer)
        raise AssertionError("no answer")

    def datagram(self, body: bytes, **options: object) -> bytes:
        self.mid += 1
        token = self.mid.to_bytes(2, "big")
        return self.device.request(message.POST, "mq/field/a", body, token=token, mid=self.mid, **options)  # type: ignore[arg-type]

    def post(self, body: bytes) -> bytes:
        """Store a message. Returns the datagram that has done it."""
        data = self.datagram(body)
        answer = self.send(data)
        if answer.echo is not None:
            data = self.datagram(body, echo=answer.echo)
            answer = self.send(data)
        assert answer.code == message.CREATED
        return data

    def again(self, data: bytes) -> bytes:
        """The answer to a datagram that is sent again with another message id, from another port."""
        self.mid += 1
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
            port.settimeout(ANSWER_S)
            port.sendto(data[:2] + self.mid.to_bytes(2, "big") + data[4:], ("127.0.0.1", self.node.port("coap")))
            return port.recv(65_535)


def test_a_captured_datagram_is_not_executed_again_also_after_kill(tmp_path: Path) -> None:
    given = context("replayed", 5)
    with Node(tmp_path, "--admin", ROOT) as node:
        give(node, given, "Topic:field")
        wire = Wire(node, given)
        captured = [wire.post(b"first"), wire.post(b"second")]
        for data in captured:
            answer = message.decode(wire.again(data))
            assert answer is not None
            assert (answer.code, answer.payload) == (message.UNAUTHORIZED, b"Replay detected")
        node.kill()
        node.start()
        for data in captured:
            answer = message.decode(wire.again(data))
            assert answer is not None
            assert (answer.code, [number for number, _ in answer.options]) == (message.CHANGED, [9])  # a 4.01 inside, with Echo
        wire.post(b"third")
        for data in captured:
            answer = message.decode(wire.again(data))
            assert answer is not None
            assert answer.payload == b"Replay detected"
        root = Api(node, ROOT)
        found = root.call("POST", "/v1/groups/all/topics/field:receive?max=32&wait_ms=1000")[1]["messages"]
        assert sorted(base64.b64decode(each["body"]) for each in found) == [b"first", b"second", b"third"]


def test_the_refusals_are_counted(node: Node) -> None:
    given = context("counted", 6)
    give(node, given, "Topic:field")
    wire = Wire(node, given)
    executed = wire.post(b"1")
    broken = wire.datagram(b"2")
    answer = wire.send(broken[:-1] + bytes((broken[-1] ^ 1,)))
    assert (answer.code, answer.payload, answer.sealed) == (message.BAD_REQUEST, b"Decryption failed", False)
    stranger = Wire(node, context("stranger", 99))
    answer = stranger.send(stranger.datagram(b"x"))
    assert (answer.code, answer.payload) == (message.UNAUTHORIZED, b"Security context not found")
    wire.again(executed)
    counted = node.admin("/metrics", ROOT)
    for word in ("decrypt", "unknown", "replay"):
        assert re.search(rf'^headgate_dropped_total{{protocol="coap",reason="oscore-{word}"}} [1-9]', counted, re.M), word


def test_what_one_gateway_has_executed_no_other_one_executes_again(tmp_path: Path) -> None:
    """Two gateways before one store: a device goes from one to the other, and back."""
    given = context("roaming", 7)
    (tmp_path / "key").write_text(ROOT)
    with Node(tmp_path / "store", ROLES, "store", "--admin", ROOT, verb="run") as store:
        where = ("--store", f"127.0.0.1:{store.port('remoting')}", "--access-key-file", str(tmp_path / "key"))
        with (
            Node(tmp_path / "a", ROLES, "gateway", *where, verb="run") as first,
            Node(tmp_path / "b", ROLES, "gateway", *where, verb="run") as second,
        ):
            give(first, given, "Topic:field")
            wire = Wire(first, given)
            until(lambda: wire.send(wire.datagram(b"0")).sealed, ANSWER_S, first.text)
            captured = [wire.post(b"1")]
            for number, node in enumerate((second, first, second)):
                wire.node = node
                captured.append(wire.post(b"%d" % (number + 2)))
            for node in (first, second):
                wire.node = node
                for data in captured:
                    answer = message.decode(wire.again(data))
                    assert answer is not None
                    assert answer.code in (message.UNAUTHORIZED, message.CHANGED)  # a replay, or a 4.01 inside with Echo
            wire.node = second
            captured.append(wire.post(b"5"))  # replays have not taken the context away
            path = "/v1/groups/all/topics/field:receive?max=32&wait_ms=1000"
            found = Api(first, ROOT).call("POST", path)[1]["messages"]
            assert sorted(base64.b64decode(each["body"]) for each in found) == [b"1", b"2", b"3", b"4", b"5"]
