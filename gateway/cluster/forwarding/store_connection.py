"""Connection of a gateway to its store, with greeting, detection of silence, and reconnects."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol, final

from domain.errors import ConfigError, GatewayError
from domain.limits import SECOND_NS
from domain.ports import Clock, Entropy, Timer
from domain.repeated_lines import RepeatedLines
from gateway.link.backoff import Backoff
from gateway.link.stream import Stream
from gateway.link.wire import Dialer
from protocols.remoting.nodes.forwarding.greeting import ElsewhereError

PAUSE_MS: Final = 50
"""Pause before the second attempt, on average; it doubles up to PAUSE_MAX_MS."""
PAUSE_MAX_MS: Final = 2_000
REPLICA_PAUSE_MAX_MS: Final = 200
"""The same where one of several replicas leads soon."""
DOUBT_NS: Final = (5 * SECOND_NS, 60 * SECOND_NS)
"""Pause before the other replicas are tried again because of refusals: the first one, and the limit. It doubles each time, and
another replica begins with the first one."""
PINGS: Final = 4
"""Parts of the time of silence: after the first one without a byte, the store is asked for a sign."""

log = logging.getLogger("headgate.store")


class Dialog(Protocol):
    """Requests and answers of one connection (protocols.remoting.nodes.node_dialog)."""

    greeted: bool

    def open(self) -> None:
        """The connection is there."""

    def receive(self, data: bytes) -> None:
        """Bytes have come. Raises GatewayError, whose text says why the connection has to be closed."""

    def doubt(self) -> str:
        """Text of a refusal since the last call that another replica might not give; "": there was none."""

    def ping(self) -> None:
        """Send a request that the other node has to answer, to learn whether it lives."""

    def end(self) -> None:
        """The connection is closed."""


MakeDialog = Callable[[Callable[[bytes], None]], Dialog]
"""Makes the dialog of a new connection, with the function that writes to it. Raises ConfigError."""


@final
class StoreConnection:
    """Connects to the store, or to its replicas in turn, until one answers the greeting.

    waits      reason why there is no connection; "": there is one, whose greeting was answered
    losses     connections that have ended after their greeting was answered
    """

    def __init__(
        self, endpoints: Sequence[tuple[str, int]], make: MakeDialog, dialer: Dialer, patience_s: tuple[float, float],
        clock: Clock, entropy: Entropy, on_change: Callable[[], None],
    ) -> None:  # fmt: skip
        """`endpoints`: (host, port) of the store, or of its replicas, one of which leads.

        patience_s   seconds for the answer to the greeting, and without a byte before the connection is ended
        on_change    called when `waits` has changed
        """
        self.waits = "no connection yet"
        self.losses = 0
        self._make = make
        self._answer_s, self._silence_s = patience_s
        self._clock = clock
        self._on_change = on_change
        self._stream = Stream(endpoints, dialer, clock, Backoff(PAUSE_MS, _longest_ms(endpoints), entropy), self)
        self._dialog: Dialog | None = None
        self._timer: Timer | None = None
        self._received_bytes = 0
        self._quiet_parts = 0
        self._doubted = ""
        self._doubt_ns = DOUBT_NS[0]
        self._next_doubt_ns = clock.monotonic_ns()
        self._lines = RepeatedLines(log, clock)

    @property
    def where(self) -> str:
        """The address that is asked now, or next."""
        return self._stream.where

    @property
    def attempts(self) -> int:
        """Attempts to connect."""
        return self._stream.attempts

    def follow(self, endpoints: Sequence[tuple[str, int]], dialer: Dialer, patience_s: tuple[float, float]) -> None:
        """Use other addresses for the next connections; the present one stays open. Arguments as of `__init__`."""
        self._answer_s, self._silence_s = patience_s
        self._stream.follow(endpoints, dialer, _longest_ms(endpoints))

    def start(self) -> None:
        """Connect, and stay connected until `close`."""
        self._stream.connect()

    def close(self) -> None:
        """Close the connection, and make no other one."""
        self._stream.close()
        self._end_dialog()

    def opened(self) -> None:
        """WireUser.opened: greet the store."""
        self._received_bytes = self._quiet_parts = 0
        self._after(self._answer_s, self._unanswered)
        try:
            self._dialog = self._make(self._stream.write)
            self._dialog.open()
        except ConfigError as error:
            self._stream.end(str(error))

    def received(self, data: bytes) -> None:
        """WireUser.received."""
        dialog = self._dialog
        assert dialog is not None
        before = dialog.greeted
        try:
            dialog.receive(data)
        except ElsewhereError as error:
            self._stream.turn_to(error.where)
            self._stream.end(str(error))
            return
        except GatewayError as error:  # `ended` logs it
            self._stream.end(str(error))
            return
        if dialog.greeted and not before:
            self._stream.succeeded()
            if self.where != self._doubted:
                self._doubt_ns = DOUBT_NS[0]
            self._watch()
            log.info("connected to the store at %s", self.where)
            self._lines.forget()
            self._change("")
        if why := dialog.doubt():
            self._look_elsewhere(why)

    def _look_elsewhere(self, why: str) -> None:
        """The store refuses what another replica might not, as a leader does that was replaced: try the others in turn, once in
        DOUBT_NS. With none that leads in a newer epoch the turn comes back here, and the stream goes on."""
        now = self._clock.monotonic_ns()
        if self._stream.servers > 1 and now >= self._next_doubt_ns:
            self._next_doubt_ns = now + self._doubt_ns
            self._doubt_ns = min(2 * self._doubt_ns, DOUBT_NS[1])
            self._doubted = self.where
            self._stream.end(f"it refuses what another replica may store: {why}")

    def ended(self, reason: str) -> None:
        """WireUser.ended."""
        self._end_dialog()
        self.losses += not self.waits
        self._change(reason)
        self._lines.event(logging.WARNING, f"waits for the store at {self.where}: {reason}")
        self._stream.retry()

    def _end_dialog(self) -> None:
        dialog, self._dialog = self._dialog, None
        if self._timer is not None:
            self._timer.cancel()
        if dialog is not None:
            dialog.end()

    def _after(self, wait_s: float, step: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + int(wait_s * SECOND_NS), step)

    def _unanswered(self) -> None:
        self._stream.end(f"it did not answer the greeting within {self._answer_s:g} s")

    def _watch(self) -> None:
        """Wait for a part of the time of silence."""
        self._after(self._silence_s / PINGS, self._check)

    def _check(self) -> None:
        """End the connection after PINGS parts without a byte, and ping after each of those before."""
        received_bytes = self._stream.received_bytes
        self._quiet_parts = self._quiet_parts + 1 if received_bytes == self._received_bytes else 0
        self._received_bytes = received_bytes
        if self._quiet_parts >= PINGS:
            self._stream.end(f"it said nothing for {self._silence_s:g} s")
            return
        if self._quiet_parts and self._dialog is not None:
            self._dialog.ping()
        self._watch()

    def _change(self, waits: str) -> None:
        if waits != self.waits:
            self.waits = waits
            self._on_change()


def _longest_ms(endpoints: Sequence[tuple[str, int]]) -> int:
    return PAUSE_MAX_MS if len(endpoints) == 1 else REPLICA_PAUSE_MAX_MS
