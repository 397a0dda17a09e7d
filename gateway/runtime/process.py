"""The process of `headgate up`: event loop, signals, the table printed at the start, and the exit code."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.audit.audit_file import AUDIT_FILE
from gateway.audit.settings import AuditSettings
from gateway.node.node import Node
from gateway.observe.log_format import configure
from gateway.runtime.clock import new_loop
from gateway.runtime.collector import Collector, collect_all
from gateway.runtime.compiled import at_next_start, under_way
from gateway.runtime.spare_descriptors import HELD, SPARE

if TYPE_CHECKING:
    from gateway.node.settings import Config
    from gateway.runtime.admin.server import AdminServer

log = logging.getLogger("headgate.process")
COMPILING_CHECK_S = 2.0
"""Seconds between two looks at whether the compilation beside the server has ended."""
REST_S = 0.5
"""Seconds between the end of a node whose store leads no more and the start of the next one: what ends it may end that, too."""


def run(config: Config, compiled: str, reread: Callable[[], Config], admin: AdminServer | None = None) -> int:
    """Serve until SIGTERM or SIGINT. On SIGHUP settings and certificates are reread.

    `compiled`: the line about compiled modules. `admin`: the admin port, which answers already.

    Raises ConfigError and StoreError before anything is served.
    """
    configure(config.log_level, config.log_format)
    _open_audit(config)
    _raise_file_limit()
    SPARE.hold(HELD)
    gc.collect()
    gc.disable()  # what the start makes stays: to search it for cycles takes seconds at a million queues
    loop = new_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(_serve(lambda before: _node(config, reread, before, admin), loop, compiled))
    finally:
        loop.close()
        AUDIT_FILE.close()


def _open_audit(config: Config) -> None:
    """Write the audit log from now on. Raises ConfigError for settings that are not valid."""
    settings = config.part(AuditSettings, "audit")
    if settings.enabled:
        path = Path(settings.file) if settings.file else Path(config.data) / "audit" / "audit.jsonl"
        AUDIT_FILE.open(path, settings.bytes_max, settings.files_max)


def _node(config: Config, reread: Callable[[], Config], before: Node | None, admin: AdminServer | None) -> Node:
    """The first node, or the one that replaces `before`, with its sockets, its controller and the admin port."""
    if before is None:
        return Node(config, reread, admin=admin)
    return Node(before.next, reread, kept=before.kept, controller=before.controller, admin=before.admin)


async def _serve(make: Callable[[Node | None], Node], loop: asyncio.AbstractEventLoop, compiled: str) -> int:
    """Run a node, and replace it by another one whenever its store has ceased to lead its group, or is to become a replica."""
    wanted = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, wanted.set)
    Collector(loop.call_later).begin()
    if under_way():
        loop.call_later(COMPILING_CHECK_S, say_when_compiled, loop)
    node: Node | None = None
    try:
        while not wanted.is_set():
            before, node = node, make(node)
            if before is not None:
                del before
                collect_all()
            if await _started(node, wanted):
                loop.add_signal_handler(signal.SIGHUP, node.own.reload.now)
                announce(node, compiled)
                await _first(wanted, node.over)
                await node.stop(goes_on=not wanted.is_set())
                loop.add_signal_handler(signal.SIGHUP, _unneeded)
            elif not wanted.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(wanted.wait(), REST_S)
    finally:
        if node is not None and node.controller is not None:
            await node.controller.stop()
    return 0


async def _first(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    waits = [asyncio.ensure_future(each.wait()) for each in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()


async def _started(node: Node, wanted: asyncio.Event) -> bool:
    """Start the node. False: it ended before that. While it waits for its election, a signal may stop the process, and the life
    of its replica may end."""
    starting = asyncio.ensure_future(node.start())
    ending = asyncio.ensure_future(_first(wanted, node.over))
    await asyncio.wait((starting, ending), return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait((starting,))
        return False
    await starting
    return True


def say_when_compiled(loop: asyncio.AbstractEventLoop) -> None:
    """Log one line when the compilation that `./up` has begun beside the server has ended."""
    if under_way():
        loop.call_later(COMPILING_CHECK_S, say_when_compiled, loop)
    else:
        log.info("the compilation has ended; from the next start on: %s", at_next_start())


def _raise_file_limit() -> None:
    """Raise the limit of open files to its maximum: each connection needs one, and the default is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def announce(node: Node, compiled: str) -> None:
    """Print the listeners, the durability of acknowledged messages, and protocols that are not available."""
    lines = [f"  {name:<11} {address:<24} {about}" for name, address, about in node.lines()]
    print("\n".join(["Headgate is ready.", *lines]))
    for what, how in node.details():
        print(f"  {what:<11} {how}")
    print(f"  running     {compiled}", flush=True)
    for name, why in node.protocols.missing.items():
        print(f"headgate: protocol {name} is not available: {why}", file=sys.stderr, flush=True)


def _unneeded() -> None:
    """SIGHUP while no node serves: the next one reads the settings at its start."""
