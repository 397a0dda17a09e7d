"""Long polls: calls that are parked until a message arrives, a lease ends, or their wait time is over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, TypeVar, final

from domain import limits
from domain.command import AwaitMessages, Command, FollowTopic, Pull, Receive
from domain.errors import Failure
from domain.event import Event, Refused
from domain.ports import Clock, Timer
from domain.topic.lite import ReceiveLite
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.waiting.read_turns import ReadTurns

Key = tuple[str, str, int]
"""(consumer group, topic, queue id). Queue id -1 waits for any queue. Calls that wait for nobody have keys of their own."""

RightsCheck = Callable[[ClientConnection, Command], Failure | None]
"""Returns why a connection may no longer have what its command asks for, or None when it may."""
KEYS_PER_TURN: Final = 64
"""Keys whose calls one wake-up serves in one turn of the loop; each call that is served leases messages."""
REVIEWED_PER_TURN: Final = 128
"""Long polls whose rights are checked in one turn of the loop: all may be refused, which takes some 20 us each."""

Waiting = Receive | ReceiveLite | Pull | FollowTopic | AwaitMessages
Waiting_co = TypeVar("Waiting_co", bound=Waiting, covariant=True)


class WaitingCall(Generic[Waiting_co]):
    """A command that waits for messages: under way, parked, or answered.

    connection    where the answer goes
    polls         where the call is parked
    key           under which it is parked; None: it is not
    timer         runs when the wait time of a parked call is over
    is_answered   the answer is given, or the connection has closed
    is_tailed     True: the topic is tailed for this call until it leaves (`LongPolls.begin_tail`)
    _on_close     the connection calls `abandon` when it closes
    """

    __slots__ = ("_on_close", "command", "connection", "is_answered", "is_tailed", "key", "polls", "timer")

    def __init__(self, polls: LongPolls, connection: ClientConnection, command: Waiting_co) -> None:
        self.polls = polls
        self.connection = connection
        self.command = command
        self.key: Key | None = None
        self.timer: Timer | None = None
        self.is_answered = False
        self.is_tailed = False
        self._on_close = False

    def attempt(self) -> bool:
        """Try again, as a parked call. Returns True when the call needs its place no more, False when it stays parked."""
        raise NotImplementedError

    def expire(self) -> None:
        """Answer that nothing was found within the wait time. Called after the call has left the parked ones."""
        raise NotImplementedError

    def in_turn(self, reads: ReadTurns, read: Callable[[], None]) -> None:
        """Call `read` when this turn may read more messages; else in a later one."""
        if reads.crowded:
            reads.add(self.connection, read)
        else:
            read()

    def park(self, key: Key, wait_ms: int) -> bool:
        """Wait for `wait_ms`, at most WAIT_MS_MAX. Returns False when too many calls are parked."""
        if not self.polls.park(self, key, wait_ms):
            return False
        if not self._on_close:
            self._on_close = True
            self.connection.on_close.append(self.abandon)
        return True

    def overdue(self) -> None:
        """The wait time of the parked call is over."""
        self.polls.leave(self)
        self.expire()

    def refuse(self, failure: Failure) -> None:
        """Answer Refused."""
        self.answer(Refused(self.command.ticket, failure))

    def abandon(self) -> None:
        """Leave the parked calls without an answer: the connection has closed."""
        if self.key is not None:
            self.is_answered = True
            self.polls.leave(self)

    def answer(self, event: Event) -> None:
        """Give the answer, the first one only, and leave the parked calls."""
        if self.is_answered:
            return
        self.is_answered = True
        self.polls.leave(self)
        if self._on_close and self.abandon in self.connection.on_close:
            self.connection.on_close.remove(self.abandon)
        self.connection.answer(event)


@dataclass(frozen=True, slots=True)
class LiveTails:
    """A store that reports arrivals only in topics that somebody follows, as the calls that wait for them use it.

    begin     called with the topic of a parked call. True: arrivals are reported from now on
    interest  called with that topic and False when the call leaves
    """

    begin: Callable[[str], bool]
    interest: Callable[[str, bool], None]


@final
class LongPolls:
    """The parked calls of one use case.

    Calls with the same key are served first come, first served, and only as long as an attempt succeeds: one message wakes
    one member of a group, not all of them. At most `per_key_max` calls a key and `parked_max` in all are parked.

    One message may be for thousands of groups: KEYS_PER_TURN keys are served in the turn of its arrival, and in each one after.

    _check       the rights of a review under way; None: there is none
    wake_count   calls of `wake` and `wake_group` so far; a call compares two readings to learn whether it missed one
    """

    def __init__(
        self, clock: Clock, per_key_max: int = limits.LONG_POLLS_PER_KEY_MAX, tails: LiveTails | None = None
    ) -> None:  # fmt: skip
        """`tails`: the store reports arrivals only in topics that somebody follows; None: it reports all."""
        self._clock = clock
        self._per_key_max = per_key_max
        self._tails = tails
        self._woken: dict[Key, None] = {}
        self._by_topic: dict[str, dict[Key, dict[WaitingCall[Waiting], None]]] = {}
        self._count = 0
        self._check: RightsCheck | None = None
        self.parked_max: int = limits.LONG_POLLS_MAX
        self.wake_count = 0

    def __len__(self) -> int:
        return self._count

    def park(self, call: WaitingCall[Waiting], key: Key, wait_ms: int) -> bool:
        """Park `call` for `wait_ms`, after which its `overdue` is called. Returns False when too many calls are parked."""
        keys = self._by_topic.get(key[1])
        calls = None if keys is None else keys.get(key)
        if self._count >= self.parked_max or (calls is not None and len(calls) >= self._per_key_max):
            return False
        if keys is None:
            keys = self._by_topic[key[1]] = {}
        if calls is None:
            calls = keys[key] = {}
        calls[call] = None
        call.key = key
        self._count += 1
        due_ns = self._clock.monotonic_ns() + min(wait_ms, limits.WAIT_MS_MAX) * limits.MILLISECOND_NS
        call.timer = self._clock.call_at(due_ns, call.overdue)
        return True

    def begin_tail(self, call: WaitingCall[Waiting]) -> bool:
        """True when arrivals are reported from now on, so that a parked call has to read earlier arrivals once more."""
        if self._tails is None or call.key is None or not self._tails.begin(call.key[1]):
            return False
        call.is_tailed = True
        return True

    def leave(self, call: WaitingCall[Waiting]) -> None:
        """Remove a call without an answer. Harmless when it is not parked."""
        key = call.key
        if key is None:
            return
        call.key = None
        self._count -= 1
        if call.timer is not None:
            call.timer.cancel()
        keys = self._by_topic[key[1]]
        calls = keys[key]
        del calls[call]
        if not calls:
            del keys[key]
            if not keys:
                del self._by_topic[key[1]]
        if call.is_tailed and self._tails is not None:
            call.is_tailed = False
            self._tails.interest(key[1], False)

    def on_topic(self, topic: str) -> Iterable[Iterable[WaitingCall[Waiting]]] | None:
        """The calls that are parked under each key of `topic`, the oldest first; None: there are none."""
        keys = self._by_topic.get(topic)
        return None if keys is None else keys.values()

    def waiting(self, key: Key) -> int:
        """Calls that are parked under one key."""
        keys = self._by_topic.get(key[1])
        return 0 if keys is None else len(keys.get(key, ()))

    def review(self, check: RightsCheck) -> None:
        """Check the rights of every parked call again and refuse those that fail, REVIEWED_PER_TURN a turn."""
        self._check = check
        self._review(check, [call for keys in self._by_topic.values() for calls in keys.values() for call in calls])

    def _review(self, check: RightsCheck, calls: list[WaitingCall[Waiting]]) -> None:
        for call in calls[:REVIEWED_PER_TURN]:
            failure = None if call.key is None else check(call.connection, call.command)
            if failure is not None:
                call.refuse(failure)
        rest = calls[REVIEWED_PER_TURN:]
        if rest:
            self._clock.call_at(self._clock.monotonic_ns() + limits.MILLISECOND_NS, lambda: self._review(check, rest))
        elif self._check is check:
            self._check = None

    def refused(self, call: WaitingCall[Waiting]) -> bool:
        """True: a review is under way whose turn for `call` has not come, and it is refused now, before it is served."""
        failure = None if self._check is None or call.key is None else self._check(call.connection, call.command)
        if failure is not None:
            call.refuse(failure)
        return failure is not None

    def wake(self, topic: str, queue_id: int) -> None:
        """Serve the calls that wait for a queue of `topic`, since messages arrived there; queue id -1: for any queue."""
        self.wake_count += 1
        keys = self._by_topic.get(topic)
        if keys is None:
            return
        woken = [key for key in keys if key[2] < 0 or queue_id < 0 or key[2] == queue_id]
        for key in woken[:KEYS_PER_TURN]:
            self.serve(key)
        if len(woken) > KEYS_PER_TURN:
            if not self._woken:
                self._clock.call_at(self._clock.monotonic_ns(), self._serve_woken)
            self._woken.update(dict.fromkeys(woken[KEYS_PER_TURN:]))

    def _serve_woken(self) -> None:
        """Serve KEYS_PER_TURN of the keys that were left for later turns."""
        for key in list(islice(self._woken, KEYS_PER_TURN)):
            del self._woken[key]
            self.serve(key)
        if self._woken:
            self._clock.call_at(self._clock.monotonic_ns(), self._serve_woken)

    def wake_group(self, group: str, topic: str) -> None:
        """Serve the calls of `group` that wait for `topic`, since its messages can be leased again."""
        self.wake_count += 1
        keys = self._by_topic.get(topic)
        if keys is None:
            return
        for key in list(keys):
            if key[0] == group:
                self.serve(key)

    def serve(self, key: Key) -> None:
        """Serve the calls that wait under `key`, from the first on."""
        keys = self._by_topic.get(key[1])
        calls = None if keys is None else keys.get(key)
        while calls:
            call = next(iter(calls))
            if self.refused(call):
                continue
            if not call.attempt():
                return
            self.leave(call)
