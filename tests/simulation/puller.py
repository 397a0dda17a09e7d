"""A push consumer of RocketMQ on the wire: it pulls queues, processes messages, and commits positions."""

from __future__ import annotations

import json
import random

from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.message.record import Record
from domain.ports import Clock
from protocols.remoting.wire import frame
from tests.simulation.ledger import Ledger
from tests.simulation.sdk import Dial, RemotingClient

PULL, QUERY_OFFSET, REPORT, HEARTBEAT = 11, 14, 15, 34
SUSPEND_WITH_SUBSCRIPTION = 6
HELD_MS = 110_000
"""A little less than the time after which the node gives up a silent puller."""


class Puller(RemotingClient):
    """Pulls `queues`. With its connection it loses unprocessed messages, as if killed; it begins at the stored position."""

    def __init__(
        self, name: str, clock: Clock, chance: random.Random, dial: Dial, ledger: Ledger, topic: str, group: str,
        queues: list[int], leases_survive: bool,
    ) -> None:  # fmt: skip
        super().__init__(name, clock, chance, dial)
        self._ledger = ledger
        self._topic = topic
        self._group = group
        self._queues = queues
        self._leases_survive = leases_survive
        self._life = 0
        self._next: dict[int, int] = {}
        self._hand: dict[int, set[int]] = {}
        self._given: dict[int, set[int]] = {}
        self.got = 0

    def subscribed(self) -> list[str]:
        """The subscribed topics, including the group's retry topic."""
        return [self._topic, f"%RETRY%{self._group}"]

    def ready(self) -> None:
        self._life += 1
        self._next = {}
        self._hand = {queue: set() for queue in self._queues}
        self._given = {queue: set() for queue in self._queues}
        self._beat(self._life)

    def lost(self) -> None:
        self._life += 1
        self._ledger.left(self.name)
        super().lost()

    def _beat(self, life: int) -> None:
        if life != self._life:
            return
        member = {
            "groupName": self._group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
            "subscriptionDataSet": [
                {"topic": topic, "subString": "*", "expressionType": "TAG"} for topic in self.subscribed()
            ],
        }  # fmt: skip
        body = json.dumps({"clientID": self.name, "producerDataSet": [], "consumerDataSet": [member]}).encode()
        self.ask(("beat", life), HEARTBEAT, {}, body)
        self.clock.call_at(self.clock.monotonic_ns() + 30 * SECOND_NS, lambda: self._beat(life))

    def answered(self, about: object, answer: frame.Frame) -> None:
        assert isinstance(about, tuple)
        verb = about[0]
        if verb == "beat":
            for queue in self._queues:
                if queue not in self._next:
                    self._next[queue] = -1
                    self._where(queue)
        elif verb == "where":
            fields = answer.fields() or {}
            self._next[about[1]] = int(fields["offset"]) if answer.code == 0 else 0
            self._pull(about[1])
            self._report(about[1], self._life)
        elif verb == "pull":
            self._pulled(about[1], answer)
        elif answer.code == 0:
            self._reported(about[1], about[2])

    def _where(self, queue: int) -> None:
        fields = {"consumerGroup": self._group, "topic": self._topic, "queueId": str(queue)}
        self.ask(("where", queue), QUERY_OFFSET, fields)

    def _pull(self, queue: int) -> None:
        fields = {
            "consumerGroup": self._group, "topic": self._topic, "queueId": str(queue), "queueOffset": str(self._next[queue]),
            "maxMsgNums": str(self.chance.randrange(1, 9)), "sysFlag": str(SUSPEND_WITH_SUBSCRIPTION), "commitOffset": "0",
            "suspendTimeoutMillis": "1000", "subscription": "*", "subVersion": "0", "expressionType": "TAG",
        }  # fmt: skip
        self.ask(("pull", queue), PULL, fields)

    def _pulled(self, queue: int, answer: frame.Frame) -> None:
        life, now_ms = self._life, self.clock.wall_ms()
        fields = answer.fields() or {}
        if "nextBeginOffset" in fields:
            self._next[queue] = int(fields["nextBeginOffset"])
        data = answer.body if answer.code == 0 else b""
        while data:
            size = int.from_bytes(data[:4], "big")
            offset = Record(data[:size]).queue_offset
            data = data[size:]
            self.got += 1
            name = f"{queue}/{offset}"
            self._ledger.delivered(name, self.name, now_ms, now_ms + HELD_MS, self._leases_survive)
            self._ledger.note(f"{self.clock.monotonic_ns()} {self.name} pulled {name}")
            self._hand[queue].add(offset)
            self._given[queue].add(offset)
            done = self.clock.monotonic_ns() + self.chance.randrange(1, 800) * MILLISECOND_NS
            self.clock.call_at(done, lambda at=offset: self._handled(queue, at, life))  # type: ignore[misc]
        pause = self.clock.monotonic_ns() + self.chance.randrange(1, 60) * MILLISECOND_NS
        self.clock.call_at(pause, lambda: self._pull(queue) if life == self._life else None)

    def _handled(self, queue: int, offset: int, life: int) -> None:
        if life == self._life:
            self._hand[queue].discard(offset)

    def _report(self, queue: int, life: int) -> None:
        if life != self._life:
            return
        if self._next[queue] >= 0:
            offset = min(self._hand[queue], default=self._next[queue])
            fields = {
                "consumerGroup": self._group, "topic": self._topic, "queueId": str(queue), "commitOffset": str(offset),
            }  # fmt: skip
            self.ask(("report", queue, offset), REPORT, fields)
        later = self.clock.monotonic_ns() + self.chance.randrange(100, 1_500) * MILLISECOND_NS
        self.clock.call_at(later, lambda: self._report(queue, life))

    def _reported(self, queue: int, offset: int) -> None:
        for at in sorted(each for each in self._given[queue] if each < offset):
            self._given[queue].discard(at)
            self._ledger.settled.setdefault(f"{queue}/{at}", self.clock.wall_ms())
            self._ledger.note(f"{self.clock.monotonic_ns()} {self.name} reported {queue}/{at}")
