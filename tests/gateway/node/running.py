"""A node in the process of the test, on any free ports."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from gateway.node.composition import known
from gateway.node.node import Node
from gateway.node.protocols import installed
from gateway.node.settings import load


def served(folder: Path, scene: Callable[[Node], Awaitable[None]], **options: object) -> None:
    """Start a node with `options` beside the ports, and run `scene`, which stops it."""

    async def run() -> None:
        parts = known(installed())
        given = {"data": str(folder / "data"), **{f"ports.{name}": 0 for name in parts.ports}, **options}
        node = Node(load(given, {}, parts))
        await node.start()
        await scene(node)

    asyncio.run(run())
