"""Work of clients that shares the turns of the loop: each turn does so much of it, and hosts take turns."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

from domain.ports import Clock
from gateway.connection.client_connection import ClientConnection

Work = TypeVar("Work")


class HostTurns(Generic[Work]):
    """Queues of one kind of work, by the host of the client. Each piece of work belongs to a connection.

    A turn does pieces until they have used the share of this kind of work, and the one that exceeds it. A subclass says what a
    piece uses, in the unit of the share. Of each host one piece is done, then one of the next host.

    crowded   True: the next turn of the loop goes on with what waits
    _share    what one turn may use
    _used     what this turn has used
    _queues   network of a client (`domain.address.network_of_host`) -> its work, in the order in which hosts are served
    """

    __slots__ = ("_clock", "_queues", "_share", "_used", "_working", "crowded")

    def __init__(self, clock: Clock, share: int) -> None:
        self._clock = clock
        self._share = share
        self._used = 0
        self._queues: OrderedDict[str, deque[tuple[ClientConnection, Work]]] = OrderedDict()
        self._working = False
        self.crowded = False

    def do(self, connection: ClientConnection, work: Work) -> None:
        """Do one piece of work, and add the time or the bytes that it took to `_used`."""
        raise NotImplementedError

    def queue(self, host: str) -> deque[tuple[ClientConnection, Work]]:
        """The work of a host, in its order. A host without work is served after the others."""
        found = self._queues.get(host)
        if found is None:
            found = self._queues[host] = deque()
        return found

    def ask_for_turn(self) -> None:
        """Go on in the next turn of the loop, which has its whole share."""
        if not self.crowded:
            self.crowded = True
            self._clock.call_at(self._clock.monotonic_ns(), self.next_turn)

    def next_turn(self) -> None:
        """A turn begins."""
        self.crowded = False
        self._used = 0
        self.work()

    def work(self) -> None:
        """Do what waits until the share of this turn is used. A piece that raises ends alone."""
        if self._working:
            return
        self._working = True
        try:
            while self._queues and self._used < self._share:
                host, queue = self._queues.popitem(last=False)
                connection, work = queue.popleft()
                if queue:
                    self._queues[host] = queue
                self.do(connection, work)
        finally:
            self._working = False
            if self._queues:
                self.ask_for_turn()
