"""One client connection as the use cases see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from domain.errors import Failure
from domain.event import Event
from domain.principal import Principal


class ConnectionDriver(Protocol):
    """What carries a session's answers out: a pump."""

    def answer(self, event: Event) -> None:
        """Give `event` to the connection and see to it that its bytes are written in this loop turn."""

    def close(self) -> None:
        """Close the connection after what is queued."""

    def throttle(self, until_ns: int) -> None:
        """Read nothing more of this connection before monotonic `until_ns`."""

    def revoke_access(self, failure: Failure) -> None:
        """Access has ended: say so in the protocol's words, and close."""


class ClosedDriver:
    """The shell of a session that has ended: nothing reaches anybody."""

    def answer(self, event: Event) -> None:
        """Nobody hears of it."""

    def close(self) -> None:
        """It is closed."""

    def throttle(self, until_ns: int) -> None:
        """Nothing is read any more."""

    def revoke_access(self, failure: Failure) -> None:
        """There is nobody to be told."""


CLOSED_DRIVER: Final = ClosedDriver()


class ClientConnection:
    """A connection, for as long as it is open.

    `principal` is who it belongs to once that is known, for commands that do not say it themselves.
    `seen` is in whose name it last asked for something, for whoever keeps a list of that.
    `shared`: it is that of all peers of a datagram port.
    `on_close` holds what use cases want undone when it ends (parked polls, watches, memberships), run once, in order.
    `stalled`: its peer does not read what has been written; what can wait should. `on_ease` is called when it reads again.
    Answers to a closed session are dropped: the work is done and stored, only nobody is there to hear of it.
    """

    __slots__ = (
        "client_id", "closed", "driver", "last_principal", "on_close", "on_writable", "principal", "protocol", "shared",
        "stalled",
    )  # fmt: skip

    def __init__(
        self, protocol: str, driver: ConnectionDriver, principal: Principal | None = None, shared: bool = False
    ) -> None:
        self.protocol = protocol
        self.driver: ConnectionDriver = driver
        self.principal = principal
        self.client_id = ""
        self.last_principal: Principal | None = None
        self.shared = shared
        self.closed = False
        self.stalled = False
        self.on_close: list[Callable[[], None]] = []
        self.on_writable: Callable[[], None] | None = None

    def answer(self, event: Event) -> None:
        """Answer a command of this session."""
        if not self.closed:
            self.driver.answer(event)

    def became_writable(self) -> None:
        """Its peer reads again."""
        self.stalled = False
        if self.on_writable is not None and not self.closed:
            self.on_writable()

    def end(self) -> None:
        """The connection is gone: undo what hangs on it."""
        if self.closed:
            return
        self.closed = True
        for undo in self.on_close:
            undo()
        self.on_close.clear()
        # The shell holds this session too: let go of each other, the memory of both is free at once, without the collector.
        self.on_writable = None
        self.driver = CLOSED_DRIVER
