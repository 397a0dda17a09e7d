"""Rounds of one side: start a fresh server, warm it up, run the counted load and check its messages."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from benchmarks.apache_servers import apache, apache_proxy, gateway_and_apache, two_apache_proxies, two_gateways_and_apache
from benchmarks.brokers import mochi, mosquitto, nats
from benchmarks.generator import Figures, Held, load
from benchmarks.servers import Server, gateway_and_store, headgate
from benchmarks.shapes import HALF, SHAPES, Shape

SIDES: dict[str, Callable[[Path, str], Server]] = {
    "headgate": headgate, "apache": apache, "mosquitto": mosquitto, "mochi": mochi, "nats": nats,
    "gateway and store": gateway_and_store, "apache proxy": apache_proxy,
    "two apache proxies": two_apache_proxies, "gateway and apache": gateway_and_apache,
    "two gateways and apache": two_gateways_and_apache,
}  # fmt: skip
STEADY = 0.95
"""A JVM is warm when a run costs more CPU than this share of the run before it."""
STORED_WAIT_S = 5.0
STARTS = 3

CREATE_TOPIC = Shape("", "rocketmq", "create-topic", "remoting", 1, 1, 1, ())
STORED = Shape("", "rocketmq", "remoting-stored", "remoting", 1, 1, 1, ())
STORING = ("remoting-send", "grpc-send", "remoting-transaction")
"""Modes after which the topic must contain as many messages as were answered."""


@dataclass(frozen=True)
class Terms:
    """Parameters of a whole comparison: durability, share of the usual counts, seconds to warm a JVM, rate for HALF."""

    durability: str = "page"
    scale: float = 1.0
    warm_s: float = 30.0
    rate: int = 0


def measure(side: str, shape: Shape, terms: Terms) -> Figures:
    """Run one round. Raises AbsentError for a peer that is not installed; OSError, RuntimeError, SubprocessError on failure."""
    with Loaded(side, shape, terms) as loaded:
        return loaded.round()


def half_load(terms: Terms) -> int:
    """Half of the QoS 1 messages a second that Headgate reaches on this machine, rounded to thousands."""
    reached = measure("headgate", SHAPES["mqtt-qos1"], replace(terms, scale=min(terms.scale, 0.5)))["per_second"]
    return max(1000, int(reached / 2000) * 1000)


def _start(side: str, folder: Path, durability: str) -> Server:
    """Start a server. Tries again when another process has taken a port that was free."""
    for attempt in range(STARTS):
        try:
            return SIDES[side](folder / str(attempt), durability)
        except RuntimeError:
            if attempt == STARTS - 1:
                raise
    raise AssertionError("unreachable")


class Loaded:
    """A fresh server of one side with a folder of its own, warm for one shape. The end of the block stops it."""

    def __init__(self, side: str, shape: Shape, terms: Terms) -> None:
        """Raises what `measure` raises."""
        self._shape, self._terms = shape, terms
        self._count = int(shape.count * terms.scale)
        self._rate = terms.rate if shape.rate == HALF else shape.rate
        self._warmed: Figures = {}
        self._folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
        try:
            self._server = _start(side, self._folder, terms.durability)
            try:
                if shape.mode != "mqtt-idle":
                    self._prepare()
            except BaseException:
                self._server.stop()
                raise
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _prepare(self) -> None:
        server, shape = self._server, self._shape
        if "remoting" in server.ports and load(server, CREATE_TOPIC, 1)["errors"]:
            raise RuntimeError(f"{server.name} would not make the topic")
        if shape.mode in ("grpc-receive", "grpc-e2e"):
            load(server, replace(shape, mode="grpc-prime", conns=1), 1)
        if shape.before and not shape.drained:
            load(server, SHAPES[shape.before], int(SHAPES[shape.before].count * self._terms.scale))
        began = time.monotonic()
        warm = _warm(server, shape, self._terms, self._count, self._rate)
        self._warmed = {"warm_messages": warm, "warm_s": time.monotonic() - began}

    def round(self) -> Figures:
        """Run the counted load once and check its messages."""
        server, shape = self._server, self._shape
        if shape.mode == "mqtt-idle":
            return _memory(server, shape, self._count)
        _fill(server, shape, self._count)
        stored = _stored(server, shape)
        result = _counted(server, shape, self._count, self._rate)
        if shape.mode in STORING and "remoting" in server.ports:
            result["lost"] = _missing(server, shape, stored + int(result["messages"]))
        result["anonymous_mb"] = server.anonymous_mb()
        return {**result, **self._warmed}


def _counted(server: Server, shape: Shape, count: int, rate: int) -> Figures:
    """Run the load. The figures contain the server's CPU a message, and thousands of instructions where these are counted."""
    counter = server.counter
    if counter is not None:
        counter.begin()
    before = server.cpu_s()
    of_roles = _cpu_of_roles(server)
    result = load(server, shape, count, rate)
    time.sleep(shape.settle_s)
    messages = max(1, result["messages"])
    result["cpu_us"] = (server.cpu_s() - before) * 1e6 / messages
    for name, used in _cpu_of_roles(server).items():
        result[f"{name}_us"] = (used - of_roles[name]) * 1e6 / messages
    if counter is not None:
        result["instructions"] = counter.end() / 1000 / messages
    return result


def _cpu_of_roles(server: Server) -> Figures:
    """CPU time of the processes of each role, in seconds."""
    return {name: sum(process.cpu_s() for process in processes) for name, processes in server.roles.items()}


def _warm(server: Server, shape: Shape, terms: Terms, count: int, rate: int) -> int:
    """Run the warm-up. A JVM is run until a run costs no less CPU, or the time is up. Returns the number of messages."""
    if shape.rate:
        if shape.mode == "remoting-timer":
            return int(load(server, SHAPES["remoting-send"], count)["messages"])
        return int(load(server, shape, max(count // 5, 500), rate)["messages"])
    if not server.name.startswith("apache"):
        _fill(server, shape, count // 5)
        return int(load(server, shape, count // 5)["messages"])
    total, last, end = 0, 0.0, time.monotonic() + terms.warm_s
    while True:
        _fill(server, shape, count)
        result = _counted(server, shape, count, rate)
        total += int(result["messages"])
        if time.monotonic() >= end or (last and result["cpu_us"] > STEADY * last):
            return total
        last = result["cpu_us"]


def _fill(server: Server, shape: Shape, count: int) -> None:
    """Send the messages that the next run consumes, and some more, because each connection takes 32 at a time."""
    if shape.drained:
        load(server, SHAPES[shape.before], int(count * 1.02) + shape.conns * shape.window * 32)


def _stored(server: Server, shape: Shape) -> int:
    return int(load(server, STORED, 1)["messages"]) if shape.mode in STORING and "remoting" in server.ports else 0


def _missing(server: Server, shape: Shape, expected: int) -> int:
    """Number of expected messages that are not in the topic. Waits some seconds for a broker that indexes later."""
    end = time.monotonic() + STORED_WAIT_S
    while (missing := expected - _stored(server, shape)) > 0 and time.monotonic() < end:
        time.sleep(0.1)
    return missing


def _memory(server: Server, shape: Shape, count: int) -> Figures:
    """Anonymous memory of an idle connection in KB: growth of all processes up to 3 s after opening them."""
    with Held(server, replace(shape, conns=4), 100):
        pass
    time.sleep(1)
    before = server.anonymous_mb()
    with Held(server, shape, count) as result:
        time.sleep(3)
        result["kb"] = (server.anonymous_mb() - before) * 1024 / max(1, result["messages"])
    return result
