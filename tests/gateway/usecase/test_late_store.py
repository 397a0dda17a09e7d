"""Use cases over a store that answers late, in another order, twice where it may, or not in time: under a seed, all at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

import pytest

from domain.address import host_bytes
from domain.admin.group import PutGroup
from domain.admin.topic import PutTopic
from domain.client.membership import Heartbeat
from domain.command import (
    Acknowledge,
    AwaitMessages,
    Command,
    CommitOffsets,
    Disconnected,
    Extend,
    FollowTopic,
    Pull,
    QueryOffset,
    Receive,
    Send,
)
from domain.event import Event, Offset, Pulled, Received, Refused, Sent, Settled, TopicFollowed
from domain.limits import MILLISECOND_NS, PULL_BYTES_MAX
from domain.message.message import SYS_PREPARED, Message
from domain.message.receipt import Receipt
from domain.message.record import Record
from domain.topic.topic import Group, Topic
from domain.transaction import COMMIT, EndTransaction
from gateway.usecase.publish.transaction import TransactionEnding
from store.settings import StoreSettings
from tests.gateway.usecase.bench import open_bench
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.late_store import LATENESS, Lateness

QUEUES: Final = 3
ANSWER_MS: Final = 30_000
"""Time in which every command is answered: it waits for two seconds at most, and may need two calls of ten seconds."""


pytestmark = pytest.mark.usefixtures("near_again")


class Shop:
    """Clients that send, receive, settle, pull, follow and decide over transactions, and lose their connections.

    stored     bodies of the messages that were acknowledged
    received   times that a message was received, by body
    settled    bodies of the messages whose settlement was acknowledged
    followed   bodies by queue, in the order in which FollowTopic gave them
    pulled     the same of Pull
    """

    def __init__(self, lateness: Lateness) -> None:
        LATENESS.reset(lateness)
        self.random = Random(lateness.seed)
        self.bench = open_bench(StoreSettings(broker="broker-a", store_host=host_bytes("127.0.0.1", 10911)))
        transactions = TransactionEnding(self.bench.store.transactions, self.bench.handler.registry)
        self.bench.handler.add(transactions)
        self.bench.ask(PutTopic(1, Topic("t", QUEUES, QUEUES, type="MIXED")), ms=1_000)
        for group in ("g", "p"):
            self.bench.ask(PutGroup(1, Group(group)), ms=1_000)
        self.clients = [EventRecorder() for _ in range(4)]
        self.tickets = 0
        self.unanswered: dict[int, tuple[EventRecorder, Callable[[Any], None]]] = {}
        self.held: list[tuple[str, Receipt]] = []
        self.stored: set[str] = set()
        self.received: Counter[str] = Counter()
        self.settled: set[str] = set()
        self.followed: dict[int, list[tuple[int, str]]] = {}
        self.pulled: list[str] = []
        self.offset = 0
        self.offsets: dict[int, int] = {}
        self.is_following = self.is_pulling = False

    def ask(self, make: Callable[[int], Command], answered: Callable[[Any], None], client: EventRecorder | None = None) -> None:
        self.tickets += 1
        client = client or self.random.choice(self.clients)
        self.unanswered[self.tickets] = client, answered
        self.bench.handler.handle(client.connection, make(self.tickets))

    def run(self, milliseconds: float) -> None:
        """Let time pass, and take the answers: each command has one, and none comes to a connection that has ended."""
        self.bench.clock.run_for(milliseconds)
        for client in self.clients:
            for event in client.take():
                ticket: Any = event.ticket
                if ticket is None:
                    continue
                owner, answered = self.unanswered.pop(ticket)
                assert owner is client
                answered(event)

    def send(self, count: int = 0, queue_id: int = -1) -> None:
        names = [f"{self.tickets}.{at}" for at in range(count or self.random.randrange(1, 4))]

        def answered(event: Event) -> None:
            if isinstance(event, Sent):
                self.stored.update(names)

        messages = [Message("t", name.encode(), queue_id=queue_id) for name in names]
        self.ask(lambda ticket: Send(ticket, messages), answered)

    def decide(self) -> None:
        """Send a half message, and commit it when it is stored."""
        name = f"half-{self.tickets}"
        stored = f"UNIQ_KEY\x01{name}\x02TRAN_MSG\x01true\x02PGROUP\x01pg\x02".encode()
        message = Message("t", name.encode(), stored, message_id=name, sys_flag=SYS_PREPARED)

        def committed(event: Event) -> None:
            if not isinstance(event, Refused):
                self.stored.add(name)

        def prepared(event: Event) -> None:
            if isinstance(event, Sent):
                (placed,) = event.placed
                offset, position = placed.queue_offset, placed.physical_offset
                self.ask(lambda ticket: EndTransaction(ticket, "pg", name, COMMIT, offset, position), committed)

        self.ask(lambda ticket: Send(ticket, [message]), prepared)

    def receive(self, wait_ms: int = -1) -> None:
        wait_ms = self.random.choice((0, 100, 2_000)) if wait_ms < 0 else wait_ms

        def answered(event: Event) -> None:
            for message in event.messages if isinstance(event, Received) else ():
                body = Record(message.record).body.decode()
                assert body not in self.settled, f"{body} came again after its settlement was acknowledged"
                self.received[body] += 1
                self.held.append((body, message.receipt))

        self.ask(lambda ticket: Receive(ticket, "g", "t", 4, 2_000, wait_ms, from_first=True), answered)

    def settle(self) -> None:
        at = self.random.randint(0, len(self.held))
        now, self.held = self.held[:at], self.held[at:]

        def answered(event: Event) -> None:
            if isinstance(event, Settled):
                self.settled |= {body for (body, _), outcome in zip(now, event.outcomes, strict=True) if outcome is None}

        if now:
            self.ask(lambda ticket: Acknowledge(ticket, "g", "t", [receipt for _, receipt in now]), answered)

    def extend(self) -> None:
        if self.held:
            _, receipt = self.held.pop()
            self.ask(lambda ticket: Extend(ticket, "g", "t", [receipt], self.random.choice((0, 500))), _ignore)

    def ask_around(self) -> None:
        self.ask(lambda ticket: AwaitMessages(ticket, "g", "t", wait_ms=self.random.choice((0, 500))), _ignore)

    def commit(self) -> None:
        """Commit how far queue 0 was pulled."""
        self.ask(lambda ticket: CommitOffsets(ticket, "p", [("t", 0, self.offset)]), _ignore, self.clients[-1])

    def pull(self, wait_ms: int = -1) -> None:
        """Pull on from queue 0."""
        if self.is_pulling:
            return
        offset = self.offset
        wait_ms = self.random.choice((0, 1_000)) if wait_ms < 0 else wait_ms
        self.is_pulling = True

        def answered(event: Event) -> None:
            self.is_pulling = False
            if isinstance(event, Pulled) and event.status == "FOUND":
                self.pulled += [Record(record).body.decode() for record in event.records]
                self.offset = event.next_offset

        pull = Pull(0, "p", "t", 0, offset, 8, PULL_BYTES_MAX, wait_ms)
        self.ask(lambda ticket: replace(pull, ticket=ticket), answered, self.clients[-1])

    def follow(self, wait_ms: int = -1) -> None:
        """Go on reading all queues."""
        if self.is_following:
            return
        self.is_following = True

        def answered(event: Event) -> None:
            self.is_following = False
            if isinstance(event, TopicFollowed):
                for data in event.records:
                    record = Record(data)
                    self.followed.setdefault(record.queue_id, []).append((record.queue_offset, record.body.decode()))
                self.offsets = event.offsets

        wait_ms = self.random.choice((0, 1_000)) if wait_ms < 0 else wait_ms
        follow = FollowTopic(0, "t", dict(self.offsets), "" if self.offsets else "first", -1, 0, 8, PULL_BYTES_MAX, wait_ms)
        self.ask(lambda ticket: replace(follow, ticket=ticket), answered, self.clients[-1])

    def hang_up(self) -> None:
        """Lose a connection with all that is asked over it, and open another one."""
        at = self.random.randrange(len(self.clients))
        client = self.clients[at]
        self.run(0)
        for ticket in [ticket for ticket, (owner, _) in self.unanswered.items() if owner is client]:
            del self.unanswered[ticket]
        self.bench.handler.handle(client.connection, Disconnected("lost"))
        client.connection.end()
        self.clients[at] = EventRecorder()
        if at == len(self.clients) - 1:
            self.is_pulling = self.is_following = False

    def beat(self) -> None:
        self.ask(lambda ticket: Heartbeat(ticket, "producer", producers=["pg"]), _ignore, self.clients[0])

    def finish(self) -> None:
        """The faults end: receive and settle what is left, and read all that is there."""
        LATENESS.end_faults()
        self.wait()
        for _ in range(200):
            for act in (self.receive, self.settle, self.pull, self.follow):
                act()
            self.run(250)
        self.wait()

    def wait(self) -> None:
        """Every command is answered, and every one that its answer leads to."""
        for _ in range(3):
            self.run(ANSWER_MS)
        assert not self.unanswered, f"not answered: {self.unanswered}"


def _ignore(_: Event) -> None:
    """What the answer says does not matter."""


@pytest.mark.parametrize("losses", [0.0, 0.02], ids=["all-answered", "some-unanswered"])
@pytest.mark.parametrize("delay_ms", [0.2, 3.0])
@pytest.mark.parametrize("seed", range(6))
def test_every_command_is_answered_once_and_no_message_is_lost(seed: int, delay_ms: float, losses: float) -> None:
    delay_ns = int(delay_ms * MILLISECOND_NS)
    shop = Shop(Lateness(True, seed, delay_ns, breaks=0.02, repeats=0.1, losses=losses, refusals=losses))
    acts = [shop.send] * 6 + [shop.receive] * 5 + [shop.settle] * 4 + [shop.pull, shop.follow] * 3
    acts += [shop.decide, shop.commit, shop.extend, shop.ask_around, shop.hang_up, shop.beat]
    for _ in range(400):
        shop.random.choice(acts)()
        shop.run(shop.random.choice((0, 0, 0.2, 1, 5, 200)))
    shop.finish()
    assert len(shop.stored) > 50
    assert shop.stored <= set(shop.received), "an acknowledged message was not received"
    assert shop.stored <= {body for queue in range(QUEUES) for _, body in shop.followed[queue]}
    for queue in range(QUEUES):
        offsets = [offset for offset, _ in shop.followed[queue]]
        assert offsets == sorted(offsets)
    (position,) = shop.bench.ask(QueryOffset(1, "p", "t", 0), ms=1_000)
    assert isinstance(position, Offset)
    assert position.offset <= shop.offset
    came = {what for what, times in LATENESS.counts.items() if times}
    assert came == {"breaks", "repeats", "overtaken"} | ({"losses", "refusals"} if losses else set())


@pytest.mark.parametrize("verb", ["receive", "pull", "follow"])
def test_what_arrives_while_a_call_reads_or_waits_answers_it(verb: str) -> None:
    shop = Shop(Lateness(True, 1, 3 * MILLISECOND_NS, repeats=0.1))
    shop.send(1, queue_id=0)
    shop.run(100)
    for count in range(1, 80):
        getattr(shop, verb)(wait_ms=0)  # nothing is left
        shop.settle()
        shop.run(100)
        getattr(shop, verb)(wait_ms=2_000)
        shop.run(shop.random.uniform(0, 20))
        shop.send(1, queue_id=0)
        shop.run(200)
        assert not shop.unanswered, f"message {count} answered nobody"
        shop.settled |= {body for body, _ in shop.held}
        shop.held, held = [], shop.held
        shop.ask(lambda ticket: Acknowledge(ticket, "g", "t", [receipt for _, receipt in held]), _ignore)  # noqa: B023
