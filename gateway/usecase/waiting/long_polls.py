"""Long polls: calls that are parked until a message arrives, a lease ends, or their wait time is over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol, final

from domain import limits
from domain.command import Command
from domain.errors import Failure
from domain.ports import Clock, Timer
from gateway.connection.client_connection import ClientConnection

Key = tuple[str, str, int]
"""(consumer group, topic, queue id). Queue id -1 waits for any queue. Each pull is parked under a group name of its own."""

RightsCheck = Callable[[ClientConnection, Command], Failure | None]
"""Returns why a connection may no longer have what its command asks for, or None when it may."""
KEYS_PER_TURN: Final = 64
"""Keys whose calls one wake-up serves in one turn of the loop; each call that is served leases messages."""
REVIEWED_PER_TURN: Final = 1_000
"""Long polls whose rights are checked in one turn of the loop."""


class WaitingCall(Protocol):
    """A call that can be parked."""

    connection: ClientConnection

    @property
    def command(self) -> Command:
        """The client's command."""

    def attempt(self) -> bool:
        """Try again. Returns True when the call needs its place no more, False when it stays parked."""

    def expire(self) -> None:
        """Answer that nothing was found: the wait time is over. The call is not parked any more."""

    def refuse(self, failure: Failure) -> None:
        """Answer Refused: the client has lost its rights. The call is not parked any more."""


@final
class LongPoll:
    """One parked call.

    key     what it waits for
    call    the call itself
    done    True once it is no longer parked
    timer   runs when the wait time is over
    """

    __slots__ = ("call", "done", "key", "timer")

    def __init__(self, key: Key, call: WaitingCall) -> None:
        self.key = key
        self.call = call
        self.done = False
        self.timer: Timer | None = None


class LongPolls:
    """The long polls of one use case.

    Calls with the same key are served first come, first served, and only as long as an attempt succeeds: one message wakes
    one member of a group, not all of them. At most LONG_POLLS_PER_KEY_MAX calls a key and LONG_POLLS_MAX in all are parked.

    One message may be for thousands of groups: KEYS_PER_TURN keys are served in the turn of its arrival, and in each one after.

    wake_count   calls of `wake` and `wake_group` so far; a call compares two readings to learn whether it missed one
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._woken: dict[Key, None] = {}
        self._by_key: dict[Key, deque[LongPoll]] = {}
        self._by_topic: dict[str, dict[Key, None]] = {}
        self._count = 0
        self.wake_count = 0

    def __len__(self) -> int:
        return self._count

    def park(self, key: Key, wait_ms: int, call: WaitingCall) -> LongPoll | None:
        """Park `call` for `wait_ms`, after which its `expire` is called. Returns None when too many calls are parked."""
        polls = self._by_key.get(key)
        if self._count >= limits.LONG_POLLS_MAX or (polls is not None and len(polls) >= limits.LONG_POLLS_PER_KEY_MAX):
            return None
        if polls is None:
            polls = self._by_key[key] = deque()
            self._by_topic.setdefault(key[1], {})[key] = None
        poll = LongPoll(key, call)
        polls.append(poll)
        self._count += 1
        due_ns = self._clock.monotonic_ns() + wait_ms * limits.MILLISECOND_NS
        poll.timer = self._clock.call_at(due_ns, lambda: self._expired(poll))
        return poll

    def waiting(self, key: Key) -> int:
        """Calls that are parked under one key."""
        return len(self._by_key.get(key, ()))

    def leave(self, poll: LongPoll) -> None:
        """Remove a long poll without an answer, as when its connection has closed. Harmless when it is done."""
        if not poll.done:
            self._finish(poll)
            self._by_key[poll.key].remove(poll)
            self._drop_empty(poll.key)

    def review(self, check: RightsCheck) -> None:
        """Check the rights of every parked call again and refuse those that fail, REVIEWED_PER_TURN a turn."""
        self._review(check, [poll for polls in self._by_key.values() for poll in polls])

    def _review(self, check: RightsCheck, polls: list[LongPoll]) -> None:
        for poll in polls[:REVIEWED_PER_TURN]:
            call = poll.call
            failure = None if poll.done else check(call.connection, call.command)
            if failure is not None:
                self.leave(poll)
                call.refuse(failure)
        rest = polls[REVIEWED_PER_TURN:]
        if rest:
            self._clock.call_at(self._clock.monotonic_ns() + limits.MILLISECOND_NS, lambda: self._review(check, rest))

    def wake(self, topic: str, queue_id: int) -> None:
        """Serve the calls that wait for a queue of `topic`, since messages arrived there; queue id -1: for any queue."""
        self.wake_count += 1
        keys = self._by_topic.get(topic)
        if keys is None:
            return
        woken = [key for key in keys if key[2] < 0 or queue_id < 0 or key[2] == queue_id]
        for key in woken[:KEYS_PER_TURN]:
            self._serve(key)
        if len(woken) > KEYS_PER_TURN:
            if not self._woken:
                self._clock.call_at(self._clock.monotonic_ns(), self._serve_woken)
            self._woken.update(dict.fromkeys(woken[KEYS_PER_TURN:]))

    def _serve_woken(self) -> None:
        """Serve KEYS_PER_TURN of the keys that were left for later turns."""
        for key in list(islice(self._woken, KEYS_PER_TURN)):
            del self._woken[key]
            self._serve(key)
        if self._woken:
            self._clock.call_at(self._clock.monotonic_ns(), self._serve_woken)

    def wake_one(self, poll: LongPoll) -> None:
        """Serve the calls that wait under the same key as `poll`, from the first on."""
        if not poll.done:
            self._serve(poll.key)

    def wake_group(self, group: str, topic: str) -> None:
        """Serve the calls of `group` that wait for `topic`, since its messages can be leased again."""
        self.wake_count += 1
        keys = self._by_topic.get(topic)
        if keys is None:
            return
        for key in list(keys):
            if key[0] == group:
                self._serve(key)

    def _serve(self, key: Key) -> None:
        polls = self._by_key.get(key)
        while polls:
            poll = polls[0]
            if not poll.call.attempt():
                return
            if not poll.done:
                self._finish(poll)
                polls.remove(poll)
        self._drop_empty(key)

    def _expired(self, poll: LongPoll) -> None:
        if not poll.done:
            self.leave(poll)
            poll.call.expire()

    def _finish(self, poll: LongPoll) -> None:
        poll.done = True
        self._count -= 1
        if poll.timer is not None:
            poll.timer.cancel()

    def _drop_empty(self, key: Key) -> None:
        if not self._by_key.get(key) and self._by_key.pop(key, None) is not None:
            keys = self._by_topic[key[1]]
            del keys[key]
            if not keys:
                del self._by_topic[key[1]]
