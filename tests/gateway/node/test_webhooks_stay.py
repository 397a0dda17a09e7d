"""A node that stops refuses what waits, and takes nothing from its users: their webhooks go on after the next start."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp

from gateway.node.node import Node
from tests.gateway.node.running import served

ROOT = {"authorization": aiohttp.encode_basic_auth("root", "wonderland")}


def session_to(node: Node) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(f"http://127.0.0.1:{node.ports['http']}", headers=ROOT)


def test_a_webhook_of_a_user_is_active_again_after_an_orderly_stop(tmp_path: Path) -> None:
    paths: list[str] = []
    found: list[str] = []

    async def subscribe(node: Node) -> None:
        document = {
            "source": "orders", "sink": "https://sink.example/", "protocol": "HTTP", "config": {"verify": False},
        }  # fmt: skip
        async with session_to(node) as session, session.post("/subscriptions", data=json.dumps(document)) as answer:
            assert answer.status == 201, await answer.text()
            paths.append(answer.headers["location"])
        await node.stop()

    async def poll(node: Node) -> None:
        async with session_to(node) as session, session.get(paths[0]) as answer:
            told = await answer.json()
            found.append(f"{told['status']} {told.get('reason', '')}")
        await node.stop()

    served(tmp_path, subscribe, admin="root:wonderland")
    served(tmp_path, poll, admin="root:wonderland")
    assert found == ["active "]
