"""A lite pull consumer on the wire: no retry topic, one pull at a time, the lowest unprocessed offset committed."""

from __future__ import annotations

import random
from collections import deque

from domain.limits import MILLISECOND_NS
from domain.message.record import Record
from domain.ports import Clock
from protocols.remoting.wire import frame
from tests.simulation.ledger import Ledger
from tests.simulation.puller import HELD_MS, REPORT, Puller
from tests.simulation.sdk import Dial


class LitePuller(Puller):
    """Keeps unprocessed messages in the order of offsets, as a ProcessQueue does: a late message moves its commits back.

    forward   true: its commits never move back, as the Go client's
    memory    true: it keeps its unprocessed messages when the connection breaks; false: it is as if killed with the connection
    """

    def __init__(
        self, name: str, clock: Clock, chance: random.Random, dial: Dial, ledger: Ledger, topic: str, group: str,
        queues: list[int], forward: bool, memory: bool, leases_survive: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(name, clock, chance, dial, ledger, topic, group, queues, leases_survive)
        self._forward = forward
        self._memory = memory
        self._existence = 0
        self._batches: deque[tuple[int, list[int]]] = deque()
        self._tree: dict[int, set[int]] = {queue: set() for queue in queues}
        self._newest = dict.fromkeys(queues, -1)
        self._consumed = dict.fromkeys(queues, -1)
        self.handled: set[str] = set()
        self.late_returns = 0
        self._work(0)

    def subscribed(self) -> list[str]:
        return [self._topic]

    def ready(self) -> None:
        known = {queue: offset for queue, offset in self._next.items() if offset >= 0}
        super().ready()
        if self._memory:
            self._next = known
            for queue in known:
                self._pull(queue)
                self._report(queue, self._life)

    def lost(self) -> None:
        if not self._memory:
            self._existence += 1
            self._batches.clear()
            self._tree = {queue: set() for queue in self._queues}
            self._newest = dict.fromkeys(self._queues, -1)
            self._consumed = dict.fromkeys(self._queues, -1)
            self._work(self._existence)
        super().lost()

    def _pulled(self, queue: int, answer: frame.Frame) -> None:
        life, now_ms = self._life, self.clock.wall_ms()
        fields = answer.fields() or {}
        data = answer.body if answer.code == 0 else b""
        batch: list[int] = []
        while data:
            size = int.from_bytes(data[:4], "big")
            offset = Record(data[:size]).queue_offset
            data = data[size:]
            self.got += 1
            self.late_returns += offset < self._next[queue]
            self._ledger.delivered(f"{queue}/{offset}", self.name, now_ms, now_ms + HELD_MS, self._leases_survive)
            self._ledger.note(f"{self.clock.monotonic_ns()} {self.name} pulled {queue}/{offset}")
            batch.append(offset)
            if offset not in self._tree[queue]:
                self._tree[queue].add(offset)
                self._newest[queue] = offset
        if batch:
            self._batches.append((queue, batch))
        if "nextBeginOffset" in fields:
            self._next[queue] = int(fields["nextBeginOffset"])
        pause = self.clock.monotonic_ns() + self.chance.randrange(1, 60) * MILLISECOND_NS
        self.clock.call_at(pause, lambda: self._pull(queue) if life == self._life else None)

    def _work(self, existence: int) -> None:
        if existence != self._existence:
            return
        if self._batches:
            queue, batch = self._batches.popleft()
            self.handled.update(f"{queue}/{offset}" for offset in batch)
            self._tree[queue].difference_update(batch)
            consumed = min(self._tree[queue], default=self._newest[queue] + 1)
            self._consumed[queue] = max(consumed, self._consumed[queue]) if self._forward else consumed
        later = self.clock.monotonic_ns() + self.chance.randrange(1, 200) * MILLISECOND_NS
        self.clock.call_at(later, lambda: self._work(existence))

    def _report(self, queue: int, life: int) -> None:
        if life != self._life:
            return
        if self._consumed[queue] >= 0:
            fields = {
                "consumerGroup": self._group, "topic": self._topic, "queueId": str(queue),
                "commitOffset": str(self._consumed[queue]),
            }  # fmt: skip
            self.ask(("report", queue, 0), REPORT, fields)
        later = self.clock.monotonic_ns() + self.chance.randrange(100, 1_500) * MILLISECOND_NS
        self.clock.call_at(later, lambda: self._report(queue, life))
