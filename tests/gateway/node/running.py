"""Nodes in the process of the test, on any free ports, and `headgate` in a process of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from gateway.node.composition import known
from gateway.node.node import Node
from gateway.node.settings import Config, load
from tests.interop.node import ROOT


def config(folder: Path, **options: object) -> Config:
    """A configuration with `options`, any free ports else, and its data in `folder`."""
    parts = known()
    return load({"data": str(folder), **{f"ports.{name}": 0 for name in parts.ports}, **options}, {}, parts)


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds, for a minute at most."""
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)


def served(folder: Path, scene: Callable[[Node], Awaitable[None]], **options: object) -> None:
    """Start a node with `options` beside the ports, and run `scene`, which stops it."""

    async def run() -> None:
        node = Node(config(folder / "data", **options))
        await node.start()
        await scene(node)

    asyncio.run(run())


def headgate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `headgate` to its end."""
    command = [sys.executable, "-m", "gateway", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, env=dict(os.environ), check=False)
