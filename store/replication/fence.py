"""The fence of a leader: it answers reads only while no other replica can have begun to answer them.

    question, with the time --all members of the SyncStateSet have answered it, each in this epoch--> open until time + FENCE_NS
                            --a majority of the controllers confirms this leader                  -->

A replica is elected out of the SyncStateSet, and by a majority of the controllers. So either answer says that nobody else had
been elected when the question was sent. A new leader answers no read for HOLD_NS after it has learned of its election, unless
all other replicas have accepted its epoch before: by then the fence of each leader before it is closed, by that one's clock.

A majority of the members, or one controller, proves nothing: the controllers may have elected any other member.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from domain.controller.group import SetMember
from domain.errors import ErrorCode, Failure
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer

FENCE_NS: Final = 500 * MILLISECOND_NS
"""Time after a question for which its answers count."""
HOLD_NS: Final = 550 * MILLISECOND_NS
"""The same for the clock of a new leader: clocks of two machines run differently, by far less than a tenth."""
RENEW_NS: Final = 200 * MILLISECOND_NS
"""A read that finds less than this left asks the question again. Signs of the leader ask it as often, so few reads do."""
AGAIN_NS: Final = 20 * MILLISECOND_NS
"""Least time between two questions that reads ask for."""
LATE_NS: Final = 400 * MILLISECOND_NS
"""Age of the newest question that counts, beyond which the controllers are asked too: some member does not answer."""
WAIT_NS: Final = 1_000 * MILLISECOND_NS
"""Longest time for which a read waits: that of a new leader, and a round of questions."""
POLL_NS: Final = 100 * MILLISECOND_NS
"""Time between two questions for the reads that wait."""
WAITING_MAX: Final = 4_096
"""Reads that wait at a time; further ones are refused at once."""
TURN_READS: Final = 32
"""Waiting reads that are carried out in one turn of the loop."""
QUESTIONS_MAX: Final = 64
"""Questions whose times are known; answers to older ones count for nothing."""
_FOREVER: Final = 1 << 62
_WHY: Final = (
    "this replica may not lead any more: within {ms} ms neither all members of the SyncStateSet nor a majority of the "
    "controllers have confirmed that it does; ask again"
)


@dataclass(slots=True)
class FenceCounts:
    """Reads that found the fence closed, since the start.

    waited   reads that had to wait
    refused  reads that were refused
    """

    waited: int = 0
    refused: int = 0


class WaitingRead(NamedTuple):
    """A read that waits. `until_ns`: deadline, monotonic; `again`: carries it out; `refuse` gets the failure."""

    until_ns: int
    again: Callable[[], None]
    refuse: Callable[[Failure], None]


@final
class ReadFence:
    """The fence of one leadership. Times are monotonic ns.

    until_ns    reads are answered before this time
    number      number of the newest question
    _renew_ns   reads do nothing but compare before this time
    _hold_ns    end of the time for which a new leader answers none
    _others     ids of the replicas that have not accepted the epoch yet
    _members    members of the SyncStateSet besides this replica, with those that are about to be
    _answered   member -> number of the newest question that it has answered
    _questions  (number, time) of the questions, oldest first
    _since_ns   time of the newest question whose answers count
    """

    def __init__(
        self,
        clock: Clock,
        others: Iterable[int],
        ask: Callable[[], None],
        ask_controllers: Callable[[], None],
        counts: FenceCounts,
    ) -> None:
        """`others`: ids of all other replicas of the group. `ask` calls `question`, and sends that question to the followers;
        `ask_controllers` asks the controllers who leads, and calls `confirmed` with their answer."""
        self.until_ns = 0
        self.number = 0
        self._clock = clock
        self._ask = ask
        self._ask_controllers = ask_controllers
        self._counts = counts
        now = clock.monotonic_ns()
        self._others = set(others)
        self._hold_ns = now + HOLD_NS if self._others else now
        self._renew_ns = 0
        self._asked_ns = now - AGAIN_NS
        self._members: frozenset[SetMember] = frozenset()
        self._answered: dict[SetMember, int] = {}
        self._questions: deque[tuple[int, int]] = deque(maxlen=QUESTIONS_MAX)
        self._since_ns = now - FENCE_NS
        self._closed = False
        self._waiting: deque[WaitingRead] = deque()
        self._timer: Timer | None = None
        self._serving = False

    # Reads

    def passes(self) -> bool:
        """True: a read may be answered with what is confirmed now."""
        now = self._clock.monotonic_ns()
        return now < self._renew_ns or self._look(now)

    def wait(self, again: Callable[[], None], refuse: Callable[[Failure], None]) -> None:
        """Call `again` when the fence opens, within WAIT_NS, or `refuse` with STORE_UNAVAILABLE."""
        if self._closed or len(self._waiting) >= WAITING_MAX:
            self._refuse(refuse)
            return
        self._counts.waited += 1
        self._waiting.append(WaitingRead(self._clock.monotonic_ns() + WAIT_NS, again, refuse))
        self._poll_later()

    def _look(self, now: int) -> bool:
        if self._closed:
            return False
        self._open(now)
        if now >= self._renew_ns and now - self._asked_ns >= AGAIN_NS:
            self._asked_ns = now
            self._ask()
            if now - self._since_ns > LATE_NS:
                self._ask_controllers()
        return now < self.until_ns

    # Answers

    def question(self) -> int:
        """Number of a question that is asked now."""
        self.number += 1
        self._questions.append((self.number, self._clock.monotonic_ns()))
        return self.number

    def accepted(self, replica: int) -> None:
        """A replica has accepted the epoch: it does not lead in an older one."""
        self._others.discard(replica)
        if not self._others and self._hold_ns:
            self._hold_ns = 0
            self._opened()

    def members(self, others: Iterable[SetMember]) -> None:
        """Take the members of the SyncStateSet without this replica; those that are about to be members count too."""
        members = frozenset(others)
        if members == self._members:
            return
        if not self._members and self.until_ns == _FOREVER:
            # Until now no other replica could be elected.
            self._since_ns = self._clock.monotonic_ns()
        self._members = members
        self.until_ns = min(self.until_ns, self._since_ns + FENCE_NS)
        self._opened()

    def answered(self, member: SetMember, number: int) -> None:
        """A follower has answered question `number`. An answer to a question that was not asked counts for nothing."""
        if self._answered.get(member, 0) < number <= self.number:
            self._answered[member] = number
            if member in self._members:
                self._opened()

    def confirmed(self, since_ns: int) -> None:
        """A majority of the controllers has confirmed this leader; they were asked at `since_ns`."""
        self._since_ns = max(self._since_ns, since_ns)
        self._opened()

    def close(self) -> None:
        """Refuse all reads from now on: the leadership has ended."""
        self._closed = True
        self.until_ns = self._renew_ns = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            self._refuse(self._waiting.popleft().refuse)

    def _opened(self) -> None:
        now = self._clock.monotonic_ns()
        self._open(now)
        if self._waiting and now < self.until_ns:
            self._serve_soon()

    def _open(self, now: int) -> None:
        """Compute how long the fence is open."""
        if self._closed or now < self._hold_ns:
            return
        if not self._members:
            self.until_ns = self._renew_ns = _FOREVER
            return
        oldest = min([self._answered.get(member, 0) for member in self._members])
        while self._questions and self._questions[0][0] <= oldest:
            number, since_ns = self._questions.popleft()
            if number == oldest:
                self._since_ns = max(self._since_ns, since_ns)
        self.until_ns = self._since_ns + FENCE_NS
        self._renew_ns = self.until_ns - RENEW_NS

    # Reads that wait

    def _poll_later(self) -> None:
        if self._timer is None and self._waiting:
            now = self._clock.monotonic_ns()
            due = min(self._waiting[0].until_ns, now + POLL_NS)
            self._timer = self._clock.call_at(min(due, self._hold_ns) if now < self._hold_ns else due, self._poll)

    def _poll(self) -> None:
        """Ask again for the reads that wait, and refuse those whose time is over."""
        self._timer = None
        now = self._clock.monotonic_ns()
        if self._look(now):
            self._serve_soon()
            return
        while self._waiting and self._waiting[0].until_ns <= now:
            self._refuse(self._waiting.popleft().refuse)
        self._poll_later()

    def _serve_soon(self) -> None:
        if not self._serving:
            self._serving = True
            self._clock.call_soon(self._serve)

    def _serve(self) -> None:
        self._serving = False
        try:
            for _ in range(TURN_READS):
                if not self._waiting or not self.passes():
                    break
                self._waiting.popleft().again()
        finally:
            if self._waiting and self._clock.monotonic_ns() < self.until_ns:
                self._serve_soon()
            else:
                self._poll_later()

    def _refuse(self, refuse: Callable[[Failure], None]) -> None:
        self._counts.refused += 1
        refuse(Failure(ErrorCode.STORE_UNAVAILABLE, _WHY.format(ms=FENCE_NS // MILLISECOND_NS)))
