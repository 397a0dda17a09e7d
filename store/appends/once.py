"""Appends that are carried out once for each key: `MessageLog.append_once`.

The key and the answer are a state record in the commit of the messages, so both are durable or neither is. They are forgotten
after a time, or when there are too many keys, the oldest first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.message.message import Message, Placed
from domain.message.once import OnceKey
from domain.ports import Clock
from domain.store.store_ports import StateChange
from store.appends import first_answer
from store.appends.append import Appender
from store.appends.first_answer import FirstAnswer
from store.appends.writer import StoreWriter
from store.events import StoreEvents
from store.log.open_batch import Done
from store.queue.index import QueueIndex
from store.settings import StoreSettings
from store.state.view import StateView
from store.steps import Turns

SPACE: Final = "@once"
FORGOTTEN_TOGETHER: Final = 256
"""Keys that one step of forgetting removes."""

Append = Callable[[Sequence[Message], Done | None, Sequence[StateChange], Callable[[Sequence[Placed]], None]], None]
"""An append whose last argument is called with the places as soon as they are known, before anything is written."""

_REUSED: Final = Failure(
    ErrorCode.KEY_REUSED, "this key was used for another request: take a new key for every request, and an old one to repeat it"
)
_UNKNOWN: Final = Failure(ErrorCode.FLUSH_TIMEOUT, "the first append with this key is stored, but not flushed yet: ask again")


@final
class Waiting:
    """An append with a key that has no answer yet: its digest, and the callbacks that wait for the answer."""

    __slots__ = ("calls", "digest")

    def __init__(self, digest: bytes) -> None:
        self.digest = digest
        self.calls: list[Done] = []


@final
class OnceAppends:
    """Appends with keys, and the keys of the last `once_window_ms`, at most `once_keys_max`.

    evicted    keys that were forgotten within their time, since there were too many
    repeated   appends that got the answer of an earlier one
    _order     (created ms, name) of the keys, oldest first; a key that was set again has an entry that is skipped
    """

    def __init__(
        self, append: Append, writer: StoreWriter, appender: Appender, state: StateView, index: QueueIndex, clock: Clock,
        config: StoreSettings, events: StoreEvents,
    ) -> None:  # fmt: skip
        self._append = append
        self._writer = writer
        self._appender = appender
        self._state = state
        self._index = index
        self._clock = clock
        self._config = config
        self._events = events
        self._turns = Turns(clock)
        self._waiting: dict[bytes, Waiting] = {}
        self._order: deque[tuple[int, bytes]] = deque()
        self.evicted = 0
        self.repeated = 0

    def load(self) -> None:
        """Find the keys that recovery has found in the log."""
        self._order = deque(sorted((first_answer.created_ms(value), name) for name, value in self._state.scan(SPACE, b"")))

    def append(self, key: OnceKey, messages: Sequence[Message], done: Done | None, changes: Sequence[StateChange] = ()) -> None:
        """MessageLog.append_once."""
        name = key.name
        known = self._known(name, messages)
        if known is not None:
            self.repeated += 1
            if done is not None:
                done(_REUSED if known.digest != key.digest else known.placed)
            return
        waiting = self._waiting.get(name)
        if waiting is not None:
            self.repeated += 1
            if done is None:
                return
            if waiting.digest == key.digest:
                waiting.calls.append(done)
            else:
                done(_REUSED)
            return
        if (SPACE, name) in self._appender.unapplied:
            if done is not None:
                done(_UNKNOWN)
            return
        self._first(key, name, messages, done, changes)

    def _first(
        self, key: OnceKey, name: bytes, messages: Sequence[Message], done: Done | None, changes: Sequence[StateChange]
    ) -> None:
        waiting = self._waiting[name] = Waiting(key.digest)
        if done is not None:
            waiting.calls.append(done)
        item = StateChange(SPACE, name, bytes(first_answer.size_max(key.digest, messages)))

        def placed(places: Sequence[Placed]) -> None:
            now_ms = self._clock.wall_ms()
            item.value = first_answer.encode(now_ms, key.digest, places)
            self._order.append((now_ms, name))

        def answered(result: list[Placed] | Failure) -> None:
            for call in self._waiting.pop(name).calls:
                self._events.run("the answer to an append", call, result)

        self._append(messages, answered, [item, *changes], placed)

    def _known(self, name: bytes, messages: Sequence[Message]) -> FirstAnswer | None:
        """First answer of a key whose time has not passed, and whose topic was not deleted since."""
        value = self._state.get(SPACE, name)
        if value is None or self._clock.wall_ms() - first_answer.created_ms(value) >= self._config.once_window_ms:
            return None
        known = first_answer.decode(value)
        entry = self._index.topics.get(messages[0].topic)
        if entry is not None and known.placed and known.placed[0].physical_offset < entry.epoch:
            return None
        return known

    def check(self) -> None:
        """Forget keys whose time has passed, and the oldest of too many. The store calls this every second."""
        if not self._turns.busy and self._due() and self._writer.refusal() is None:
            self._turns.run_unwatched(self._forget())

    def stop(self) -> None:
        """The store is closed."""
        self._turns.stop()

    @property
    def keys(self) -> int:
        """Keys that are known."""
        return self._state.size(SPACE)[0]

    def _due(self) -> bool:
        if not self._order:
            return False
        return len(self._order) > self._config.once_keys_max or self._is_old(self._order[0][0])

    def _is_old(self, created_ms: int) -> bool:
        return self._clock.wall_ms() - created_ms >= self._config.once_window_ms

    def _forget(self) -> Iterator[int]:
        while self._due() and self._writer.refusal() is None:
            gone: list[StateChange] = []
            while len(gone) < FORGOTTEN_TOGETHER and self._due():
                created_ms, name = self._order.popleft()
                value = self._state.get(SPACE, name)
                if value is None or first_answer.created_ms(value) != created_ms:
                    if (SPACE, name) in self._appender.unapplied:
                        self._order.append((created_ms, name))
                        break
                    continue
                self.evicted += not self._is_old(created_ms)
                gone.append(StateChange(SPACE, name, None))
            if gone:
                self._writer.append_changes(gone, None)
            yield 4 * len(gone) + 1
            if not gone:
                return
