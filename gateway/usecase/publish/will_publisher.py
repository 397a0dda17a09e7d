"""Publication of will messages (MQTT 5, 3.1.2.5)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import final

from domain.client.mqtt_session import Will
from domain.errors import ErrorCode, Failure
from domain.message import property as properties
from domain.message.message import Placed
from domain.ports import Clock
from domain.repeated_lines import RepeatedLines
from domain.store.store_ports import State, StateChange
from gateway.access.path_rights import PathRights
from gateway.usecase.publish.send import Sending

log = logging.getLogger("headgate.access")


@final
class WillPublisher:
    """Publishes wills, together with changes of the session's state. A will is judged by what its user may when it is due."""

    def __init__(self, state: State, clock: Clock, sending: Sending, rights: PathRights) -> None:
        self._state = state
        self._clock = clock
        self._sending = sending
        self._rights = rights
        self._lines = RepeatedLines(log, clock)

    def publish(
        self,
        will: Will,
        user: str,
        client_id: str,
        changes: list[StateChange],
        then: Callable[[object], None] | None = None,
    ) -> None:
        """Append the will of a user's client and write `changes` in the same commit; write `changes` alone when it is refused.

        `then` is called when that is done, whether it succeeded or not.
        """
        denied = self._rights.will_denial(will, user, client_id)
        if denied is not None:
            self._refuse(user, client_id, denied)
            if changes:
                self._state.put(changes, then)
            elif then is not None:
                then(None)
            return
        message = will.message
        if will.expiry_s >= 0:
            expire_ms = self._clock.wall_ms() + 1000 * will.expiry_s
            message.properties = properties.with_values(message.properties, {properties.HG_EXPIRE_MS: str(expire_ms)})

        def done(result: list[Placed] | Failure) -> None:
            if isinstance(result, Failure) and changes:
                self._state.put(changes, then)
            elif then is not None:
                then(None)

        self._sending.submit([message], done, changes)

    def _refuse(self, user: str, client_id: str, denied: Failure) -> None:
        """Write one line for all wills that a user has left: they may be thousands."""
        log.debug("the will of client %.128r is not published: %s", client_id, denied.text)
        lost = "it may not publish to their topics any more" if denied.code is ErrorCode.NOT_ALLOWED else denied.text
        remedy = "give the user the right, or the account, before they are due if they shall be"
        self._lines.event(logging.WARNING, f"wills of user {user!r} are not published: {lost}: {remedy}")
