"""Gateways before Apache RocketMQ in controller mode: what is acknowledged outlives gateways and masters.

Seven of Apache's servers take two minutes to start: `make soak` runs this.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import aiocoap
import grpc
import pytest

from benchmarks.process import bound
from gateway.client.answer import ClientError
from gateway.client.client import Client
from gateway.client.link import Link
from protocols.remoting import codes
from tests.interop.cluster.load import INVISIBLE_MS, LOST, Load, Work, call
from tests.interop.grpc.stub_consumer import StubConsumer
from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient
from tests.interop.rocketmq.controllers import GROUPS, ControllerCluster
from tests.interop.rocketmq.gateway import gateway_before
from tests.interop.rocketmq.test_gateway import test_what_every_protocol_sends_is_at_apaches_own_side  # noqa: F401
from tests.patience import until
from tests.store.faults.soak import SOAK
from tests.stored_records import stored_bodies

pytestmark = [pytest.mark.interop, pytest.mark.skipif(not SOAK, reason="seven of Apache's servers: make soak runs it")]
KILLS: Final = int(os.environ.get("SOAK_KILLS", "12"))
BETWEEN: Final = 60
"""Acknowledged messages between two kills."""
WAIT_S: Final = 240.0


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControllerCluster]:
    """In place of the two masters of the other files."""
    with ControllerCluster(tmp_path_factory.mktemp("controllers")) as running:
        yield running


@pytest.fixture
def gateways(apache: ControllerCluster, tmp_path: Path) -> Iterator[list[Node]]:
    """Two gateways, and those that a test adds."""
    running = [gateway_before(apache.nameserver.address, tmp_path / f"gateway-{number}").start() for number in range(2)]
    try:
        yield running
    finally:
        for each in running:
            each.kill()


@pytest.fixture(scope="module")
def gateway(apache: ControllerCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One gateway, for the test of another file."""
    node = gateway_before(apache.nameserver.address, tmp_path_factory.mktemp("gateway")).start()
    try:
        yield node
    finally:
        node.kill()


@pytest.fixture
def near(apache: ControllerCluster) -> Iterator[Client]:
    """A client at Apache's own side."""
    with Client(apache.nameserver.address) as client:
        yield client


class LoadOfAll(Load):
    """Senders of every protocol."""

    def works(self) -> Sequence[Work]:
        """What is done, each by a thread."""
        return (*super().works(), self._event, self._coap, self._grpc, self._remote)

    def key(self, message: dict[str, Any]) -> object:
        """The brokers store a message anew when its lease ends, so its place does not stay."""
        return message["id"]

    def _event(self, number: int, chance: random.Random) -> None:
        for body in self._bodies(number):
            fields = {"ce-specversion": "1.0", "ce-id": body, "ce-source": "/load", "ce-type": "made"}
            with suppress(*LOST):
                call(chance.choice(self.gateways), f"/ce/{self.topic}", body.encode(), **fields)
                self.sent.add(body)

    def _coap(self, number: int, chance: random.Random) -> None:
        async def run() -> None:
            context = await aiocoap.Context.create_client_context()
            for body in self._bodies(number):
                uri = f"coap://127.0.0.1:{chance.choice(self.gateways).port('coap')}/mq/{self.topic}"
                request = context.request(aiocoap.Message(code=aiocoap.POST, uri=uri, payload=body.encode())).response
                with suppress(aiocoap.error.Error, TimeoutError):
                    if (await asyncio.wait_for(request, 5)).code == aiocoap.CREATED:
                        self.sent.add(body)
            await context.shutdown()

        asyncio.run(run())

    def _grpc(self, number: int, chance: random.Random) -> None:
        for body in self._bodies(number):
            with (
                suppress(grpc.RpcError, AssertionError),
                StubConsumer(chance.choice(self.gateways), self.topic, "none") as client,
            ):
                client.send(body.encode())
                self.sent.add(body)

    def _remote(self, number: int, chance: random.Random) -> None:
        for body in self._bodies(number):
            nameserver = f"127.0.0.1:{chance.choice(self.gateways).port('nameserver')}"
            with suppress(ClientError, OSError), Client(nameserver, timeout_s=5, retry_s=0.1) as client:
                route = client.route(self.topic)
                queue = chance.choice(route.queues)
                fields = {
                    "a": "load", "b": self.topic, "c": "TBW102", "d": "4", "e": str(queue.queue_id), "f": "0", "g": "1",
                    "h": "0", "i": "", "j": "0", "k": "false", "m": "false", "n": queue.broker,
                }  # fmt: skip
                link = Link(route.addresses[queue.broker], 5)
                try:
                    # An answer that is no success, as FLUSH_SLAVE_TIMEOUT, promises nothing.
                    if link.ask([(codes.SEND_V2, fields, body.encode())])[0].code == codes.SUCCESS:
                        self.sent.add(body)
                finally:
                    link.close()

    def _bodies(self, number: int) -> Iterator[str]:
        count = 0
        while self.producing:
            yield f"{number}-{count}"
            count += 1


