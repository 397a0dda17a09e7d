"""Publication of will messages (MQTT 5, 3.1.2.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from domain.client.mqtt_session import Will
from domain.errors import Failure
from domain.message import property as properties
from domain.message.message import Placed
from domain.ports import Clock
from domain.store.store_ports import State, StateChange
from gateway.usecase.publish.send import Sending


@final
class WillPublisher:
    """Publishes wills, together with changes of the session's state."""

    def __init__(self, state: State, clock: Clock, sending: Sending) -> None:
        self._state = state
        self._clock = clock
        self._sending = sending

    def publish(self, will: Will, changes: list[StateChange], then: Callable[[object], None] | None = None) -> None:
        """Append the will and write `changes` in the same commit; write `changes` alone when the will is refused.

        `then` is called when that is done, whether it succeeded or not.
        """
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
