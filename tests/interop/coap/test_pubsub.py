"""The broker of the publish-subscribe draft with aiocoap, libcoap and MQTT clients against a real node, and across kill -9."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import aiocoap
import aiocoap.credentials
import pytest

from protocols.coap.message import cbor
from tests.interop import certificates
from tests.interop.coap.test_aiocoap import ANSWER_S, Client
from tests.interop.coap.test_libcoap import COMMAND, coap
from tests.interop.coap.test_streams import CARRIERS
from tests.interop.mqtt.paho_client import PahoClient
from tests.interop.node import Node

pytestmark = pytest.mark.interop
libcoap = pytest.mark.skipif(not COMMAND, reason="coap-client is not installed (Debian: libcoap3-bin)")
LIBCOAP_DTLS = shutil.which("coap-client-openssl") or ""
FORMAT = 606
KIND = "core.ps.data"
IPATCH = aiocoap.Code(7)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificates.write(tmp_path_factory.mktemp("pair"), 7)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, pair: tuple[Path, Path]) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("pubsub"), "--certificate", str(pair[0]), "--key", str(pair[1])) as running:
        yield running


def run(node: Node, pair: tuple[Path, Path], scheme: str, scene: Callable[[Client], Awaitable[None]]) -> None:
    """Play a scene with one client of this scheme."""

    async def play() -> None:
        if scheme == "coap":
            context = await aiocoap.Context.create_client_context()
        else:
            context = await aiocoap.Context.create_client_context(transports=["tcpclient", "tlsclient", "ws"])
        host = "127.0.0.1" if scheme == "coap" else "localhost"
        base = f"{scheme}://{host}:{node.port(CARRIERS.get(scheme, 'coap'))}"
        if scheme == "coaps+tcp":
            context.client_credentials[base + "/*"] = aiocoap.credentials.TLSCert(str(pair[0]))
        try:
            await scene(Client(context, base))
        finally:
            await context.shutdown()

    asyncio.run(asyncio.wait_for(play(), 60))


async def made(one: Client, name: str, **more: object) -> str:
    """The id of a new topic. `more`: key3=…, properties by their keys."""
    properties = {int(key.removeprefix("key")): value for key, value in more.items()}
    answer = await one.request(aiocoap.POST, "/ps", cbor.encode({0: name, 2: KIND, **properties}), content_format=FORMAT)
    assert answer.code == aiocoap.CREATED, answer.payload
    root, identity = answer.opt.location_path
    topic = cbor.decode(answer.payload)
    assert (root, topic[1], int(answer.opt.content_format)) == ("ps", f"/ps/data/{identity}", FORMAT)
    return str(identity)


async def ended(notes: AsyncIterator[aiocoap.Message]) -> bool:
    """True when the next thing that an observer hears is the end of the observation."""
    try:
        last = await asyncio.wait_for(anext(notes), ANSWER_S)
    except (aiocoap.error.Error, StopAsyncIteration):
        return True
    return bool(last.code == aiocoap.NOT_FOUND)


@pytest.mark.parametrize("scheme", ["coap", *CARRIERS])
def test_a_topic_from_its_making_to_its_end_over_every_carrier(node: Node, pair: tuple[Path, Path], scheme: str) -> None:
    async def scene(one: Client) -> None:
        name = f"field/{scheme.replace('+', '-')}"
        identity = await made(one, name, key3=0, key4="temperature")
        data = f"/ps/data/{identity}"
        assert f"</ps/{identity}>" in (await one.request(aiocoap.GET, "/ps?topic-type=temp*")).payload.decode()
        found = await one.request(aiocoap.FETCH, "/ps", cbor.encode({0: name}), content_format=FORMAT)
        assert found.payload.decode() == f"</ps/{identity}>"
        assert (await one.request(aiocoap.GET, data)).code == aiocoap.NOT_FOUND
        assert (await one.request(aiocoap.PUT, data, b"x", content_format=50)).code == aiocoap.UNSUPPORTED_CONTENT_FORMAT
        assert (await one.request(aiocoap.PUT, data, b"21", content_format=0)).code == aiocoap.CREATED
        asked = one.context.request(one.message(aiocoap.GET, data, observe=0))
        first = await asyncio.wait_for(asked.response, ANSWER_S)
        assert (first.payload, first.opt.observe is not None) == (b"21", True)
        notes = aiter(asked.observation)
        assert (await one.request(aiocoap.PUT, data, b"22", content_format=0)).code == aiocoap.CHANGED
        assert (await asyncio.wait_for(anext(notes), ANSWER_S)).payload == b"22"
        patched = await one.request(IPATCH, f"/ps/{identity}", cbor.encode({6: 3}), content_format=FORMAT)
        assert (patched.code, cbor.decode(patched.payload)[6]) == (aiocoap.CHANGED, 3)
        part = await one.request(aiocoap.FETCH, f"/ps/{identity}", cbor.encode({9: [0, 6]}), content_format=FORMAT)
        assert cbor.decode(part.payload) == {0: name, 6: 3}
        assert (await one.request(aiocoap.DELETE, f"/ps/{identity}")).code == aiocoap.DELETED
        assert await ended(notes)
        assert (await one.request(aiocoap.GET, data)).code == aiocoap.NOT_FOUND

    run(node, pair, scheme, scene)


def test_what_a_topic_publishes_is_read_by_mqtt_and_what_mqtt_publishes_by_its_subscribers(
    node: Node, pair: tuple[Path, Path]
) -> None:
    early = PahoClient(node, "early", "barn/+")

    async def scene(one: Client) -> None:
        identity = await made(one, "barn/door")
        await one.request(aiocoap.PUT, f"/ps/data/{identity}", b"open", content_format=0)
        live = await asyncio.to_thread(early.next)
        assert (live.topic, live.payload) == ("barn/door", b"open")
        late = await asyncio.to_thread(PahoClient, node, "late", "barn/door")
        kept = await asyncio.to_thread(late.next)
        assert (kept.payload, bool(kept.retain)) == (b"open", True)
        late.leave()
        asked = one.context.request(one.message(aiocoap.GET, f"/ps/data/{identity}", observe=0))
        assert (await asyncio.wait_for(asked.response, ANSWER_S)).payload == b"open"
        notes = aiter(asked.observation)
        early.client.publish("barn/door", b"shut", 1, True)
        assert (await asyncio.wait_for(anext(notes), ANSWER_S)).payload == b"shut"
        assert (await one.request(aiocoap.GET, f"/ps/data/{identity}")).payload == b"shut"
        early.publish("barn/door", b"", retain=True)
        assert (await one.request(aiocoap.GET, f"/ps/data/{identity}")).code == aiocoap.NOT_FOUND

    run(node, pair, "coap", scene)
    early.leave()


@libcoap
def test_libcoap_makes_publishes_reads_and_deletes(node: Node, tmp_path: Path) -> None:
    body = tmp_path / "topic"
    body.write_bytes(cbor.encode({0: "garden/soil", 2: KIND, 3: 0}))
    answer, said = coap(node, "post", "/ps", "-t", str(FORMAT), "-f", str(body))
    assert (cbor.decode(answer.removesuffix(b"\n"))[0], said) == ("garden/soil", "")
    link = coap(node, "get", "/ps?rt=core.ps.data&topic-name=garden/soil")[0].decode().strip()
    data = link.strip("<>")
    assert "4.04" in coap(node, "get", data)[1]
    assert "4.15" in coap(node, "put", data, "-e", "{}", "-t", "50")[1]
    assert coap(node, "put", data, "-e", "21.5", "-t", "text/plain") == (b"", "")
    assert coap(node, "get", data) == (b"21.5\n", "")
    url = f"coap://127.0.0.1:{node.port('coap')}{data}"
    listening = subprocess.Popen([COMMAND, "-s", "6", "-w", "-m", "get", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(2)
    coap(node, "put", data, "-e", "22", "-t", "text/plain")
    topic = data.replace("/data", "")
    body.write_bytes(cbor.encode({6: 5}))
    assert cbor.decode(coap(node, "ipatch", topic, "-t", str(FORMAT), "-f", str(body))[0].removesuffix(b"\n"))[6] == 5
    assert coap(node, "delete", topic) == (b"", "")
    heard, told = listening.communicate(timeout=30)
    assert heard.split() == [b"21.5", b"22"]
    assert b"4.04" in told  # the final notification
    assert "4.04" in coap(node, "get", topic)[1]


def test_topics_and_their_data_survive_kill(tmp_path: Path) -> None:
    node = Node(tmp_path).start()
    kept: list[str] = []

    async def before(one: Client) -> None:
        kept.append(await made(one, "field/kept", key3=0, key6=2, key8=b"first"))
        kept.append(await made(one, "field/half"))
        gone = await made(one, "field/gone")
        await one.request(aiocoap.PUT, f"/ps/data/{kept[0]}", b"21", content_format=0)
        assert (await one.request(aiocoap.DELETE, f"/ps/{gone}")).code == aiocoap.DELETED

    async def after(one: Client) -> None:
        links = (await one.request(aiocoap.GET, "/ps")).payload.decode()
        assert sorted(links.split(",")) == sorted(f"</ps/{identity}>" for identity in kept)
        topic = cbor.decode((await one.request(aiocoap.GET, f"/ps/{kept[0]}")).payload)
        assert (topic[0], topic[3], topic[6], topic[8]) == ("field/kept", 0, 2, b"first")
        assert (await one.request(aiocoap.GET, f"/ps/data/{kept[0]}")).payload == b"21"
        assert (await one.request(aiocoap.PUT, f"/ps/data/{kept[0]}", b"22", content_format=0)).code == aiocoap.CHANGED
        assert (await one.request(aiocoap.GET, f"/ps/data/{kept[1]}")).code == aiocoap.NOT_FOUND
        assert (await one.request(aiocoap.PUT, f"/ps/data/{kept[1]}", b"1")).code == aiocoap.CREATED
        again = cbor.encode({0: "field/kept", 2: KIND})
        assert (await one.request(aiocoap.POST, "/ps", again, content_format=FORMAT)).code == aiocoap.BAD_REQUEST

    nothing = (tmp_path, tmp_path)
    try:
        run(node, nothing, "coap", before)
        node.kill()
        node.start()
        run(node, nothing, "coap", after)
    finally:
        node.stop()


@pytest.mark.skipif(not LIBCOAP_DTLS, reason="coap-client-openssl is not installed (Debian: libcoap3-bin)")
def test_topics_over_dtls(tmp_path: Path) -> None:
    body = tmp_path / "topic"
    body.write_bytes(cbor.encode({0: "field/dtls", 2: KIND, 3: 0, 8: b"first"}))

    with Node(tmp_path / "data", "--admin", "root:rootsecret") as node:

        def ask(method: str, path: str, *options: str) -> bytes:
            command = [LIBCOAP_DTLS, "-u", "root", "-k", "rootsecret", *options, "-m", method]
            url = f"coaps://127.0.0.1:{node.port('coaps')}{path}"
            done = subprocess.run([*command, url], capture_output=True, timeout=60, check=False)
            return done.stdout.removesuffix(b"\n")

        data = cbor.decode(ask("post", "/ps", "-t", str(FORMAT), "-f", str(body)))[1]
        assert ask("get", data) == b"first"
        ask("put", data, "-t", "text/plain", "-e", "second")
        assert ask("get", data) == b"second"