def everything_is_settled(load: Load) -> None:
    """End the load when all that was sent is settled."""
    load.producing = False
    until(lambda: not load.missing() or bool(load.faults), WAIT_S, lambda: f"{sorted(load.missing())}")
    load.consuming = False
    load.join()
    assert load.faults == []
    assert load.missing() == set()
    assert {body.partition("-")[0] for body in load.sent} == {"0", "1", "4", "5", "6", "7"}, "each protocol has sent"


def test_leases_hold_while_gateways_are_killed_and_added(
    apache: ControllerCluster, gateways: list[Node], near: Client, tmp_path: Path
) -> None:
    apache.make_topic("leased")
    apache.make_group("workers", retryMaxTimes=10_000)
    load, chance = LoadOfAll(gateways, "leased"), random.Random(3)
    load.start()
    for kill in range(KILLS):
        until(partial(load.progressed, len(load.settled) + BETWEEN), WAIT_S)
        victim = chance.choice(gateways)
        victim.kill()
        if kill == 1:
            gateways.append(gateway_before(apache.nameserver.address, tmp_path / "added").start())
        victim.start()
    everything_is_settled(load)
    assert load.sent <= {each.decode() for each in stored_bodies(near, "leased")}
    print(f"{len(load.sent)} acknowledged messages, {KILLS} kills of gateways")
    for message, deliveries in load.deliveries.items():
        deliveries.sort()
        for before, after in pairwise(deliveries):
            assert after.popped_ms - before.popped_ms >= INVISIBLE_MS, f"the lease of {message} was broken: {deliveries}"
            assert not before.settled, f"{message} came again after its acknowledgement: {deliveries}"


def test_nothing_acknowledged_is_lost_when_masters_are_killed(
    apache: ControllerCluster, gateways: list[Node], near: Client, java: JavaClient, tmp_path: Path
) -> None:
    apache.make_topic("kept")
    apache.make_group("workers", retryMaxTimes=10_000)
    load = LoadOfAll(gateways, "kept")
    with (tmp_path / "member").open("wb") as output:
        arguments = ("push", apache.addresses, "none", "members", "kept")
        member = subprocess.Popen(bound([*java.command("Member"), *arguments]), stdout=output, stdin=subprocess.DEVNULL)

    def done() -> set[str]:
        lines = (line.split() for line in (tmp_path / "member").read_text().splitlines())
        return {line[1] for line in lines if line[0] == "done"}

    try:
        until(lambda: "ready" in (tmp_path / "member").read_text(), WAIT_S)
        load.start()
        for kill in range(KILLS):
            until(partial(load.progressed, len(load.settled) + BETWEEN), WAIT_S)
            dead = apache.kill_master(GROUPS[kill % len(GROUPS)])
            until(partial(load.progressed, len(load.settled) + BETWEEN), WAIT_S)
            dead.spawn()
            dead.ready()
            apache.until_in_sync()
        everything_is_settled(load)
        assert load.sent <= {each.decode() for each in stored_bodies(near, "kept")}
        print(f"{len(load.sent)} acknowledged messages, {KILLS} kills of masters")
        # A consumer at Apache's own side, with the unmodified client.
        until(lambda: load.sent <= done(), WAIT_S, lambda: str(sorted(load.sent - done())))
    finally:
        member.kill()
        member.wait()
