"""aiocoap's client against a real node: every method, blocks both ways, observation, and what survives kill -9."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiocoap
import pytest

from tests.interop.node import Node

pytestmark = pytest.mark.interop
ANSWER_S = 45.0
"""A body of a mebibyte goes in 1,025 requests, one after the other."""


class Client:
    """One aiocoap context: one UDP port."""

    def __init__(self, context: aiocoap.Context, base: str) -> None:
        self.context = context
        self.base = base

    def message(self, code: aiocoap.Code, path: str, payload: bytes = b"", **options: object) -> aiocoap.Message:
        return aiocoap.Message(code=code, payload=payload, uri=self.base + path, **options)

    async def request(self, code: aiocoap.Code, path: str, payload: bytes = b"", **options: object) -> aiocoap.Message:
        sent = self.context.request(self.message(code, path, payload, **options))
        return await asyncio.wait_for(sent.response, ANSWER_S)


@asynccontextmanager
async def client(node: Node) -> AsyncIterator[Client]:
    context = await aiocoap.Context.create_client_context()
    try:
        yield Client(context, f"coap://127.0.0.1:{node.port('coap')}")
    finally:
        await context.shutdown()


def run(node: Node, scene: Callable[[Client], Awaitable[None]]) -> None:
    async def play() -> None:
        async with client(node) as one:
            await scene(one)

    asyncio.run(asyncio.wait_for(play(), 60))


def test_put_get_post_delete(node: Node) -> None:
    async def scene(one: Client) -> None:
        codes = [(await one.request(aiocoap.PUT, "/mq/site/a", b"{}", content_format=50)).code for _ in range(2)]
        assert codes == [aiocoap.CREATED, aiocoap.CHANGED]
        value = await one.request(aiocoap.GET, "/mq/site/a")
        assert (value.code, value.payload, int(value.opt.content_format)) == (aiocoap.CONTENT, b"{}", 50)
        valid = await one.request(aiocoap.GET, "/mq/site/a", etags=[value.opt.etag])
        assert valid.code == aiocoap.VALID
        created = await one.request(aiocoap.POST, "/mq/site/a", b"passing")
        assert created.code == aiocoap.CREATED
        assert created.opt.location_path[:3] == ("mq", "site", "a")
        assert len(created.opt.location_path[3]) == 32
        assert (await one.request(aiocoap.GET, "/mq/site/a")).payload == b"{}"
        assert (await one.request(aiocoap.DELETE, "/mq/site/a")).code == aiocoap.DELETED
        assert (await one.request(aiocoap.GET, "/mq/site/a")).code == aiocoap.NOT_FOUND

    run(node, scene)


def test_non_confirmable_requests_are_answered(node: Node) -> None:
    async def scene(one: Client) -> None:
        assert (
            await one.request(aiocoap.PUT, "/mq/site/non", b"1", transport_tuning=aiocoap.Unreliable)
        ).code == aiocoap.CREATED
        value = await one.request(aiocoap.GET, "/mq/site/non", transport_tuning=aiocoap.Unreliable)
        assert value.payload == b"1"

    run(node, scene)


def test_blocks_both_ways(node: Node) -> None:
    body = os.urandom(100_000)

    async def scene(one: Client) -> None:
        assert (await one.request(aiocoap.PUT, "/mq/site/big", body)).code == aiocoap.CREATED
        assert (await one.request(aiocoap.GET, "/mq/site/big")).payload == body
        too_large = await one.request(aiocoap.PUT, "/mq/site/huge", bytes(1024 * 1024 + 1))
        assert too_large.code == aiocoap.REQUEST_ENTITY_TOO_LARGE

    run(node, scene)


def test_a_stranger_reads_a_large_value_in_small_blocks(node: Node) -> None:
    body = os.urandom(5_000)

    async def writer(one: Client) -> None:
        await one.request(aiocoap.PUT, "/mq/site/stranger", body)

    async def reader(one: Client) -> None:
        assert (await one.request(aiocoap.GET, "/mq/site/stranger")).payload == body

    run(node, writer)
    run(node, reader)


def test_observer_sees_every_message(node: Node) -> None:
    bodies = [b"%d" % number for number in range(50)] + [os.urandom(4_000)]

    async def scene(one: Client) -> None:
        observing = one.context.request(one.message(aiocoap.GET, "/mq/site/live", observe=0))
        first = await asyncio.wait_for(observing.response, ANSWER_S)
        assert (first.code, first.payload, first.opt.etag) == (aiocoap.CONTENT, b"", None)
        notes = aiter(observing.observation)
        async with client(node) as other:
            for body in bodies:
                assert (await other.request(aiocoap.POST, "/mq/site/live", body)).code == aiocoap.CREATED
                note = await asyncio.wait_for(anext(notes), ANSWER_S)
                assert note.payload == body
        observing.observation.cancel()

    run(node, scene)


async def receive(one: Client, topic: str, group: str) -> aiocoap.Message:
    """Lease a message. aiocoap does not repeat a request with Echo by itself, so this does."""
    path = f"/mq/{topic}?group={group}&wait=5"
    answer = await one.request(aiocoap.GET, path)
    if answer.code == aiocoap.UNAUTHORIZED:
        answer = await one.request(aiocoap.GET, path, echo=answer.opt.echo)
    return answer


async def settle(one: Client, topic: str, leased: aiocoap.Message) -> aiocoap.Message:
    """DELETE the lease that a response names."""
    message = one.message(aiocoap.DELETE, f"/mq/{topic}")
    message.opt.uri_query = leased.opt.location_query
    return await asyncio.wait_for(one.context.request(message).response, ANSWER_S)


def test_group_receives_a_message_once(node: Node) -> None:
    async def scene(one: Client) -> None:
        await one.request(aiocoap.POST, "/mq/jobs", b"dig")
        leased = await receive(one, "jobs", "crew")
        assert leased.payload == b"dig"
        assert (await one.request(aiocoap.GET, "/mq/jobs?group=crew")).code == aiocoap.NOT_FOUND
        assert (await settle(one, "jobs", leased)).code == aiocoap.DELETED

    run(node, scene)


def test_receipt_is_good_after_kill_and_at_every_protocol(tmp_path: Path) -> None:
    kept: list[aiocoap.Message] = []

    async def lease(one: Client) -> None:
        for body in (b"coap", b"http"):
            await one.request(aiocoap.POST, "/mq/kept", body)
        kept.extend([await receive(one, "kept", "crew"), await receive(one, "kept", "crew")])

    async def settle_one(one: Client) -> None:
        assert (await settle(one, "kept", kept[0])).code == aiocoap.DELETED

    node = Node(tmp_path).start()
    try:
        run(node, lease)
        node.kill()
        node.start()
        run(node, settle_one)
        receipt = kept[1].opt.location_query[1].removeprefix("receipt=")
        url = f"http://127.0.0.1:{node.port('http')}/v1/groups/crew/topics/kept:ack"
        body = json.dumps({"receipts": [receipt]}).encode()
        with urllib.request.urlopen(urllib.request.Request(url, data=body, method="POST"), timeout=ANSWER_S) as answer:
            assert [result["ok"] for result in json.load(answer)["results"]] == [True]
    finally:
        node.stop()


def test_waiting_receive_is_answered_separately(node: Node) -> None:
    async def scene(one: Client) -> None:
        await one.request(aiocoap.POST, "/mq/late", b"first")
        await settle(one, "late", await receive(one, "late", "crew"))
        waiting = asyncio.ensure_future(one.request(aiocoap.GET, "/mq/late?group=crew&wait=8"))
        await asyncio.sleep(2)
        async with client(node) as other:
            await other.request(aiocoap.POST, "/mq/late", b"second")
        assert (await waiting).payload == b"second"

    run(node, scene)


def test_discovery(node: Node) -> None:
    async def scene(one: Client) -> None:
        links = await one.request(aiocoap.GET, "/.well-known/core?rt=headgate.*")
        assert links.payload.startswith(b"</mq>;")
        assert int(links.opt.content_format) == 40

    run(node, scene)


def test_acknowledged_value_survives_kill(tmp_path: Path) -> None:
    async def write(one: Client) -> None:
        for number in range(50):
            assert (await one.request(aiocoap.PUT, f"/mq/site/k{number}", b"%d" % number)).code == aiocoap.CREATED

    async def read(one: Client) -> None:
        for number in range(50):
            assert (await one.request(aiocoap.GET, f"/mq/site/k{number}")).payload == b"%d" % number

    node = Node(tmp_path).start()
    try:
        run(node, write)
        node.kill()
        node.start()
        run(node, read)
    finally:
        node.stop()


def test_what_was_acknowledged_before_a_kill_in_full_flow_is_there(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    node = Node(tmp_path)

    async def write(one: Client, name: str) -> None:
        for number in range(10_000):
            path = f"/mq/flow/{name}/{number}"
            if (await one.request(aiocoap.PUT, path, path.encode())).code == aiocoap.CREATED:
                acknowledged.append(path)

    async def flow() -> None:
        async with client(node) as first, client(node) as second:
            writers = [asyncio.ensure_future(write(first, "a")), asyncio.ensure_future(write(second, "b"))]
            while len(acknowledged) < 200:
                await asyncio.sleep(0.01)
            node.kill()
            for writer in writers:
                writer.cancel()
            await asyncio.gather(*writers, return_exceptions=True)

    async def read(one: Client) -> None:
        for path in acknowledged:
            assert (await one.request(aiocoap.GET, path)).payload == path.encode()

    node.start()
    try:
        asyncio.run(asyncio.wait_for(flow(), 60))
        node.start()
        run(node, read)
    finally:
        node.stop()


def test_fetch_observes_the_paths_that_match(node: Node) -> None:
    async def scene(one: Client) -> None:
        body = b"\xa1\x64path\x6cfloor/+/temp"
        asked = one.context.request(one.message(aiocoap.FETCH, "/mq/floor", body, content_format=60, observe=0))
        first = await asyncio.wait_for(asked.response, ANSWER_S)
        assert (first.code, first.payload) == (aiocoap.CONTENT, b"")
        heard: list[tuple[str, bytes]] = []

        async def listen() -> None:
            assert asked.observation is not None
            async for each in asked.observation:
                heard.append(("/".join(each.opt.location_path), each.payload))
                if len(heard) == 2:
                    return

        listening = asyncio.create_task(listen())
        for path, payload in (("1/temp", b"21"), ("1/light", b"on"), ("2/temp", b"22")):
            await one.request(aiocoap.POST, f"/mq/floor/{path}", payload)
        await asyncio.wait_for(listening, ANSWER_S)
        assert heard == [("mq/floor/1/temp", b"21"), ("mq/floor/2/temp", b"22")]

    run(node, scene)
