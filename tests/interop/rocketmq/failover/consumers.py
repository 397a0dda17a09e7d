"""Consumers that lease, let leases end, change them, and acknowledge elsewhere than where they received."""

from __future__ import annotations

import heapq
import itertools
import random
import threading
import time
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.interop.rocketmq.failover.leases import Answer, Handout, LeaseChange
from tests.interop.rocketmq.failover.pops import INVISIBLE_S, Pop, Received

JOIN_S: Final = 60.0
LEFT_ALONE: Final = 0.1
"""Of messages whose lease a consumer lets end."""
CHANGED: Final = 0.25
"""Of messages whose lease a consumer changes before it acknowledges them."""
LONGEST_S: Final = INVISIBLE_S - 1.0
"""After a receive: the latest change or acknowledgement."""
REST_S: Final = 0.05


class MessageKey(NamedTuple):
    """What a message is known by in every delivery to a group: another group's broker may have a copy."""

    group: str
    message_id: str
    broker: str


@dataclass(slots=True)
class _Task:
    """To be done later. `received`: with the receipt that is valid now."""

    received: Received
    handout: Handout
    at: int
    is_change: bool


class Consumer:
    """One thread of one group, over several places.

    handouts   what it received, with its changes
    settled    bodies whose acknowledgement was answered with success
    failures   how many calls had no answer
    refusals   how many changes and acknowledgements were refused
    """

    def __init__(self, pop: Pop, group: str, places: int, seed: int) -> None:
        self.handouts: list[Handout] = []
        self.settled: set[str] = set()
        self.failures = self.refusals = 0
        self.fault: BaseException | None = None
        self._pop, self._group, self._places = pop, group, places
        self._chance = random.Random(seed)
        self._tasks: list[tuple[float, int, _Task]] = []
        self._count = itertools.count()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self._hurry = False

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def hurry(self) -> None:
        """From now on acknowledge everything at once."""
        self._hurry = True

    def stop(self) -> None:
        """Ask the thread to end. `join` waits for it."""
        self._ended.set()

    def join(self) -> None:
        """Wait for the end. Raises what ended the thread."""
        self._thread.join(JOIN_S)
        assert not self._thread.is_alive()
        if self.fault is not None:
            raise self.fault

    def places(self, count: int) -> None:
        """There are more places by now."""
        self._places = count

    def _guarded(self) -> None:
        try:
            while not self._ended.is_set():
                self._receive()
                while self._tasks and self._tasks[0][0] <= time.monotonic():
                    self._carry_out(heapq.heappop(self._tasks)[2])
        except BaseException as error:
            self.fault = error
            raise
        finally:
            self._pop.close()

    def _receive(self) -> None:
        at, asked_s = self._chance.randrange(self._places), time.monotonic()
        try:
            found = self._pop.receive(at)
        except ConnectionError:
            self.failures += 1
            time.sleep(REST_S)
            return
        for each in found:
            key = MessageKey(self._group, each.message_id, each.receipt.split()[5])
            handout = Handout(key, asked_s, each.answered_s, INVISIBLE_S)
            self.handouts.append(handout)
            kind = 1.0 if self._hurry else self._chance.random()
            if kind >= LEFT_ALONE:
                self._later(_Task(each, handout, at, kind < LEFT_ALONE + CHANGED))
        if not found:
            time.sleep(REST_S)

    def _later(self, task: _Task) -> None:
        due_s = time.monotonic() + (0 if self._hurry else self._chance.uniform(0, LONGEST_S))
        heapq.heappush(self._tasks, (due_s, next(self._count), task))

    def _carry_out(self, task: _Task) -> None:
        # Elsewhere than where the message was received.
        at = (task.at + self._chance.randrange(1, self._places)) % self._places if self._places > 1 else task.at
        asked_s, receipt = time.monotonic(), task.received.receipt
        try:
            if task.is_change:
                answer, receipt = self._pop.change(at, task.received)
            else:
                answer = self._pop.acknowledge(at, task.received)
        except ConnectionError:
            answer = Answer.NONE
            self.failures += 1
        change = LeaseChange(asked_s, time.monotonic(), answer, INVISIBLE_S if task.is_change else None)
        task.handout.changes.append(change)
        self.refusals += answer is Answer.REFUSED
        if not task.is_change and answer is Answer.DONE:
            self.settled.add(task.received.body)
        if task.is_change and answer is Answer.DONE:
            self._later(_Task(task.received._replace(receipt=receipt), task.handout, at, is_change=False))
