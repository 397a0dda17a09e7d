"""Webhooks over a simulated node: nothing is lost, keys keep their order, every retry ends, one owner at a time.

Eight seeds of each here; with WEBHOOK_SEEDS in the environment, so many.
"""

from __future__ import annotations

import json
import os
import random
from itertools import pairwise
from typing import Any

import pytest

from domain.address import dead_letter_topic
from domain.admin.subscription import AttemptList, PutSubscription, QueryAttempts, Redrive, Redriven, SubscriptionFound
from domain.command import Send
from domain.event import Event, Sent
from domain.limits import MILLISECOND_NS
from domain.message import property as properties
from domain.message.message import Message
from domain.message.record import Record
from domain.store.store_ports import ReadResult
from domain.store.store_request import ReadRequest
from domain.subscription.document import decode
from domain.subscription.subscription import WebhookSubscription
from gateway.connection.handler import Handler
from gateway.webhooks.delivery.deliverers import Deliverers
from gateway.webhooks.internal_client import InternalClient
from tests.simulation.courier import Arrival, SimulatedCourier, SimulatedSink
from tests.simulation.gateways import SimulatedGateway
from tests.simulation.kit.clock import PausableClock, ProcessClock
from tests.simulation.kit.entropy import SeededEntropy
from tests.simulation.paused import PausableHandler
from tests.simulation.world import World

SEEDS = int(os.environ.get("WEBHOOK_SEEDS", "8"))
WEATHER = (200, 200, 200, 204, 500, 503, 408, 429, 0, -1, 400, 302)
TOPIC = "sim"


