"""Sends that wait until their topic is created; when it is, few of them are appended at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, final

from domain.errors import Failure
from domain.message.message import Placed
from domain.topic.topic import Topic
from gateway.usecase.topics_and_groups.topics import Topics

Stored = Callable[[list[Placed] | Failure], None]
"""Gets the places of the messages of a send, or why they are not stored."""

APPENDING_BYTES_MAX: Final = 1024 * 1024
"""Bytes of sends, as they are counted, that are appended and not stored yet; the one that reaches it may be larger."""


class HeldSend(NamedTuple):
    """A send that waits.

    size    bytes counted for it
    append  checks and appends it; it calls its argument once
    done    gets the outcome; None: nobody waits for it
    """

    size: int
    append: Callable[[Stored], None]
    done: Stored | None


@final
class HeldSends:
    """Keeps the order of each topic: a send that comes while others of its topic wait, waits behind them.

    queues      topic -> its sends that wait
    bytes       bytes of all that wait
    _ready      topics that exist and whose sends wait for others to be stored
    _appending  bytes of sends that are appended and not stored yet
    _running    True while sends are appended: messages that are stored meanwhile begin no others
    """

    def __init__(self, topics: Topics, refusal: Callable[[], Failure | None] | None = None) -> None:
        """`refusal` returns why the store takes nothing now; None: what waits is never refused."""
        self.queues: dict[str, deque[HeldSend]] = {}
        self.bytes = 0
        self._refusal = refusal
        self._topics = topics
        self._ready: deque[str] = deque()
        self._appending = 0
        self._running = False

    def refusal(self) -> Failure | None:
        """Why the store takes nothing now; None: it does. A send that would wait behind others is refused then."""
        return None if self._refusal is None else self._refusal()

    def add(self, topic: str, queues: int, send: HeldSend) -> None:
        """Hold a send; `queues` as in `Topics.ensure`."""
        if isinstance(send.done, _Appending):  # it waits again, for another topic
            self._appending -= send.done.size
            send = send._replace(done=send.done.done)
        waiting = self.queues.get(topic)
        refusal = self.refusal() if waiting is not None or self.bytes > APPENDING_BYTES_MAX else None
        if refusal is not None:
            if send.done is not None:
                send.done(refusal)
            return
        self.bytes += send.size
        if waiting is not None:
            waiting.append(send)
            return
        self.queues[topic] = deque([send])
        self._ensure(topic, queues)

    def _ensure(self, topic: str, queues: int) -> None:
        def made(result: Topic | Failure) -> None:
            if not isinstance(result, Failure):
                self._ready.append(topic)
                self._append_some()
                return
            for send in self.queues.pop(topic):
                self.bytes -= send.size
                if send.done is not None:
                    send.done(result)

        self._topics.ensure(topic, made, queues)

    def stored(self, size: int) -> None:
        """A send of `size` bytes is stored or refused: others are appended."""
        self._appending -= size
        self._append_some()

    def _append_some(self) -> None:
        """Append sends as there is room: of each topic one, by turns."""
        if self._running:
            return
        self._running = True
        try:
            while self._ready and self._appending < APPENDING_BYTES_MAX:
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
                self._appending += send.size
                send.append(_Appending(self, send.size, send.done))
        finally:
            self._running = False


@final
class _Appending:
    """A send that is appended and not stored yet."""

    def __init__(self, held: HeldSends, size: int, done: Stored | None) -> None:
        self.size = size
        self.done = done
        self._held = held

    def __call__(self, result: list[Placed] | Failure) -> None:
        """It is stored, or why it is not."""
        try:
            if self.done is not None:
                self.done(result)
        finally:
            self._held.stored(self.size)
