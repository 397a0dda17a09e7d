"""Role behind the ports of a process: a store, the connection to the store of another process, or a name server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from domain.errors import Failure
from domain.store.backup import Backups
from gateway.access.authority import Access
from gateway.connection.client_connection import ClientConnection
from gateway.node.client_side import ClientPlace, ClientSide
from gateway.node.composition import StoreSide
from gateway.node.roles.local_store import LocalStore
from gateway.observe.metrics import Snapshot

EndClients = Callable[[str, Sequence[ClientConnection]], None]
"""Ends connections of clients, each in the words of its protocol. The first argument is the reason."""

OpenPort = Callable[[str, int], int]
"""(name of a listener, port or 0 for any) -> the port, which is served as the listener's. Raises ConfigError: it is taken."""

MakeStoreSide = Callable[[LocalStore, ClientPlace], Awaitable[StoreSide]]
"""(data directory, environment of the side of clients) -> the store that the use cases work over."""

ServeReaders = Callable[[ClientSide | None], None]
"""Serves readers with a side from now on; None: serves none."""


class Role(Protocol):
    """Made before the ports are bound, and opened when they are. `abandon` ends it whenever the start fails.

    The methods after `abandon`, `begin`, `pause` and `refuse_waiting` do nothing in a role that has nothing to do there.

    folder   where certificates are, and all that the role stores
    """

    folder: Path

    @property
    def client_side(self) -> ClientSide:
        """What serves clients; once opened."""

    @property
    def backups(self) -> Backups | None:
        """Backups of what this role stores; None when there are none. Once opened."""
        return None

    async def open(self, ports: Mapping[str, int], host: str) -> None:
        """Make the parts, and wait until clients can be served. `ports` are bound; `host` is what routes carry.

        Raises ConfigError and StoreError.
        """

    def begin(self, now_ns: int, end_clients: EndClients, open_port: OpenPort) -> None:
        """The node serves clients from now on."""
        return

    def unfinished_bytes(self) -> int:
        """Bytes that were taken from clients, and that are not stored or delivered yet."""

    def fill(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what this role adds."""

    def lines(self) -> list[tuple[str, str]]:
        """(what, how it is) for the table that is printed at the start."""

    def pause(self) -> None:
        """The node stops: start no further work that no client asks for."""
        return

    async def settled(self) -> None:
        """Wait, for a bounded time, until what clients have sent so far is answered."""

    def refuse_waiting(self, failure: Failure) -> None:
        """Answer the calls that wait for messages."""
        return

    async def close(self) -> None:
        """All clients are gone: end, within a bounded time."""

    def abandon(self) -> None:
        """The start has failed: free what was taken."""

    def store_maker(self) -> MakeStoreSide | None:
        """The function that makes the store of the role `store` in this process; None: that role opens its own store."""
        return None

    def serve_readers(self, serve: ServeReaders) -> None:
        """Call `serve` whenever this role begins or ends to serve readers: their port is bound."""
        return

    def accesses(self) -> Sequence[Access]:
        """Users who may use the admin port until the node serves; empty: access is not controlled."""
        return ()

    def standby_snapshot(self, parts: Sequence[Role]) -> Snapshot:
        """The figures of the metrics page until the node serves, with what `parts` add."""
        return Snapshot()

    def other_replicas(self) -> Sequence[int] | None:
        """Ids of the other replicas in the store group that this role leads; None: it leads none."""
        return None

    async def hand_over(self) -> None:
        """Have another replica lead before this node stops, within a bounded time."""
        return