class Hooks:
    """A world with processes that deliver, each with a life of its own: beside the node's gate, or in gateways before it.

    pausable   names of those that can be paused; they are beside the gate
    """

    def __init__(self, seed: int, weather: tuple[int, ...] = WEATHER, loss: float = 0.001) -> None:
        """`loss`: share of the messages to gateways with which their connection ends."""
        self.world = World(seed, gateways=0)
        self._loss = loss
        self.chance = random.Random(seed)
        self.sink = SimulatedSink(self.chance, weather)
        self.processes: dict[str, ProcessClock] = {}
        self.gateways: dict[str, SimulatedGateway] = {}
        self.deliverers: dict[str, Deliverers] = {}
        self.pausable: set[str] = set()
        self.world.start()
        self.sent: dict[bytes, str] = {}
        self.topics: dict[bytes, str] = {}

    def deliver(self, owner: str) -> None:
        """Start one process that delivers; in the place of one of the same name, which is killed."""
        self.kill(owner)
        world, parts = self.world, self.world.parts
        assert parts is not None
        handler: Handler = parts.gate
        life = ProcessClock(world.clock)
        if owner in self.pausable:
            life = pausable_life = PausableClock(world.clock)
            handler = PausableHandler(pausable_life, parts.gate)
        elif World.gateways_before:
            gateway = self.gateways[owner] = SimulatedGateway(parts, world.clock, world.ledger, self.chance, self._loss)
            handler, life = gateway.handler, gateway.life
        self.processes[owner] = life
        courier = SimulatedCourier(life, self.sink, owner)
        self.deliverers[owner] = Deliverers(handler, courier, life, SeededEntropy(self.chance), "sim")
        self.deliverers[owner].start()

    def kill(self, owner: str) -> None:
        """Kill -9 of a process that delivers."""
        before = self.processes.pop(owner, None)
        if before is not None:
            before.alive = False
        gateway = self.gateways.pop(owner, None)
        if gateway is not None:
            gateway.kill()

    def again(self, power: bool) -> None:
        """The node is killed and started again, and with it all that deliver."""
        owners = list(self.processes)
        for owner in owners:
            self.kill(owner)
        self.world.again(power)
        for owner in owners:
            self.deliver(owner)

    def ask(self, make: Any) -> Event:
        """One command of a client, answered."""
        found: list[Event] = []
        parts = self.world.parts
        assert parts is not None
        InternalClient(parts.gate, lambda: None).ask(make, found.append)
        for _ in range(1_000):
            if found:
                break
            self.world.clock.run_for(10)
        return found[0]

    def subscribe(
        self, sink: str = "https://sink.example/hook", source: str = TOPIC, **config: Any
    ) -> WebhookSubscription:  # fmt: skip
        """A subscription, by the document of a client."""
        document = {"source": source, "sink": sink, "protocol": "HTTP", "config": config}
        found = self.ask(lambda ticket: PutSubscription(ticket, json.dumps(document).encode(), source))
        assert isinstance(found, SubscriptionFound), found
        return decode(found.record)

    def send(self, body: bytes, key: str = "", topic: str = TOPIC) -> None:
        """One acknowledged message."""
        stored = properties.encode([("UNIQ_KEY", f"id-{body.decode()}"), *([("__SHARDINGKEY", key)] if key else [])])
        found = self.ask(lambda ticket: Send(ticket, [Message(topic, body, stored)]))
        assert isinstance(found, Sent), found
        self.sent[body] = key
        self.topics[body] = topic

    def dead(self, subscription: WebhookSubscription) -> list[bytes]:
        """Bodies of the dead letters."""
        found: list[bytes] = []

        def read(result: Any) -> None:
            if isinstance(result, ReadResult):
                found.extend(Record(each).body for each in result.records)

        parts = self.world.parts
        assert parts is not None
        dead = subscription.dead_letter_topic or dead_letter_topic(subscription.group)
        parts.store.log.read(ReadRequest(dead, 0, 0, 1_000, 1 << 22), read)
        self.world.clock.run_for(100)
        return found

    def attempts(self, subscription: WebhookSubscription) -> dict[tuple[str, int], list[str]]:
        """(message id, number of the try) -> outcomes, of all attempts in the log."""
        found = self.ask(lambda ticket: QueryAttempts(ticket, subscription.id, 1_000))
        assert isinstance(found, AttemptList), found
        out: dict[tuple[str, int], list[str]] = {}
        for each in found.attempts:
            out.setdefault((each.message_id, each.number), []).append(each.outcome)
        return out

    def unrecorded(self, subscription: WebhookSubscription) -> list[Arrival]:
        """Requests that the sink has taken, and that no attempt in the log tells of."""
        known = self.attempts(subscription)
        return [each for each in self.sink.arrivals if (each.identity, each.number) not in known]

    def settle(self, subscription: WebhookSubscription, seconds: int = 3_600) -> None:
        """Go on until all that was sent is delivered or a dead letter."""
        for _ in range(seconds // 5):
            if set(self.sink.delivered()) | set(self.dead(subscription)) >= set(self.sent):
                return
            self.world.clock.run_for(5_000)
        missing = set(self.sent) - set(self.sink.delivered()) - set(self.dead(subscription))
        raise AssertionError(f"neither delivered nor dead letters: {sorted(missing)}")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost_and_every_retry_ends(seed: int) -> None:
    hooks = Hooks(seed)
    hooks.deliver("a")
    retries = hooks.chance.choice((0, 2, 6))
    subscription = hooks.subscribe(retry=retries, backoffDelay="PT0.5S", timeout="PT2S", retryAfterMax="PT20S", concurrency=4)
    for number in range(40):
        hooks.send(b"%d" % number)
        if hooks.chance.random() < 0.05:
            hooks.again(power=hooks.chance.random() < 0.5)
    hooks.settle(subscription)
    kills = hooks.world.kills
    if kills:  # what the sink has taken, and nobody has acknowledged before the kill, is tried again, with all its retries
        hooks.world.clock.run_for(600_000)
    tries: dict[str, int] = {}
    for arrival in hooks.sink.arrivals:
        tries[arrival.identity] = tries.get(arrival.identity, 0) + 1
    assert max(tries.values()) <= retries + 1 + 2 * kills + 1, "a kill makes some of them be tried again"
    hooks.world.clock.run_for(3_600_000)
    assert sum(tries.values()) == len(hooks.sink.arrivals), "what was settled is not tried again"
    assert hooks.unrecorded(subscription) == [], "every request is in the log, with what came of it or as unknown"


@pytest.mark.parametrize("seed", range(SEEDS // 4))
def test_a_sink_that_is_down_is_left_alone(seed: int) -> None:
    """While the breaker is open nothing is sent, also of what was asked for before: at most one request a pause."""
    hooks = Hooks(seed, (500,))
    hooks.deliver("a")
    hooks.subscribe(retry=1_000, backoffPolicy="linear", backoffDelay="PT0.1S", concurrency=4)
    hooks.world.clock.run_for(1_000)
    for number in range(20):
        hooks.send(b"%d" % number)
        hooks.world.clock.run_for(200)
    before = len(hooks.sink.arrivals)
    hooks.world.clock.run_for(600_000)
    assert 1 <= len(hooks.sink.arrivals) - before <= 8, "5, 10, 20, 40, 80, 160, 300 s"
    hooks.sink.weather = (200,)
    hooks.world.clock.run_for(400_000)
    assert set(hooks.sink.delivered()) == set(hooks.sent)


def test_what_a_sink_asks_too_much_of_is_counted() -> None:
    """Hanging, answers without an end, and a Retry-After of thirty years; nothing is lost for it."""
    hooks = Hooks(1, (200, 0, -2, 429))
    hooks.deliver("a")
    hooks.subscribe(retry=100, backoffPolicy="linear", backoffDelay="PT0.1S", retryAfterMax="PT1M")
    for number in range(40):
        hooks.send(b"%d" % number)
    hooks.world.clock.run_for(12 * 3_600_000)
    statuses = [each.status for each in hooks.sink.arrivals]
    found = hooks.deliverers["a"].figures()
    assert found["webhook_timeouts_total"] == statuses.count(0) > 0
    assert found["webhook_answers_cut_total"] == statuses.count(-2) > 0
    assert found["webhook_waits_capped_total"] == sum(each > 60 for each in hooks.sink.asked_s) > 0
    taken = {each.body for each in hooks.sink.arrivals if each.status in (200, -2)}
    assert taken == set(hooks.sent)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_keys_keep_their_order(seed: int) -> None:
    hooks = Hooks(seed, tuple(status for status in WEATHER if status not in (400, 302)))
    hooks.deliver("a")
    subscription = hooks.subscribe(
        retry=1_000, backoffPolicy="linear", backoffDelay="PT0.1S", timeout="PT1S", retryAfterMax="PT3S", ordered=True
    )
    for number in range(30):
        key = f"k{number % 3}"
        hooks.send(f"{key}-{number:03}".encode(), key)
        if hooks.chance.random() < 0.03:
            hooks.again(power=False)
    hooks.settle(subscription)
    for key in ("k0", "k1", "k2"):
        mine = [body for body in hooks.sink.delivered() if body.startswith(key.encode())]
        first = list(dict.fromkeys(mine))
        assert first == sorted(first), "a message overtook an earlier one of its key"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_one_owner_delivers_at_a_time(seed: int) -> None:
    hooks = Hooks(seed, (200, 200, 500))
    for owner in ("a", "b", "c"):
        hooks.deliver(owner)
    subscription = hooks.subscribe(retry=1_000, backoffPolicy="linear", backoffDelay="PT0.1S", timeout="PT2S")
    killed: dict[str, int] = {}
    for number in range(30):
        hooks.send(b"%d" % number)
        if hooks.chance.random() < 0.1:
            owner = hooks.chance.choice(("a", "b", "c"))
            killed[owner] = hooks.world.clock.monotonic_ns()
            hooks.deliver(owner)
        hooks.world.clock.run_for(hooks.chance.choice((1, 100, 3_000)))
    hooks.settle(subscription)
    hooks.world.clock.run_for(120_000)
    assert hooks.unrecorded(subscription) == [], "also those of owners that were killed"
    assert len({arrival.owner for arrival in hooks.sink.arrivals}) >= 1
    for one in hooks.sink.arrivals:
        for other in hooks.sink.arrivals:
            overlaps = one.until and other.until and one.began < other.until and other.began < one.until
            assert not overlaps or one.owner == other.owner, f"{one} and {other} at once"


@pytest.mark.parametrize("seed", range(SEEDS // 4))
def test_dead_letters_of_an_ordered_subscription_come_again_one_for_each_key_at_a_time(seed: int) -> None:
    hooks = Hooks(seed, (400,))
    hooks.deliver("a")
    subscription = hooks.subscribe(retry=0, timeout="PT1S", ordered=True, deadLetterTopic="graves")
    hooks.subscribe("https://other.example/", retry=0, timeout="PT1S", deadLetterTopic="graves")
    for number in range(12):
        hooks.send(f"k{number % 2}-{number:03}".encode(), f"k{number % 2}")
    hooks.world.clock.run_for(60_000)
    hooks.sink.weather = (200,)
    dead = list(hooks.sent)
    before = len(hooks.sink.arrivals)
    found = hooks.ask(lambda ticket: Redrive(ticket, subscription.id))
    assert isinstance(found, Redriven)
    assert found.count == 12, "and not those of the other subscription in the same topic"
    for number in range(12, 20):
        hooks.send(f"k{number % 2}-{number:03}".encode(), f"k{number % 2}")
    hooks.world.clock.run_for(120_000)
    again = [each for each in hooks.sink.arrivals[before:] if each.url == subscription.sink]
    assert sorted(each.body for each in again) == sorted(hooks.sent)
    for key in (b"k0", b"k1"):
        mine = sorted((each for each in again if each.body.startswith(key)), key=lambda each: each.began)
        for one, next_one in pairwise(mine):
            assert next_one.began >= one.until, f"{next_one} while {one} is under way"
        assert [each.body for each in mine if each.body in dead] == [body for body in dead if body.startswith(key)]
    others = [each for each in hooks.sink.arrivals[before:] if each.url != subscription.sink]
    assert sorted(each.body for each in others) == sorted(set(hooks.sent) - set(dead))


@pytest.mark.parametrize("seed", range(SEEDS // 4))
def test_a_sink_that_hangs_delays_no_other(seed: int) -> None:
    """From the send to the arrival at every other sink, 20 ms apart, while one takes requests and never answers."""

    def late_ns(hangs: str) -> list[int]:
        hooks = Hooks(seed, (200,), 0.0)  # a connection that ends delays what is delivered meanwhile, in either run
        hooks.sink.hangs = hangs
        hooks.deliver("a")
        for number in range(12):
            hooks.subscribe(f"https://s{number}.example/", source=f"t{number}", verify=False, timeout="PT2S")
        hooks.world.clock.run_for(1_000)
        sent: dict[bytes, int] = {}
        for number in range(240):
            body = b"%d" % number
            sent[body] = hooks.world.clock.monotonic_ns()
            hooks.send(body, topic=f"t{number % 12}")
            hooks.world.clock.run_for(20)
        hooks.world.clock.run_for(10_000)
        arrived = {each.body: each.began for each in hooks.sink.arrivals if each.url != "https://s0.example/"}
        assert len(arrived) == 220
        return sorted(began - sent[body] for body, began in arrived.items())

    usual, beside = late_ns(""), late_ns("https://s0.example/")
    # Messages to gateways take other times in each run; that of a whole delivery is some 2 ms.
    drawn_ns = MILLISECOND_NS if World.gateways_before else 0
    assert beside[217] <= usual[217] * 1.1 + drawn_ns, "99 of 100"


@pytest.mark.parametrize("seed", range(SEEDS // 2))
def test_a_wildcard_reads_all_topics_also_those_made_later(seed: int) -> None:
    hooks = Hooks(seed, (200, 200, 204, 500, 0, 400))
    hooks.deliver("a")
    hooks.send(b"before", topic="old-1")
    hooks.sent.clear()
    subscription = hooks.subscribe(
        source="#",
        retry=3,
        backoffDelay="PT0.5S",
        timeout="PT2S",
        concurrency=2,
        replyTopic="replies",
        deadLetterTopic="graves",
    )
    for number in range(40):
        hooks.send(b"%d" % number, topic=hooks.chance.choice(("old-1", f"new-{number // 10}", "graves", "replies")))
        if hooks.chance.random() < 0.05:
            hooks.again(power=False)
    own = {body for body, topic in hooks.topics.items() if topic in ("graves", "replies")}
    hooks.sent = {body: "" for body in hooks.sent if body not in own}
    hooks.settle(subscription)
    assert b"before" not in hooks.sink.delivered(), "what was there before"
    assert not own & set(hooks.sink.delivered()), "its own topics would be a circle"
    hooks.world.clock.run_for(120_000)
    assert hooks.unrecorded(subscription) == []
    for one in hooks.sink.arrivals:
        beside = [each for each in hooks.sink.arrivals if each.began <= one.began < (each.until or each.began)]
        assert len(beside) <= 2, "no more than may be sent at once"
