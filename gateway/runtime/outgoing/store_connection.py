"""The connection of a gateway to its store: made again for ever, one at a time."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast, final

from domain.address import endpoint_text
from domain.errors import ConfigError, GatewayError
from domain.ports import Entropy
from gateway.runtime.outgoing.connect import connect

PAUSE_S: Final = 0.05
"""Pause before the second attempt, on average; it doubles up to PAUSE_MAX_S."""
PAUSE_MAX_S: Final = 2.0
REPLICA_PAUSE_MAX_S: Final = 0.2
"""The same where one of several replicas leads soon."""
LOG_INTERVAL_S: Final = 10.0
"""Time between two log lines of a gateway that waits for its store."""
UNWRITTEN_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes that may wait for the store to read them: more than all that the node takes from clients before it reads no more."""
PINGS: Final = 4
"""Parts of the time of silence: after the first one without a byte, the store is asked for a sign."""

log = logging.getLogger("headgate.store")


class Dialog(Protocol):
    """What is said over one connection (protocols.remoting.node_dialog)."""

    greeted: bool

    def open(self) -> None:
        """The connection is there."""

    def receive(self, data: bytes) -> None:
        """Bytes have come. Raises GatewayError, whose text says why the connection has to be closed."""

    def ping(self) -> None:
        """Send a request that the other node has to answer, to learn whether it lives."""

    def end(self) -> None:
        """The connection is closed."""


MakeDialog = Callable[[Callable[[bytes], None]], Dialog]
"""Makes the dialog of a new connection, with the function that writes to it. Raises ConfigError."""


@final
class StoreSocket(asyncio.Protocol):
    """One connection. It is closed when the greeting is not answered in time, and when the store is silent.

    ended    done when the connection is closed, with the reason
    dialog   what is said; from `connection_made` on
    """

    def __init__(self, make: MakeDialog, answer_s: float, silence_s: float, greeted: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[str] = self._loop.create_future()
        self.dialog: Dialog | None = None
        self._make = make
        self._silence_s = silence_s
        self._greeted = greeted
        self._transport: asyncio.Transport | None = None
        self._heard = False
        self._quiet_parts = 0
        self._timer = self._loop.call_later(answer_s, self._unanswered, answer_s)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the store."""
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        if self.ended.done():
            self._transport.abort()
            return
        try:
            self.dialog = self._make(self._write)
            self.dialog.open()
        except ConfigError as error:
            self.close(str(error))

    def data_received(self, data: bytes) -> None:
        """Bytes of the store."""
        self._heard = True
        dialog = self.dialog
        if dialog is None or self.ended.done():
            return
        before = dialog.greeted
        try:
            dialog.receive(data)
        except GatewayError as error:  # nonsense costs this connection
            self.close(str(error))
            return
        except Exception:  # so does a bug of the gateway
            log.exception("what the store at %s has sent could not be handled", self._transport)
            self.close("what it has sent could not be handled: see the log above")
            return
        if dialog.greeted and not before:
            self._timer.cancel()
            self._timer = self._loop.call_later(self._silence_s / PINGS, self._look)
            self._greeted()

    def eof_received(self) -> bool:
        """The store has closed its side."""
        return False

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection is closed."""
        self.close("the connection was closed" if exc is None else f"the connection was lost ({exc})")

    def close(self, reason: str) -> None:
        """Close the connection at once; later calls do nothing."""
        if self.ended.done():
            return
        self.ended.set_result(reason)
        self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        if self.dialog is not None:
            self.dialog.end()

    def _write(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or self.ended.done():
            return
        if transport.get_write_buffer_size() + len(data) > UNWRITTEN_BYTES_MAX:
            self._loop.call_soon(self.close, f"it does not read: {UNWRITTEN_BYTES_MAX} bytes wait for it")
            return
        transport.write(data)

    def _unanswered(self, answer_s: float) -> None:
        self.close(f"it did not answer the greeting within {answer_s:g} s")

    def _look(self) -> None:
        """A part of the time of silence is over."""
        self._quiet_parts = 0 if self._heard else self._quiet_parts + 1
        self._heard = False
        if self._quiet_parts >= PINGS:
            self.close(f"it said nothing for {self._silence_s:g} s")
            return
        if self._quiet_parts and self.dialog is not None:
            self.dialog.ping()
        self._timer = self._loop.call_later(self._silence_s / PINGS, self._look)


@final
class StoreConnection:
    """Keeps a connection to the store: after an end and after a failed attempt it tries again, at first soon, then less often.
    Of several addresses each is tried in turn, and a pause follows the last one.

    waits      why there is no connection; "": there is one, whose greeting was answered
    attempts   attempts to connect
    losses     connections that have ended after their greeting was answered
    """

    def __init__(
        self,
        endpoints: Sequence[tuple[str, int]],
        make: MakeDialog,
        tls: Callable[[], ssl.SSLContext | None],
        setting: str,
        answer_s: float,
        silence_s: float,
        entropy: Entropy,
        on_change: Callable[[], None],
    ) -> None:
        """`endpoints`: (host, port) of the store, or of its replicas, one of which leads.

        `tls` reads the files of the authorities, which `setting` names; raises ConfigError.

        `on_change` is called when `waits` has changed.
        """
        self.waits = "no connection yet"
        self.attempts = 0
        self.losses = 0
        self._endpoints = list(endpoints)
        self._at = 0
        self._make = make
        self._tls = tls
        self._setting = setting
        self._answer_s = answer_s
        self._silence_s = silence_s
        self._entropy = entropy
        self._on_change = on_change
        self._socket: StoreSocket | None = None
        self._task: asyncio.Task[None] | None = None
        self._told_s = float("-inf")
        self._told: dict[str, str] = {}

    @property
    def where(self) -> str:
        """The address that was asked last."""
        return endpoint_text(*self._endpoints[self._at])

    def start(self) -> None:
        """Connect, and stay connected until `close`."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        """Close the connection, and make no other one."""
        if self._socket is not None:
            self._socket.close("the gateway stops")
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        failures = 0
        while True:
            self.attempts += 1
            reason = await self._once()
            failures = 0 if not self.waits else failures + 1
            self.losses += not self.waits
            self._change(reason)
            self._tell(reason)
            count = len(self._endpoints)
            self._at = (self._at + 1) % count
            if failures % count:
                continue
            pause_s = min(PAUSE_MAX_S if count == 1 else REPLICA_PAUSE_MAX_S, PAUSE_S * 2 ** min(failures // count, 10))
            await asyncio.sleep(pause_s * (0.5 + self._entropy.random()))

    async def _once(self) -> str:
        """One connection, from the attempt to its end. Returns why it has ended."""
        made = await connect(self._opened, *self._endpoints[self._at], self._tls, self._setting, self._answer_s)
        return made if isinstance(made, str) else await made.ended

    def _opened(self) -> StoreSocket:
        self._socket = StoreSocket(self._make, self._answer_s, self._silence_s, self._greeted)
        return self._socket

    def _greeted(self) -> None:
        log.info("connected to the store at %s", self.where)
        self._told.clear()
        self._change("")

    def _change(self, waits: str) -> None:
        if waits != self.waits:
            self.waits = waits
            self._on_change()

    def _tell(self, reason: str) -> None:
        """Log why there is no connection: at once when the reason is a new one, else from time to time."""
        now_s = asyncio.get_running_loop().time()
        if reason != self._told.get(self.where) or now_s - self._told_s >= LOG_INTERVAL_S:
            self._told[self.where], self._told_s = reason, now_s
            log.warning("waits for the store at %s: %s", self.where, reason)
