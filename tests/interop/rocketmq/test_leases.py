"""Leases and transactions against real brokers: receipts, redelivery, order, filters, and a broker that is killed or paused."""

from __future__ import annotations

import asyncio
from typing import Any

from domain.errors import Failure
from domain.event import Leased
from domain.filter import expression
from domain.filter.filter import SQL92, TAG
from domain.message.receipt import Receipt, parse
from domain.message.record import Record
from gateway.apache.heartbeats import RocketmqHeartbeats
from gateway.apache.store import RocketmqDeadLetters
from tests.interop.rocketmq.apache import ApacheCluster
from tests.interop.rocketmq.near import NearGateway, body, run, send


async def settle(gateway: NearGateway, topic: str, group: str, receipts: list[Receipt]) -> None:
    outcomes = await gateway.ask(gateway.leases.settle, group, topic, receipts)
    assert outcomes == [None] * len(receipts)


def test_messages_of_both_brokers_are_leased_and_settled_by_another_gateway(apache: ApacheCluster) -> None:
    apache.make_topic("both")
    for broker in ("broker-a", "broker-b"):
        send(apache, broker, "both", [f"{broker} {at}" for at in range(20)])

    async def play(first: NearGateway) -> None:
        await first.know("both")
        found = await first.until("both", "both-group", 40, limit=7, invisible_ms=10_000)
        assert sorted(map(body, found)) == sorted(f"{broker} {at}" for broker in apache.brokers for at in range(20))
        second = NearGateway(apache)
        try:
            await second.know("both")
            # As a client gives them back: text.
            receipts = [parse(each.receipt.text()) for each in found]
            await settle(second, "both", "both-group", [each for each in receipts if each is not None])
            await asyncio.sleep(14)
            assert await second.lease("both", "both-group") == []
        finally:
            second.close()

    run(play, apache)


def test_a_message_that_is_not_settled_comes_again_and_a_changed_lease_has_a_new_receipt(apache: ApacheCluster) -> None:
    apache.make_topic("again")
    send(apache, "broker-a", "again", ["one", "two"])

    async def play(gateway: NearGateway) -> None:
        await gateway.know("again")
        found = {body(each): each for each in await gateway.until("again", "again-group", 2)}
        [changed] = await gateway.ask(gateway.leases.extend, "again-group", "again", [found["one"].receipt], 2_000)
        assert isinstance(changed, Receipt)
        assert changed.pop_ms > found["one"].receipt.pop_ms
        await settle(gateway, "again", "again-group", [found["two"].receipt])
        [once_more] = await gateway.until("again", "again-group", 1)
        assert (body(once_more), once_more.attempt) == ("one", 2)
        assert once_more.receipt.retry in (1, 2)
        await settle(gateway, "again", "again-group", [once_more.receipt])

    run(play, apache)


def test_a_notification_tells_of_a_message(apache: ApacheCluster) -> None:
    apache.make_topic("told")

    async def play(gateway: NearGateway) -> None:
        await gateway.know("told")
        assert await gateway.lease("told", "told-group") == []
        gateway.woken.clear()
        await asyncio.to_thread(send, apache, "broker-b", "told", ["new"])
        async with asyncio.timeout(10):
            while not gateway.woken:
                await asyncio.sleep(0.01)
        assert gateway.woken[0] == ("told-group", "told")
        assert [body(each) for each in await gateway.until("told", "told-group", 1)] == ["new"]

    run(play, apache)


def test_filters_of_both_types_are_the_brokers(apache: ApacheCluster) -> None:
    apache.make_topic("filtered")
    send(apache, "broker-a", "filtered", ["red"], TAGS="red", number="7")
    send(apache, "broker-b", "filtered", ["blue"], TAGS="blue", number="3")

    async def play(gateway: NearGateway) -> None:
        await gateway.know("filtered")
        by_tag = await gateway.until("filtered", "tag-group", 1, wanted=expression.compiled(TAG, "blue"))
        assert [body(each) for each in by_tag] == ["blue"]
        by_sql = await gateway.until("filtered", "sql-group", 1, wanted=expression.compiled(SQL92, "number > 5"))
        assert [body(each) for each in by_sql] == ["red"]

    run(play, apache)


def test_an_ordered_queue_is_blocked_until_its_lease_ends(apache: ApacheCluster) -> None:
    apache.make_topic("ordered", "FIFO", 1)
    apache.make_group("ordered-group", orderly=True)
    send(apache, "broker-a", "ordered", [f"step {at}" for at in range(4)], __SHARDINGKEY="k")
    apache.until_readable("broker-a", "ordered", 4)

    async def play(gateway: NearGateway) -> None:
        await gateway.know("ordered")
        more: dict[str, Any] = {"ordered": True, "limit": 2}
        found = await gateway.until("ordered", "ordered-group", 2, attempt_id="first", **more)
        assert [body(each) for each in found] == ["step 0", "step 1"]
        assert [each.receipt.revive_queue for each in found] == [999, 999]
        assert await gateway.lease("ordered", "ordered-group", **more) == []
        same = await gateway.lease("ordered", "ordered-group", attempt_id="first", **more)
        assert [body(each) for each in same] == ["step 0", "step 1"]
        gateway.woken.clear()
        await settle(gateway, "ordered", "ordered-group", [each.receipt for each in same])
        assert ("ordered-group", "ordered") in gateway.woken
        rest = await gateway.until("ordered", "ordered-group", 2, **more)
        assert [body(each) for each in rest] == ["step 2", "step 3"]

    run(play, apache)


