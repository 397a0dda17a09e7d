"""Idempotent appends: their first answers, by key, in the state beside the cluster.

A key is stored after the cluster has the messages. Thus a gateway that crashes between the two sends a repetition again, with
the same message ids; a repetition that another gateway receives is sent again too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, final

import orjson

from domain.errors import ErrorCode, Failure
from domain.limits import SECOND_NS
from domain.message.message import Placed
from domain.message.once import OnceKey
from domain.ports import Clock
from domain.store.store_ports import State, StateChange, StatePairs
from gateway.brokers.appends import Appended

SPACE: Final = "rocketmq_once"
TIMES: Final = "rocketmq_once_times"
"""Keys by age: time in milliseconds, 8 bytes, and the key's name."""
WINDOW_MS: Final = 3_600_000
"""Time for which a key is known."""
KEYS_MAX: Final = 100_000
"""Keys that are known at most; the oldest are forgotten first."""
PRUNE_NS: Final = 10 * SECOND_NS
PRUNED: Final = 1_000
"""Keys that are forgotten at a time."""

Append = Callable[[Appended], None]
"""Appends the messages; the function gets where they are."""


@final
class OnceKeys:
    """Answers of appends by their keys.

    _under_way  key -> (digest, callbacks that wait for the first append)
    """

    def __init__(self, state: State, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self._under_way: dict[bytes, tuple[bytes, list[Appended]]] = {}
        clock.call_at(clock.monotonic_ns() + PRUNE_NS, self._prune)

    def append(self, key: OnceKey, append: Append, done: Appended | None) -> None:
        """Call `append` unless the key is known; `done` gets the first answer, or KEY_REUSED."""
        answer = done or (lambda _: None)
        name = key.name
        waiting = self._under_way.get(name)
        if waiting is not None:
            if key.digest != waiting[0]:
                answer(_reused())
            else:
                waiting[1].append(answer)
            return
        self._under_way[name] = key.digest, [answer]
        self._state.get(SPACE, name, lambda value: self._found(key, append, value))

    def _found(self, key: OnceKey, append: Append, value: bytes | Failure | None) -> None:
        if isinstance(value, Failure):
            self._answer(key, value)
        elif value is None:
            self._append(key, append)
        else:
            known = orjson.loads(value)
            if known["digest"] != key.digest.hex():
                self._answer(key, _reused())
            else:
                self._answer(key, [Placed(*each) for each in known["placed"]])

    def _append(self, key: OnceKey, append: Append) -> None:
        append(partial(self._appended, key, self._clock.wall_ms()))

    def _appended(self, key: OnceKey, asked_ms: int, result: list[Placed] | Failure) -> None:
        """Keep the places of the messages before they are answered. `asked_ms`: when the append began."""
        if isinstance(result, Failure):
            self._answer(key, result)
            return
        rows = [
            (each.queue_id, each.queue_offset, each.physical_offset, each.store_ms, each.message_id, each.recall_handle)
            for each in result
        ]
        value = orjson.dumps({"digest": key.digest.hex(), "placed": rows})
        changes = [StateChange(SPACE, key.name, value), StateChange(TIMES, asked_ms.to_bytes(8, "big") + key.name, b"")]
        self._state.put(changes, lambda failure: self._answer(key, result if failure is None else failure))

    def _answer(self, key: OnceKey, result: list[Placed] | Failure) -> None:
        for each in self._under_way.pop(key.name)[1]:
            each(result)

    def _prune(self) -> None:
        self._clock.call_at(self._clock.monotonic_ns() + PRUNE_NS, self._prune)
        self._state.size(TIMES, self._sized)

    def _sized(self, size: tuple[int, int] | Failure) -> None:
        if isinstance(size, Failure) or not size[0]:
            return
        surplus = size[0] - KEYS_MAX

        def take(found: StatePairs | Failure) -> None:
            if isinstance(found, Failure):
                return
            oldest = self._clock.wall_ms() - WINDOW_MS
            old = [
                key for at, (key, _) in enumerate(found.pairs) if at < surplus or int.from_bytes(key[:8], "big") < oldest
            ]  # fmt: skip
            changes = [StateChange(TIMES, key, None) for key in old] + [StateChange(SPACE, key[8:], None) for key in old]
            if changes:
                self._state.put(changes, None)

        self._state.pairs(TIMES, b"", b"", PRUNED, take)


def _reused() -> Failure:
    return Failure(ErrorCode.KEY_REUSED, "this key was used for another request: take a new key for every request")
