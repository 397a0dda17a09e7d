"""The ports of the store, asked of a real Apache cluster from this process: what a gateway before it stands on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from domain.event import Leased
from domain.message import property as properties
from domain.message.record import Record
from domain.store.store_ports import LeaseResult, State, StateChange
from domain.store.store_request import LeaseRequest, LeaseTerms
from gateway.apache.pop.leases import RocketmqLeases
from gateway.apache.transactions import RocketmqTransactions
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.client.link import Link
from gateway.link.dialer import SocketDialer
from gateway.runtime.clock import LoopClock
from gateway.runtime.entropy import SystemEntropy
from protocols.remoting import codes
from tests.interop.rocketmq.apache import ApacheCluster

WAIT_S = 30.0


class KeptPlaces:
    """The state that a cluster map keeps, as long as the test runs."""

    def __init__(self) -> None:
        self._kept: dict[bytes, bytes | None] = {}

    def get(self, space: str, key: bytes, done: Callable[[bytes | None], None]) -> None:
        done(self._kept.get(key))

    def put(self, changes: Sequence[StateChange], done: Callable[[None], None]) -> None:
        self._kept.update({change.key: change.value for change in changes})
        done(None)


class NearGateway:
    """Leases and transactions as a gateway has them, over sockets. Lives within one event loop."""

    def __init__(self, apache: ApacheCluster) -> None:
        self.clock = clock = LoopClock(asyncio.get_running_loop())
        where = [("127.0.0.1", apache.nameserver.port)]
        self.brokers = Brokers(where, SocketDialer(lambda: None, "store.ca"), clock, SystemEntropy())
        self.map = ClusterMap(self.brokers, clock, cast(State, KeptPlaces()))
        self.woken: list[tuple[str, str]] = []
        self.leases = RocketmqLeases(
            self.brokers, self.map, clock, lambda group, topic: self.woken.append((group, topic)), lambda group, topic: None
        )
        self.transactions = RocketmqTransactions(self.brokers, lambda group: None)
        self.map.start()

    async def know(self, topic: str) -> None:
        """Learn the route of a topic."""
        assert await self.ask(self.map.ensure, topic) is None

    async def ask(self, call: Callable[..., None], *arguments: Any) -> Any:
        """The answer to a call whose last argument takes it."""
        answer = asyncio.get_running_loop().create_future()
        call(*arguments, answer.set_result)
        return await asyncio.wait_for(answer, WAIT_S)

    async def lease(
        self, topic: str, group: str, limit: int = 32, invisible_ms: int = 30_000, ordered: bool = False, attempt_id: str = "",
        **more: Any,
    ) -> list[Leased]:  # fmt: skip
        """One lease call."""
        terms = LeaseTerms(invisible_ms, ordered, attempt_id)
        request = LeaseRequest(group, topic, limit, terms, from_first=True, **more)
        found = await self.ask(self.leases.lease, request)
        assert isinstance(found, LeaseResult), found
        return found.messages

    async def until(self, topic: str, group: str, count: int, **more: Any) -> list[Leased]:
        """Lease until there are so many messages."""
        found: list[Leased] = []
        limit = asyncio.get_running_loop().time() + WAIT_S
        while len(found) < count:
            assert asyncio.get_running_loop().time() < limit, [body(each) for each in found]
            found += await self.lease(topic, group, **more)
            await asyncio.sleep(0.05)
        return found

    def close(self) -> None:
        """End the connections."""
        self.map.stop()
        self.brokers.close()


def body(message: Leased) -> str:
    """The body of a message."""
    return Record(message.record).body.decode()


def send(apache: ApacheCluster, broker: str, topic: str, bodies: list[str], **more: str) -> list[dict[str, str]]:
    """Send messages to queue 0 of a broker, as an SDK does. `more`: properties. Returns the fields of the answers."""
    requests = []
    for at, each in enumerate(bodies):
        stored = properties.encode([("UNIQ_KEY", f"{broker}-{topic}-{at}-{each}"), *more.items()]).decode()
        fields = {
            "a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "4" if "TRAN_MSG" in more else "0",
            "g": str(time.time_ns() // 1_000_000), "h": "0", "i": stored, "j": "0", "k": "false", "m": "false",
        }  # fmt: skip
        requests.append((codes.SEND_V2, fields, each.encode()))
    link = Link(apache.brokers[broker].address, 10)
    try:
        # One at a time: a broker has several threads, which store what comes together in any order.
        replies = [link.ask([each])[0] for each in requests]
    finally:
        link.close()
    assert {reply.code for reply in replies} == {0}, replies[0].remark
    return [dict(reply.fields() or {}) for reply in replies]


def run(play: Callable[[NearGateway], Awaitable[None]], apache: ApacheCluster) -> None:
    """Run a test with one gateway."""

    async def played() -> None:
        gateway = NearGateway(apache)
        try:
            await play(gateway)
        finally:
            gateway.close()
            await asyncio.sleep(0)

    asyncio.run(played())
