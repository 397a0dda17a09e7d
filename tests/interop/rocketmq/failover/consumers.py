"""Consumers that lease, let leases end, change them, and acknowledge elsewhere than where they received."""

from __future__ import annotations

import heapq
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace
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
RETRY_S: Final = 0.5
TRIES_MAX: Final = 40
"""Of an acknowledgement that has no answer."""


class MessageKey(NamedTuple):
    """What a message is known by in every delivery to a group: another broker may have a copy.

    broker  name of the broker group
    body    the same in each delivery, for people
    """

    group: str
    message_id: str
    broker: str
    body: str


def broker_group(message: Hashable) -> str:
    """Of a MessageKey, which consumers make for all deliveries."""
    assert isinstance(message, MessageKey)
    return message.broker


@dataclass(slots=True)
class _Task:
    """To be done later.

    received  with the receipt that is valid now
    tries     how often it was tried, without an answer
    """

    received: Received
    handout: Handout
    at: int
    is_change: bool
    tries: int = 0


class Consumer:
    """One thread of one group, over several places.

    handouts   what it received, with its changes
    settled    bodies whose acknowledgement was answered with success
    unsure     bodies whose acknowledgement had no answer at first, and was refused then: it may have settled them
    settled_at place -> how many messages it acknowledged, each received at another place
    failures   how many calls had no answer
    refusals   how many changes and acknowledgements were refused
    """

    def __init__(self, pop: Pop, group: str, places: int, seed: int) -> None:
        self.handouts: list[Handout] = []
        self.settled: set[str] = set()
        self.unsure: set[str] = set()
        self.settled_at: Counter[int] = Counter()
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
            key = MessageKey(self._group, each.message_id, each.receipt.split()[5], each.body)
            handout = Handout(key, asked_s, each.answered_s, INVISIBLE_S, each.receipt)
            self.handouts.append(handout)
            kind = 1.0 if self._hurry else self._chance.random()
            if kind >= LEFT_ALONE:
                self._later(_Task(each, handout, at, kind < LEFT_ALONE + CHANGED))
        if not found:
            time.sleep(REST_S)

    def _later(self, task: _Task) -> None:
        due_s = time.monotonic() + (0 if self._hurry else self._chance.uniform(0, LONGEST_S))
        self._push(due_s, task)

    def _push(self, due_s: float, task: _Task) -> None:
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
        if task.is_change:
            # After a change without an answer nobody knows which receipt is valid: the message comes again.
            if answer is Answer.DONE:
                self._later(_Task(task.received._replace(receipt=receipt), task.handout, at, is_change=False))
        elif answer is Answer.DONE:
            self.settled.add(task.received.body)
            self.settled_at[at] += 1
        elif answer is Answer.REFUSED and task.tries:
            self.unsure.add(task.received.body)
        elif answer is Answer.NONE and task.tries < TRIES_MAX:
            self._push(time.monotonic() + RETRY_S, replace(task, tries=task.tries + 1))
        elif answer is Answer.NONE:
            self.unsure.add(task.received.body)
