"""Waiting requests and observations end within a second after their right was revoked, with their protocol's status."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import aiocoap
import pytest

from tests.interop.node import Node

pytestmark = pytest.mark.interop

NOBODY = """
[access]
enabled = true
anonymous = "guest"
"""
GRANTED = NOBODY + "".join(
    f'[[access.policies]]\nsubject = "User:guest"\nresource = "{resource}"\nactions = {actions}\n'
    for resource, actions in (("Topic:t", '["Pub", "Sub"]'), ("Topic:u", '["Pub", "Sub"]'), ("Group:g", '["Sub"]'))
)
LESS = GRANTED.replace("Topic:t", "Topic:other")


@pytest.fixture
def revoke(tmp_path: Path, node: Node) -> Callable[[], float]:
    def take() -> float:
        """Revoke the right to topic `t`. Returns the time."""
        (tmp_path / "headgate.toml").write_text(LESS)
        node.signal(signal.SIGHUP)
        return time.monotonic()

    return take


@pytest.fixture
def node(tmp_path: Path) -> Node:
    file = tmp_path / "headgate.toml"
    file.write_text(GRANTED)
    return Node(tmp_path / "node", "--durability", "page", "--config", str(file))


def post(url: str, way: str, body: str = "") -> int:
    """Send a POST with curl. Returns the status."""
    words = ["curl", "-s", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", way, "--data-binary", body, url]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("way", ["--http1.1", "--http2-prior-knowledge"])
def test_a_long_poll_of_http(node: Node, revoke: Callable[[], float], way: str) -> None:
    with node:
        base = f"http://127.0.0.1:{node.port('http')}/v1"
        for topic in ("t", "u"):
            assert post(f"{base}/topics/{topic}/messages", way, "x") == 201
            assert post(f"{base}/groups/g/topics/{topic}:receive?max=1", way) == 200
        answers: dict[str, tuple[int, float]] = {}

        def poll(topic: str) -> None:
            status = post(f"{base}/groups/g/topics/{topic}:receive?max=1&wait_ms=4000", way)
            answers[topic] = (status, time.monotonic())

        threads = [threading.Thread(target=poll, args=(topic,)) for topic in ("t", "u")]
        for thread in threads:
            thread.start()
        time.sleep(1)
        gone = revoke()
        for thread in threads:
            thread.join(10)
        assert answers["t"][0] == 403
        assert answers["t"][1] - gone < 1
        assert answers["u"][0] == 204, "what is still granted goes on"
        assert answers["u"][1] - gone > 1.5


def test_an_observation_of_coap(node: Node, revoke: Callable[[], float]) -> None:
    asked_for: list[object] = []

    async def observe(path: str) -> tuple[list[bytes], list[Exception], aiocoap.Context]:
        context = await aiocoap.Context.create_client_context()
        asked = context.request(aiocoap.Message(code=aiocoap.GET, uri=f"coap://127.0.0.1:{node.port('coap')}{path}", observe=0))
        asked_for.append(asked)  # the library cancels an observation that is not referenced
        heard: list[bytes] = []
        ended: list[Exception] = []
        asked.observation.register_callback(lambda message: heard.append(bytes(message.payload)))
        asked.observation.register_errback(ended.append)
        assert (await asked.response).code is aiocoap.CONTENT
        return heard, ended, context

    async def run() -> None:
        _, ended, context = await observe("/mq/t/a")
        others, on, another = await observe("/mq/u/a")
        try:
            gone = await asyncio.to_thread(revoke)
            while not ended:
                assert time.monotonic() - gone < 30
                await asyncio.sleep(0.01)
            uri = f"coap://127.0.0.1:{node.port('coap')}/mq/u/a"
            await context.request(aiocoap.Message(code=aiocoap.POST, uri=uri, payload=b"1")).response
            await asyncio.sleep(0.2)
            assert (others, on) == ([b"1"], [])
        finally:
            await context.shutdown()
            await another.shutdown()

    with node:
        asyncio.run(run())
