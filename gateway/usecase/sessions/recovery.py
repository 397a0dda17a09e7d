"""Sessions that were on record when the node started: each is looked at once, in slices, while the node serves already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.store_ports import State
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.mqtt_session import MqttSession

KEYS_PER_SLICE: Final = 512
"""State keys looked at before others have their turn; a session has two to four."""

PAUSE_NS: Final = MILLISECOND_NS
"""Between two slices: those who are there come first."""


@final
class SessionRecovery:
    """`take` is called with the definition of every session that was on record, before anything else is done with it.

    A client that connects before its turn calls for it (`first`); so does one that is new, and it is not met again.
    `over` is called when all of them have had their turn, and have taken what they keep of what their groups had given them.
    """

    __slots__ = ("_clock", "_next", "_recover", "_recovered_early", "_state", "_when_done", "under_way")

    def __init__(
        self, state: State, clock: Clock, recover: Callable[[MqttSession], None], *when_done: Callable[[], None]
    ) -> None:
        self._state = state
        self._clock = clock
        self._recover = recover
        self._when_done = when_done
        self._next = b""
        self._recovered_early: set[str] = set()
        self.under_way = True
        clock.call_soon(self._slice)

    def recover_now(self, client_id: str) -> None:
        """This session's turn is now, unless it has been."""
        if not self.under_way or client_id in self._recovered_early or snapshot.key(client_id, b"d") < self._next:
            return
        self._recovered_early.add(client_id)
        found = snapshot.outline(self._state, client_id)
        if found is not None:
            self._recover(found)

    def _slice(self) -> None:
        keys = self._state.keys(snapshot.SPACE, b"", self._next, KEYS_PER_SLICE)
        if keys:
            self._next = keys[-1] + b"\x00"
        for key in keys:
            name, _, kind = key.partition(b"\x00")
            client_id = name.decode()
            if kind == b"d" and client_id not in self._recovered_early:
                found = snapshot.outline(self._state, client_id)
                if found is not None:
                    self._recover(found)
        if len(keys) == KEYS_PER_SLICE:
            self._clock.call_at(self._clock.monotonic_ns() + PAUSE_NS, self._slice)
            return
        self.under_way = False
        self._recovered_early.clear()
        for step in self._when_done:
            step()
