"""Sends that wait until their topic is created, and are appended over several turns when it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, final

from domain.errors import Failure
from domain.message import Placed
from domain.ports import Clock
from domain.topic import Topic
from gateway.usecase.catalog.topics import Topics

TURN_BYTES: Final = 1024 * 1024
"""Bytes of sends, as they are counted, that one turn of the loop begins to append; the one that reaches it may be larger."""


class HeldSend(NamedTuple):
    """A send that waits.

    size    what it counts for, bytes
    append  checks and appends it
    done    gets the failure of the topic that cannot be created
    """

    size: int
    append: Callable[[], None]
    done: Callable[[list[Placed] | Failure], None] | None


@final
class HeldSends:
    """Keeps the order of each topic: what comes while sends of its topic wait, waits behind them.

    queues   topic -> its sends that wait
    bytes    bytes of all that wait
    _ready   topics that exist and whose sends wait for their turn
    _used    bytes of this turn
    _marked  True when the begin of the next turn will be told
    """

    def __init__(self, topics: Topics, clock: Clock) -> None:
        self.queues: dict[str, deque[HeldSend]] = {}
        self.bytes = 0
        self._topics = topics
        self._clock = clock
        self._ready: deque[str] = deque()
        self._used = 0
        self._marked = False

    def add(self, topic: str, queues: int, send: HeldSend) -> None:
        """Hold a send; `queues` as in `Topics.ensure`."""
        self.bytes += send.size
        waiting = self.queues.get(topic)
        if waiting is not None:
            waiting.append(send)
            return
        self.queues[topic] = deque([send])
        self._ensure(topic, queues)

    def _ensure(self, topic: str, queues: int) -> None:
        def made(result: Topic | Failure) -> None:
            if isinstance(result, Failure):
                for send in self.queues.pop(topic):
                    self.bytes -= send.size
                    if send.done is not None:
                        send.done(result)
            else:
                self._ready.append(topic)
                if self._used < TURN_BYTES:
                    self._append_some()

        self._topics.ensure(topic, made, queues)

    def _next_turn(self) -> None:
        self._marked = False
        self._used = 0
        if self._ready:
            self._append_some()

    def _append_some(self) -> None:
        """Append what the turn has room for: of each topic one send, by turns."""
        if not self._marked:
            self._marked = True
            self._clock.call_at(self._clock.monotonic_ns(), self._next_turn)
        while self._ready and self._used < TURN_BYTES:
            topic = self._ready.popleft()
            if self._topics.find(topic) is None:  # deleted again
                self._ensure(topic, 0)
                continue
            waiting = self.queues[topic]
            send = waiting.popleft()
            if waiting:
                self._ready.append(topic)
            else:
                del self.queues[topic]
            self.bytes -= send.size
            self._used += send.size
            send.append()
