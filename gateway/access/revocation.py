"""Revocation of access: connected clients are checked again when users, policies or rules change, or a token expires."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final, final

from domain.access.principal import GATEWAY, Principal
from domain.client.mqtt_session import MqttSubscription, Unsubscribe
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.limits import MILLISECOND_NS
from domain.ports import Timer
from domain.walk import Walk, Walks
from gateway.access import needs
from gateway.access.authority import Access
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler

log = logging.getLogger("headgate.access")

CHECKED: Final = 8
"""Connections that one step of a walk checks."""
RESUMED_REVIEW_NS: Final = 500 * MILLISECOND_NS
"""Time after which a client is notified that its resumed session has lost subscriptions: it has its CONNACK by then."""
USERS_PER_CONNECTION_MAX: Final = 64
"""Principals checked for one connection, which a proxy may use for many users. Older ones are checked at their next request."""

RightsCheck = Callable[[ClientConnection, Command], Failure | None]
"""Returns why a connection may no longer have what its command asks for, or None when it may."""


@final
class AccessRevocation:
    """Keeps the principals of each connection, and checks them again after each change.

    subscriptions_of   the subscriptions of a connection's session: those that are refused now are removed before the connection
                       is closed, so that a resumed session does not have them
    reviews            use cases that check their waiting requests (parked polls, watches), and what they keep for users, again
    """

    def __init__(
        self,
        access: Access,
        walks: Walks,
        handler: Handler,
        subscriptions_of: Callable[[ClientConnection], Sequence[MqttSubscription]],
        reviews: Sequence[Callable[[RightsCheck], None]] = (),
        known: needs.CommandNeeds = needs.OWN,
    ) -> None:
        self._needs = known.table
        self._reviews = reviews
        self._access = access
        self._walks = walks
        self._clock = walks.clock
        self._handler = handler
        self._subscriptions_of = subscriptions_of
        self._connections: dict[ClientConnection, None] = {}
        self._other_principals: dict[ClientConnection, dict[str, Principal]] = {}
        self._token_ends: list[tuple[int, int, ClientConnection]] = []
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._count = 0
        self._reviewing = self._repeat = False
        access.records.follow(self.review_all)

    def __len__(self) -> int:
        return len(self._connections)

    def track(self, connection: ClientConnection, principal: Principal) -> None:
        """The connection acts for `principal`, which is not the principal of its last command."""
        if connection.shared or connection.closed:
            return
        before = connection.last_principal
        connection.last_principal = principal
        if before is None:
            self._connections[connection] = None
            connection.on_close.append(lambda: self._forget(connection))
        elif before.user != principal.user:
            others = self._other_principals.setdefault(connection, {})
            others[before.user] = before
            others.pop(principal.user, None)
            if len(others) > USERS_PER_CONNECTION_MAX:
                del others[next(iter(others))]
        if principal.expires_ms:
            self._count += 1
            heappush(self._token_ends, (principal.expires_ms, self._count, connection))
            self._arm()

    def session_resumed(self, connection: ClientConnection) -> None:
        """A session was resumed, and rights may have changed in between: subscriptions that are refused now deliver nothing.

        The client is notified when it has its CONNACK.
        """
        owner = connection.principal
        refusal = None if owner is None or owner.privileged else self._withdraw(connection, owner)
        if refusal is not None:
            due_ns = self._clock.monotonic_ns() + RESUMED_REVIEW_NS
            self._clock.call_at(due_ns, lambda: connection.driver.revoke_access(refusal))

    def review_all(self) -> None:
        """Check all waiting requests and all connections again."""
        if self._reviewing:
            self._repeat = True
            return
        self._reviewing = True
        # Before connections are closed, so that waiting requests get an answer.
        for review in self._reviews:
            review(self._judge)
        self._clock.call_soon(lambda: self._walks.begin(self._review_connections()))

    def _judge(self, connection: ClientConnection, command: Command) -> Failure | None:
        """Check a waiting request again: the failure if it would be refused now."""
        principal = getattr(command, "principal", None) or connection.principal
        if principal is None or principal is GATEWAY:
            return None
        failure = self._access.current(principal)
        if failure is None and not principal.privileged:
            failure = self._access.first_denial(principal, self._needs[type(command)](command), connection.client_id)
            self._access.refused["not-allowed"] += failure is not None
        return failure

    def _review_connections(self) -> Walk:
        for number, connection in enumerate(list(self._connections), 1):
            self._review(connection)
            if number % CHECKED == 0:
                yield
        self._reviewing = False
        if self._repeat:
            self._repeat = False
            self.review_all()

    def _review(self, connection: ClientConnection) -> None:
        if connection.closed or connection.last_principal is None:
            return
        for principal in (connection.last_principal, *self._other_principals.get(connection, {}).values()):
            failure = self._access.current(principal)
            if failure is not None:
                connection.driver.revoke_access(failure)
                return
        owner = connection.principal
        if owner is None:
            return
        banned = self._access.bans.of(owner.user, connection.client_id, owner.host)
        if banned is not None:
            cause, remedy = banned.text, "if it may come back, remove it from access.banned"
            text = "client %r of user %r at %s is disconnected: %s: %s"
            facts = {"event": "banned", "cause": cause, "remedy": remedy}
            log.warning(text, connection.client_id, owner.user, owner.host, cause, remedy, extra=facts)
            connection.driver.revoke_access(banned)
        elif not owner.privileged:
            refusal = self._withdraw(connection, owner)
            if refusal is not None:
                connection.driver.revoke_access(refusal)

    def _withdraw(self, connection: ClientConnection, principal: Principal) -> Failure | None:
        """Remove the subscriptions of a connection that are refused now. Returns the last refusal; None: there is none."""
        gone: list[str] = []
        refusal: Failure | None = None
        for subscription in self._subscriptions_of(connection):
            failure = self._access.first_denial(principal, needs.subscription(subscription), connection.client_id)
            if failure is not None:
                gone.append(subscription.name)
                refusal = failure
        if refusal is not None:
            self._access.refused["not-allowed"] += len(gone)
            self._handler.handle(connection, Unsubscribe(None, gone))
        return refusal

    def _forget(self, connection: ClientConnection) -> None:
        self._connections.pop(connection, None)
        self._other_principals.pop(connection, None)

    # Tokens that expire

    def _arm(self) -> None:
        end_ms = self._token_ends[0][0]
        if self._timer is not None:
            if end_ms >= self._timer_ms:
                return
            self._timer.cancel()
        self._timer_ms = end_ms
        delay_ns = max(0, end_ms - self._clock.wall_ms()) * MILLISECOND_NS
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + delay_ns, self._revoke_expired)

    def _revoke_expired(self) -> None:
        self._timer = None
        self._walks.begin(self._end_expired())

    def _end_expired(self) -> Walk:
        now_ms = self._clock.wall_ms()
        while self._token_ends and (self._token_ends[0][0] <= now_ms or self._token_ends[0][2].closed):
            _, _, connection = heappop(self._token_ends)
            last_principal = connection.last_principal
            if not connection.closed and last_principal is not None and 0 < last_principal.expires_ms <= now_ms:
                connection.driver.revoke_access(Failure(ErrorCode.NOT_ALLOWED, "the token has expired"))
                yield
        if self._token_ends:
            self._arm()