def test_a_dead_letter_is_in_the_topic_of_its_group(apache: ApacheCluster) -> None:
    apache.make_topic("poison")
    send(apache, "broker-b", "poison", ["bad"])

    async def play(gateway: NearGateway) -> None:
        await gateway.know("poison")
        [message] = await gateway.until("poison", "poison-group", 1, invisible_ms=10_000)
        moves = RocketmqDeadLetters(gateway.brokers, gateway.leases)
        assert await gateway.ask(moves.move, "poison-group", "poison", message.receipt, message.record) is None
        async with asyncio.timeout(30):
            while await gateway.ask(gateway.map.ensure, "%DLQ%poison-group") is not None:
                await asyncio.sleep(0.3)
        [letter] = await gateway.until("%DLQ%poison-group", "reader", 1)
        assert body(letter) == "bad"

    run(play, apache)


def test_half_messages_are_decided_and_asked_about(apache: ApacheCluster) -> None:
    apache.make_topic("paid", "TRANSACTION")
    half = {"TRAN_MSG": "true", "PGROUP": "paid"}
    answers = {name: send(apache, "broker-b", "paid", [name], **half)[0] for name in ("committed", "rolled-back", "forgotten")}

    async def play(gateway: NearGateway) -> None:
        await gateway.know("paid")
        asked: list[tuple[str, str]] = []

        class Listener:
            def undecided(self, group: str, record: bytes, check: int) -> bool:
                asked.append((group, Record(record).body.decode()))
                return True

        gateway.transactions.listen(Listener())
        for name, fields in answers.items():
            position = int(fields["msgId"][16:], 16)
            key = f"broker-b-paid-0-{name}"
            gateway.transactions.half_stored("paid", key, "paid", "broker-b", int(fields["queueOffset"]), position)
        end = gateway.transactions.end
        assert await gateway.ask(end, "paid", "broker-b-paid-0-committed", -1, -1, True) is None
        assert await gateway.ask(end, "paid", "broker-b-paid-0-rolled-back", -1, -1, False) is None
        beats = RocketmqHeartbeats(
            gateway.brokers, gateway.map, gateway.clock, "test", gateway.leases.reading, lambda group: True
        )  # fmt: skip
        while not gateway.map.is_known:
            await asyncio.sleep(0.05)
        beats.produces("paid")
        async with asyncio.timeout(60):
            while ("paid", "forgotten") not in asked:
                await asyncio.sleep(0.2)
        assert await gateway.ask(end, "paid", "broker-b-paid-0-forgotten", -1, -1, True) is None
        found = await gateway.until("paid", "paid-group", 2)
        assert sorted(map(body, found)) == ["committed", "forgotten"]
        assert {group for group, _ in asked} == {"paid"}

    run(play, apache)


def test_a_killed_broker_delays_its_own_messages_alone(apache: ApacheCluster) -> None:
    apache.make_topic("killed")
    send(apache, "broker-a", "killed", ["a 0"])
    send(apache, "broker-b", "killed", ["b 0"])

    async def play(gateway: NearGateway) -> None:
        await gateway.know("killed")
        found = await gateway.until("killed", "killed-group", 2)
        assert sorted(map(body, found)) == ["a 0", "b 0"]
        await asyncio.to_thread(send, apache, "broker-b", "killed", ["b 1"])
        await asyncio.to_thread(apache.brokers["broker-b"].kill)
        try:
            await asyncio.to_thread(send, apache, "broker-a", "killed", ["a 1", "a 2"])
            here = await gateway.until("killed", "killed-group", 2)
            assert sorted(map(body, here)) == ["a 1", "a 2"]
            [failure] = await gateway.ask(gateway.leases.settle, "killed-group", "killed", [_of(found, "b 0").receipt])
            assert isinstance(failure, Failure)
            await settle(gateway, "killed", "killed-group", [each.receipt for each in here])
        finally:
            # In this thread: a server ends with the thread that started it (benchmarks.process.bound).
            apache.restart("broker-b")
        back = await gateway.until("killed", "killed-group", 1)
        assert body(back[0]) in ("b 0", "b 1")

    run(play, apache)


def test_a_paused_broker_delays_its_own_messages_alone(apache: ApacheCluster) -> None:
    apache.make_topic("paused")
    send(apache, "broker-a", "paused", ["a 0"])
    send(apache, "broker-b", "paused", ["b 0"])

    async def play(gateway: NearGateway) -> None:
        await gateway.know("paused")
        apache.brokers["broker-b"].pause()
        try:
            assert [body(each) for each in await gateway.until("paused", "paused-group", 1)] == ["a 0"]
        finally:
            apache.brokers["broker-b"].resume()
        assert [body(each) for each in await gateway.until("paused", "paused-group", 1)] == ["b 0"]

    run(play, apache)


def _of(messages: list[Leased], name: str) -> Leased:
    return next(each for each in messages if body(each) == name)
