"""Who is here: sessions by the users that they act for, so that those whose access ends are sent away at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import Final, final

from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.limits import MILLISECOND_NS
from domain.mqtt_session import MqttSubscription, Unsubscribe
from domain.ports import Clock, Timer
from domain.principal import GATEWAY, Principal
from gateway.access import needs
from gateway.access.authority import Access
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler

SESSIONS_PER_LOOK: Final = 1_000
"""Looked at in one turn of the loop, so that a change costs nobody else more than milliseconds."""
PAUSE_NS: Final = MILLISECOND_NS
RESUMED_NS: Final = 500 * MILLISECOND_NS
"""After a session was resumed its filters are looked at: its client has been answered by then."""
USERS_PER_SESSION_MAX: Final = 64
"""Behind a proxy a connection may be that of many; beyond this the oldest are judged by their next request alone."""

Judge = Callable[[ClientConnection, Command], Failure | None]
"""Why a session may not have what it has asked for any more, None: it may."""


@final
class Attendance:
    """Told by the gate who acts for whom; asks the authority again whenever something has changed.

    `held` says which filters a session has; those that may not be had any more are taken out of it before it is sent away, so
    that it comes back without them. `reviews` have what stands (parked polls, watches) judged again.
    """

    def __init__(
        self,
        access: Access,
        clock: Clock,
        handler: Handler,
        held: Callable[[ClientConnection], Sequence[MqttSubscription]],
        reviews: Sequence[Callable[[Judge], None]] = (),
    ) -> None:
        self._reviews = reviews
        self._access = access
        self._clock = clock
        self._handler = handler
        self._held = held
        self._sessions: dict[ClientConnection, None] = {}
        self._others: dict[ClientConnection, dict[str, Principal]] = {}
        self._ends: list[tuple[int, int, ClientConnection]] = []
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._count = 0
        self._round: Iterator[ClientConnection] | None = None
        self._again = False
        access.book.changed = self.look

    def __len__(self) -> int:
        return len(self._sessions)

    def saw(self, connection: ClientConnection, principal: Principal) -> None:
        """`session` acts for `principal`, which it did not when it was seen last."""
        if connection.shared or connection.closed:
            return
        before = connection.seen
        connection.seen = principal
        if before is None:
            self._sessions[connection] = None
            connection.on_close.append(lambda: self._left(connection))
        elif before.user != principal.user:
            others = self._others.setdefault(connection, {})
            others[before.user] = before
            others.pop(principal.user, None)
            if len(others) > USERS_PER_SESSION_MAX:
                del others[next(iter(others))]
        if principal.expires_ms:
            self._count += 1
            heappush(self._ends, (principal.expires_ms, self._count, connection))
            self._arm()

    def resumed(self, connection: ClientConnection) -> None:
        """It goes on with filters of before: rights may have changed in between."""
        self._clock.call_at(self._clock.monotonic_ns() + RESUMED_NS, lambda: self._check(connection))

    def look(self) -> None:
        """Something has changed: look at everybody, a part of them at a time."""
        if self._round is not None:
            self._again = True
            return
        # Before anybody is sent away: so that who waits for an answer gets one.
        for review in self._reviews:
            review(self._judge)
        self._round = iter(list(self._sessions))
        self._clock.call_soon(self._some)

    def _judge(self, connection: ClientConnection, command: Command) -> Failure | None:
        """Whether what was granted when it was asked for, and stands since, would still be granted."""
        principal = getattr(command, "principal", None) or connection.principal
        if principal is None or principal is GATEWAY:
            return None
        failure = self._access.current(principal)
        if failure is None and not principal.privileged:
            failure = self._access.first(principal, needs.TABLE[type(command)](command), connection.client_id)
            self._access.refused["not-allowed"] += failure is not None
        return failure

    def _some(self) -> None:
        if self._round is None:
            return
        some = list(islice(self._round, SESSIONS_PER_LOOK))
        for connection in some:
            self._check(connection)
        if len(some) == SESSIONS_PER_LOOK:
            self._clock.call_at(self._clock.monotonic_ns() + PAUSE_NS, self._some)
            return
        self._round = None
        if self._again:
            self._again = False
            self.look()

    def _check(self, connection: ClientConnection) -> None:
        if connection.closed or connection.seen is None:
            return
        for principal in (connection.seen, *self._others.get(connection, {}).values()):
            failure = self._access.current(principal)
            if failure is not None:
                connection.shell.expel(failure)
                return
        owner = connection.principal
        if owner is None:
            return
        banned = self._access.bans.of(owner.user, connection.client_id, owner.host)
        if banned is not None:
            connection.shell.expel(banned)
        elif not owner.privileged:
            self._check_filters(connection, owner)

    def _check_filters(self, connection: ClientConnection, principal: Principal) -> None:
        gone: list[str] = []
        told: Failure | None = None
        for subscription in self._held(connection):
            failure = self._access.first(principal, needs.subscription(subscription), connection.client_id)
            if failure is not None:
                gone.append(subscription.name)
                told = failure
        if told is not None:
            self._access.refused["not-allowed"] += len(gone)
            self._handler.handle(connection, Unsubscribe(None, gone))
            connection.shell.expel(told)

    def _left(self, connection: ClientConnection) -> None:
        self._sessions.pop(connection, None)
        self._others.pop(connection, None)

    # Tokens that run out

    def _arm(self) -> None:
        end_ms = self._ends[0][0]
        if self._timer is not None:
            if end_ms >= self._timer_ms:
                return
            self._timer.cancel()
        self._timer_ms = end_ms
        delay_ns = max(0, end_ms - self._clock.wall_ms()) * MILLISECOND_NS
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + delay_ns, self._over)

    def _over(self) -> None:
        self._timer = None
        now_ms = self._clock.wall_ms()
        while self._ends and (self._ends[0][0] <= now_ms or self._ends[0][2].closed):
            _, _, connection = heappop(self._ends)
            seen = connection.seen
            if not connection.closed and seen is not None and 0 < seen.expires_ms <= now_ms:
                connection.shell.expel(Failure(ErrorCode.NOT_ALLOWED, "the token has expired"))
        if self._ends:
            self._arm()
