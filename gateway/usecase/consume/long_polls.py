"""Requests that wait: long polls parked until a message arrives, a lease ends, or their time is up."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, final

from domain import limits
from domain.command import Command
from domain.errors import Failure
from domain.ports import Clock, Timer
from gateway.connection.client_connection import ClientConnection

Key = tuple[str, str, int]
"""(consumer group, topic, queue id); queue id -1 waits for any queue. Pulls wait with a group of their own each."""

RightsCheck = Callable[[ClientConnection, Command], Failure | None]
"""Why a session may not have what it has asked for any more, None: it may."""
REVIEWED_PER_TURN: Final = 1_000


class WaitingCall(Protocol):
    """Whose request is parked."""

    connection: ClientConnection

    @property
    def command(self) -> Command:
        """What was asked."""

    def refuse(self, failure: Failure) -> None:
        """Answer that it may not be had any more; it is not parked now."""


@final
class LongPoll:
    """One parked request. `attempt` tries again and says whether the request was answered."""

    __slots__ = ("asker", "attempt", "done", "expire", "key", "timer")

    def __init__(
        self, key: Key, attempt: Callable[[], bool], expire: Callable[[], None], asker: WaitingCall | None = None
    ) -> None:
        self.asker = asker
        self.key = key
        self.attempt = attempt
        self.expire = expire
        self.done = False
        self.timer: Timer | None = None


class LongPolls:
    """All parked requests of the gateway.

    Waiters of one key are served in the order of their coming, and only as long as an attempt succeeds: one message
    wakes one member of a group, not all of them. At most WAITERS_PER_KEY_MAX a key and WAITERS_MAX in all.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_key: dict[Key, deque[LongPoll]] = {}
        self._by_topic: dict[str, dict[Key, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def park(
        self,
        key: Key,
        wait_ms: int,
        attempt: Callable[[], bool],
        expire: Callable[[], None],
        asker: WaitingCall | None = None,
    ) -> LongPoll | None:
        """Hold a request for `wait_ms`; `expire` answers it then. None when too many calls wait. An `asker` is reviewed."""
        waiters = self._by_key.get(key)
        if self._count >= limits.WAITERS_MAX or (waiters is not None and len(waiters) >= limits.WAITERS_PER_KEY_MAX):
            return None
        if waiters is None:
            waiters = self._by_key[key] = deque()
            self._by_topic.setdefault(key[1], {})[key] = None
        waiter = LongPoll(key, attempt, expire, asker)
        waiters.append(waiter)
        self._count += 1
        due = self._clock.monotonic_ns() + wait_ms * limits.MILLISECOND_NS
        waiter.timer = self._clock.call_at(due, lambda: self._expired(waiter))
        return waiter

    def waiting(self, key: Key) -> int:
        """Requests parked under one key."""
        return len(self._by_key.get(key, ()))

    def leave(self, waiter: LongPoll) -> None:
        """The request is no longer wanted: its client has gone."""
        if not waiter.done:
            self._forget(waiter)
            self._by_key[waiter.key].remove(waiter)
            self._tidy(waiter.key)

    def review(self, judge: RightsCheck) -> None:
        """Rights have changed: refuse those who may not have what they wait for, so many a turn."""
        self._review(judge, [waiter for waiters in self._by_key.values() for waiter in waiters if waiter.asker is not None])

    def _review(self, judge: RightsCheck, waiters: list[LongPoll]) -> None:
        for waiter in waiters[:REVIEWED_PER_TURN]:
            asker = waiter.asker
            failure = judge(asker.connection, asker.command) if asker is not None and not waiter.done else None
            if failure is not None and asker is not None:
                self.leave(waiter)
                asker.refuse(failure)
        rest = waiters[REVIEWED_PER_TURN:]
        if rest:
            self._clock.call_at(self._clock.monotonic_ns() + limits.MILLISECOND_NS, lambda: self._review(judge, rest))

    def wake(self, topic: str, queue_id: int) -> None:
        """Something new in a queue of `topic`."""
        keys = self._by_topic.get(topic)
        if keys is None:
            return
        for key in list(keys):
            if key[2] < 0 or queue_id < 0 or key[2] == queue_id:
                self._serve(key)

    def wake_one(self, waiter: LongPoll) -> None:
        """There may be something for this one."""
        if not waiter.done:
            self._serve(waiter.key)

    def wake_group(self, group: str, topic: str) -> None:
        """Messages of `topic` are free again for `group`."""
        keys = self._by_topic.get(topic)
        if keys is None:
            return
        for key in list(keys):
            if key[0] == group:
                self._serve(key)

    def _serve(self, key: Key) -> None:
        waiters = self._by_key.get(key)
        while waiters:
            waiter = waiters[0]
            if not waiter.attempt():
                return
            if not waiter.done:
                self._forget(waiter)
                waiters.remove(waiter)
        self._tidy(key)

    def _expired(self, waiter: LongPoll) -> None:
        if not waiter.done:
            self.leave(waiter)
            waiter.expire()

    def _forget(self, waiter: LongPoll) -> None:
        waiter.done = True
        self._count -= 1
        if waiter.timer is not None:
            waiter.timer.cancel()

    def _tidy(self, key: Key) -> None:
        if not self._by_key.get(key) and self._by_key.pop(key, None) is not None:
            keys = self._by_topic[key[1]]
            del keys[key]
            if not keys:
                del self._by_topic[key[1]]
