"""The share of the event loop that each connection gets: bytes are handled in slices, and in each turn for a limited time.

A connection with more bytes than one slice is not read on; its remaining slices wait in a queue. Hosts take turns, so that many
connections of one host do not delay another host, and a peer's answer never waits for all that another peer has sent
(docs/decisions/0023-turns-are-shared.md). What passed deadlines ask for waits in the same queue.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Protocol, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.turn import RECEIVED_NS

SLICE_NS: Final = 2 * MILLISECOND_NS
"""Time that one slice of a connection should take."""
LONG_NS: Final = 2 * SLICE_NS
"""Time of a slice after which its host gets no other one in the same turn, and in the SHORT_TURNS that follow."""
SHORT_TURNS: Final = 2
"""Turns between two long slices of a host. An answer takes its neighbours several turns: not all of them are to be long."""
SLICE_BYTES_MIN: Final = 1024
SLICE_BYTES_FIRST: Final = 1024
SLICE_BYTES_MAX: Final = 64 * 1024
WHOLE_TURN_NS: Final = 15 * MILLISECOND_NS
"""Time of one turn with all that its bytes cause: appends, deliveries, writes. Above it, turns handle fewer bytes."""
MESSAGE_NS: Final = 5_000
"""What a turn still does for a command, and for a message, when its bytes are handled: the append, the delivery, two writes."""
ENDING_NS: Final = 25_000
"""What a turn still does for a connection that ends: its last write, closing the socket, a timer."""
ASKED_NS: Final = 20 * MESSAGE_NS
"""Time of handling bytes, that of ten messages, in which the store is not asked again whether it takes more."""
LEAST_NS: Final = MILLISECOND_NS // 4
"""Least time in which a turn handles bytes."""
UNFINISHED_BYTES_MAX: Final = 1024 * 1024
"""Bytes of messages that may wait to be stored or delivered by the node; above it, connections that send are not read."""
HELD_BYTES_MAX: Final = 1024 * 1024
"""Bytes of first messages of one host that wait for the store; above it, no connection of the host is read."""
SPARED_MAX: Final = 32
"""Hosts that may send a slice each while there are more: those that have not sent what waits, so they do not wait for it."""


class SlicedConnection(Protocol):
    """A connection with work that is not done yet, received bytes or a passed deadline: a pump.

    sends   True: it has sent messages, and waits while the store has too many
    host    network of the peer (`domain.address.network_of_host`)
    """

    sends: bool
    host: str

    def take_slice(self) -> bool:
        """Do one slice of the work. True: more of it waits and may be done."""


@final
class HostQueue:
    """The connections of one host that wait for a slice.

    fresh     those that have not had one yet
    started   the others
    """

    __slots__ = ("fresh", "started")

    def __init__(self) -> None:
        self.fresh: deque[SlicedConnection] = deque()
        self.started: deque[SlicedConnection] = deque()


@final
class PumpIntake:
    """Does the work of all connections, in turns of limited length. Hosts take turns, and so do the connections of each.

    waited      number of times that a sending connection waited for the store
    _queues     host -> its connections that wait, in the order in which hosts get a slice
    _newcomers  the same of hosts that the last turn has not served: they go first
    _served     hosts that got a slice in the last turn
    _held       host -> bytes of the first messages of its connections that wait for the store
    _resting    host that had a long slice -> number of the turn in which it may have the next one
    _free_turns turns in which no bytes are handled, for the steps of a task
    _sending    connections that wait for the store
    _sender     the host that was the last to send while the store took messages: what it sent may have filled the store
    _spared     hosts that have sent a slice since then
    _used_ns    time of this turn that is used
    _served_ns  `_used_ns` when the slices of this turn were done; the rest is of bytes that were handled as they came
    """

    __slots__ = (
        "_asked_until_ns", "_began_ns", "_budget_ns", "_clock", "_free_turns", "_held", "_marked", "_newcomers", "_now",
        "_queues", "_resting", "_sender", "_sending", "_served", "_served_ns", "_spared", "_turn", "_unfinished_bytes",
        "_used_ns", "waited",
    )  # fmt: skip

    def __init__(self, clock: Clock, unfinished_bytes: Callable[[], int]) -> None:
        """`unfinished_bytes` is what was taken from clients and is not stored or delivered yet."""
        self._clock = clock
        self._now = clock.monotonic_ns
        self._unfinished_bytes = unfinished_bytes
        self._queues: OrderedDict[str, HostQueue] = OrderedDict()
        self._newcomers: OrderedDict[str, HostQueue] = OrderedDict()
        self._served: set[str] = set()
        self._held: dict[str, int] = {}
        self._resting: dict[str, int] = {}
        self._turn = 0
        self._free_turns = 0
        self._sending: deque[SlicedConnection] = deque()
        self._sender = ""
        self._spared: set[str] = set()
        self._budget_ns = RECEIVED_NS
        self._used_ns = 0
        self._served_ns = 0
        self._asked_until_ns = 0
        self._began_ns = 0
        self._marked = False
        self.waited = 0

    def open_for(self, host: str) -> bool:
        """True while this turn may handle more bytes of `host`."""
        return self._used_ns < self._budget_ns and not self._free_turns and not (self._resting and host in self._resting)

    def may_send(self, host: str) -> bool:
        """As `takes_from`. That the store takes messages is believed for the next ASKED_NS of handling bytes."""
        if self._used_ns >= self._asked_until_ns:
            if not self.takes_from(host):
                return False
            if not self._spared:
                self._asked_until_ns = self._used_ns + ASKED_NS
        else:
            self._sender = host
        return True

    def takes_from(self, host: str) -> bool:
        """True when `host` may send now, which it then does.

        When the store takes no more messages, a host that has sent nothing of what waits may send one slice: it does not wait
        until the messages of another host are stored.
        """
        if self.has_room():
            self._sender = host
            return True
        if host == self._sender or host in self._spared or len(self._spared) >= SPARED_MAX:
            return False
        self._spared.add(host)
        return True

    @property
    def crowded(self) -> bool:
        """True while the store had no room when it was asked last, and some hosts were let in all the same."""
        return len(self._spared) > 0

    def hold(self, host: str, size: int) -> None:
        """A first message of a connection of `host` waits for the store; `size` is its memory, above 0."""
        self._held[host] = self._held.get(host, 0) + size

    def give(self, host: str, size: int) -> None:
        """It does not wait any more."""
        left = self._held.get(host, 0) - size
        if left:
            self._held[host] = left
        else:
            self._held.pop(host, None)

    def holds(self, host: str) -> bool:
        """True when so much of `host` waits that none of its connections is read, whether it sends or not."""
        return len(self._held) > 0 and self._held.get(host, 0) > HELD_BYTES_MAX

    def has_room(self) -> bool:
        """True while the store takes more messages."""
        if self._unfinished_bytes() > UNFINISHED_BYTES_MAX:
            return False
        if self._spared:
            self._spared.clear()
        return True

    def used(self, took_ns: int, now_ns: int, host: str = "") -> None:
        """Work was done, which took or will take `took_ns` of this turn. `host`: for whom."""
        self._used_ns += took_ns
        if took_ns > LONG_NS and host:
            self._resting[host] = self._turn + SHORT_TURNS + 1
        if not self._marked and self._used_ns > LEAST_NS:
            # Turns with less are not measured: there, a callback more would be noticed.
            self._mark(now_ns - took_ns)

    def add(self, connection: SlicedConnection) -> None:
        """Do the work of `connection` slice by slice, when it is the turn of its host."""
        self._queue_of(connection).fresh.append(connection)
        if not self._marked:
            self._mark(self._now())

    def leave(self, turns: int) -> None:
        """Handle no bytes that are read in this turn, and none in the `turns` that follow.

        A task that begins now takes a turn for each of its steps. Turns without bytes take 20 to 50 us, others 6 ms.
        """
        self._free_turns = max(self._free_turns, turns)
        if turns and not self._marked:
            self._mark(self._now())

    def _queue_of(self, connection: SlicedConnection) -> HostQueue:
        host = connection.host
        queue = self._queues.get(host)
        if queue is None:
            queue = self._newcomers.get(host)
        if queue is None:
            queue = HostQueue()
            if host in self._served or host in self._resting:
                self._queues[host] = queue
            else:
                self._newcomers[host] = queue
        return queue

    def _mark(self, began_ns: int) -> None:
        self._marked = True
        self._began_ns = began_ns
        self._clock.call_at(began_ns, self._next_turn)

    def _next_turn(self) -> None:
        """Begin a turn: measure the one that has ended, and go on with what was left."""
        now = self._now()
        took = now - self._began_ns
        if took > WHOLE_TURN_NS:
            self._budget_ns = max(LEAST_NS, min(self._used_ns, self._budget_ns) * WHOLE_TURN_NS // took)
        elif self._budget_ns < RECEIVED_NS and not self._free_turns:
            self._budget_ns = min(RECEIVED_NS, self._budget_ns * 5 // 4)
        if self._free_turns:
            self._free_turns -= 1
            self._mark(now)
            return
        at_once_ns = self._used_ns - self._served_ns
        self._marked = False
        if self._sending and self.has_room():
            for connection in self._sending:
                self._queue_of(connection).fresh.append(connection)
            self._sending.clear()
            last = self._newcomers.pop(self._sender, None)
            if last is not None:
                self._queues[self._sender] = last
            elif self._sender in self._queues:
                self._queues.move_to_end(self._sender)
        # What was handled as it came belongs to the same turn of the loop as the slices that follow.
        self._used_ns = at_once_ns if self._queues or self._newcomers else 0
        self._asked_until_ns = 0
        self._serve()
        self._served_ns = self._used_ns
        if not self._marked and (self._queues or self._newcomers or self._sending or self._resting):
            self._marked = True
            self._began_ns = now
            waiting = not (self._queues or self._newcomers or self._resting)
            self._clock.call_at(now + MILLISECOND_NS if waiting else now, self._next_turn)

    def _serve(self) -> None:
        """Do slices until the turn's time is used: of each host for SLICE_NS, and of its new connections first.

        Hosts that the last turn has not served go first: who asks now and then waits for none of the slices of who always has
        one. After a slice that takes longer, however small it was, its host rests.
        """
        self._turn += 1
        if self._resting:
            self._resting = {host: until for host, until in self._resting.items() if until > self._turn}
        self._served.clear()
        queues = self._queues
        while self._used_ns < self._budget_ns:
            if self._newcomers:
                host, queue = self._newcomers.popitem(last=False)
                queues[host] = queue
            else:
                found = self._next_host()
                if found is None:
                    return
                host, queue = found, queues[found]
            self._served.add(host)
            self._serve_host(host, queue)
            if queue.fresh or queue.started:
                queues.move_to_end(host)
            else:
                del queues[host]

    def _next_host(self) -> str | None:
        """The first host that may have a slice, None when none may. "" is a host too: the node itself."""
        for host in self._queues:
            if host not in self._resting:
                return host
        return None

    def _serve_host(self, host: str, queue: HostQueue) -> None:
        """Do slices of one host for SLICE_NS."""
        until_ns = self._used_ns + SLICE_NS
        while (queue.fresh or queue.started) and self._used_ns < until_ns:
            connection = queue.fresh.popleft() if queue.fresh else queue.started.popleft()
            began_ns = self._used_ns
            if (connection.sends or self.holds(host)) and not self.may_send(host):
                self.waited += 1
                self._sending.append(connection)
            elif connection.take_slice():
                queue.started.append(connection)
            if self._used_ns - began_ns > LONG_NS:
                self._resting[host] = self._turn + SHORT_TURNS + 1
