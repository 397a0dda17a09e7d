"""One consumer group over one topic, as far as its members are sessions: what it leases, and who of them gets it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol, final

from domain import property as properties
from domain.command import Receive
from domain.errors import ErrorCode
from domain.event import Event, Leased, Received, Refused
from domain.filter.path import matches
from domain.limits import RECEIVE_MESSAGES_MAX, WAIT_MS_MAX
from domain.record import Record
from domain.session import AT_MOST_ONCE, Interest
from gateway.routing.routes import path_in
from gateway.routing.wanted import wanted_paths
from gateway.session import Session
from gateway.usecase.deadletter import leased_topic
from gateway.usecase.sessions.claims import LEASE_MS
from gateway.usecase.sessions.subscriber import Claim, Subscriber

CLAIMS_MAX: Final = 64
"""Messages of groups that one session may have unconfirmed: what a member holds is what the others do not get."""
REMEMBERED_MAX: Final = 1_024

Member = tuple[Subscriber, Interest]


class Desk(Protocol):
    """What a line needs of those who keep it."""

    def receive(self, session: Session, command: Receive) -> None:
        """The Receive verb."""

    def hold(self, claim: Claim) -> None:
        """A lease has come."""

    def give_back(self, claims: Sequence[Claim]) -> None:
        """Nobody here wants these."""

    def hand(self, member: Member, claim: Claim, record: bytes, path: str) -> None:
        """Deliver to a member, who has room."""

    def refused(self, line: Line, code: ErrorCode) -> None:
        """Nothing can be leased now."""


@final
class Call:
    """One Receive under way: the shell of the session that it is made by. Once `over`, what it still brings is given back."""

    __slots__ = ("line", "over", "session")

    def __init__(self, line: Line) -> None:
        self.line = line
        self.over = False
        self.session = Session("mqtt", self)

    def answer(self, event: Event) -> None:
        """Received, or Refused."""
        self.line.answered(self, event)

    def close(self) -> None:
        """There is no connection behind it."""

    def end(self) -> None:
        """Take it out of the queue of those who wait, if it waits."""
        self.over = True
        for undo in self.session.on_close:
            undo()
        self.session.on_close.clear()


@final
class Line:
    """Asks for messages, as any receiver does, while a member has room; hands each to the member with the fewest.

    Invariant: there is at most one Call that is not over, and none while messages wait in `_pending`.
    """

    __slots__ = ("_call", "_desk", "_members", "_pending", "_remembered", "group", "topic")

    def __init__(self, desk: Desk, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        self._desk = desk
        self._members: dict[Subscriber, dict[str, Interest]] = {}
        self._pending: deque[tuple[Claim, bytes, str]] = deque()
        self._remembered: dict[str, list[Member]] = {}
        self._call: Call | None = None

    def join(self, subscriber: Subscriber, interest: Interest) -> None:
        """A member comes, or subscribes by one more filter, or by the same one anew."""
        self._members.setdefault(subscriber, {})[interest.pattern] = interest
        self._changed()

    def leave(self, subscriber: Subscriber, pattern: str) -> bool:
        """A member drops a filter; True when the line has no members any more, and has let go of everything."""
        patterns = self._members.get(subscriber, {})
        patterns.pop(pattern, None)
        if not patterns:
            self._members.pop(subscriber, None)
        self._changed()
        return not self._members

    def _changed(self) -> None:
        self._remembered.clear()
        if self._call is not None:
            # Those who wait with the old filter would settle what the new one wants.
            self._call.end()
            self._call = None
        self.pump()

    def pump(self) -> None:
        """Something has changed: hand out what waits, and ask for more if there is room."""
        self._hand_out()
        if self._call is not None or self._pending:
            return
        room = min(RECEIVE_MESSAGES_MAX, sum(_room(member, self._members[member]) for member in self._members))
        if room > 0:
            patterns = [pattern for patterns in self._members.values() for pattern in patterns]
            call = self._call = Call(self)
            self._desk.receive(
                call.session,
                Receive(
                    call, self.group, self.topic, room, LEASE_MS, WAIT_MS_MAX,
                    filter=wanted_paths(self.topic, patterns), from_first=True,
                ),
            )  # fmt: skip

    def answered(self, call: Call, event: Event) -> None:
        """What a Receive has brought."""
        if self._call is call:
            self._call = None
        if isinstance(event, Received):
            taken = [self._claim(message, event.invisible_ms) for message in event.messages]
            if call.over:
                self._desk.give_back(taken)
                return
            for claim, message in zip(taken, event.messages, strict=True):
                self._desk.hold(claim)
                origin = properties.find(Record(message.record).properties, b"originMqttTopic")
                self._pending.append((claim, message.record, path_in(self.topic, origin)))
            self.pump()
        elif isinstance(event, Refused) and not call.over:
            self._desk.refused(self, event.failure.code)

    def _claim(self, message: Leased, invisible_ms: int) -> Claim:
        receipt = message.receipt
        return Claim(self.group, leased_topic(self.group, self.topic, receipt), receipt, receipt.pop_ms + invisible_ms)

    def _hand_out(self) -> None:
        unwanted: list[Claim] = []
        for _ in range(len(self._pending)):
            claim, record, path = self._pending.popleft()
            candidates = self._matching(path)
            member = self._next(candidates)
            if member is not None:
                self._desk.hand(member, claim, record, path)
            elif candidates:
                self._pending.append((claim, record, path))
            else:
                unwanted.append(claim)
        if unwanted:
            self._desk.give_back(unwanted)

    def _matching(self, path: str) -> list[Member]:
        """Members that want `path`, each with the filter that promises most."""
        found = self._remembered.get(path)
        if found is None:
            found = []
            for subscriber, patterns in self._members.items():
                fitting = [interest for pattern, interest in patterns.items() if matches(pattern, path)]
                if fitting:
                    found.append((subscriber, max(fitting, key=lambda interest: interest.level)))
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[path] = found
        return found

    @staticmethod
    def _next(candidates: list[Member]) -> Member | None:
        """The one with the fewest messages unconfirmed, of several the one that has waited longest; None: all are full."""
        best = -1
        for at, (subscriber, interest) in enumerate(candidates):
            if _free(subscriber, interest) and (best < 0 or subscriber.claims < candidates[best][0].claims):
                best = at
        if best < 0:
            return None
        member = candidates.pop(best)
        candidates.append(member)
        return member


def _free(subscriber: Subscriber, interest: Interest) -> bool:
    """True when the member can be handed one more."""
    return interest.level == AT_MOST_ONCE or (subscriber.claims < CLAIMS_MAX and not subscriber.full)


def _room(subscriber: Subscriber, patterns: dict[str, Interest]) -> int:
    """How many messages the member can be handed."""
    if any(interest.level == AT_MOST_ONCE for interest in patterns.values()):
        return RECEIVE_MESSAGES_MAX
    if subscriber.full:
        return 0
    return max(0, min(CLAIMS_MAX - subscriber.claims, subscriber.window - len(subscriber.in_flight)))
