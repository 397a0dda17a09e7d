"""Messages that are stored once: by the id or the event that the topic's attribute names, or by a key of the client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from domain.address import is_derived_topic
from domain.errors import Failure
from domain.message import property as properties
from domain.message.message import SYS_PREPARED, Message, Placed
from domain.message.once import KEY_BYTES_MAX, OnceKey, digest
from domain.store.store_ports import MessageLog, StateChange
from domain.topic import attribute
from domain.topic.topic import Topic

Done = Callable[[list[Placed] | Failure], None]
Item = tuple[Message, OnceKey | None, StateChange | None]
"""A message, its key, and the change of state that goes with it alone."""

_SOURCE: Final = properties.start_of(properties.CE_SOURCE)
_ID: Final = properties.start_of(properties.CE_ID)
_OF_DEAD_LETTER: Final = properties.start_of(properties.HG_DLQ_GROUP)


def client_key(user: str, topic: str, key: bytes, of: bytes) -> OnceKey:
    """A key that a client has set for a message or request. `of`: digest of the request or message."""
    return OnceKey(f"client {user} {topic}", key, of)


def key_of(topic: Topic, message: Message, user: str) -> OnceKey | None:
    """The key under which `message` is stored once, None for a message that is stored whenever it comes.

    A property `idempotency-key` goes before the topic's attribute. Half messages have none: their transaction decides. Copies
    have none: the same message is given back, or becomes a dead letter, as often as it has to, and others with it have its key.
    """
    stored = message.properties
    if message.sys_flag & SYS_PREPARED or is_derived_topic(topic.name) or properties.has(stored, _OF_DEAD_LETTER):
        return None
    if properties.has(stored, properties.IDEMPOTENCY_KEY_START):
        key = properties.find(stored, properties.IDEMPOTENCY_KEY_START)
        if 0 < len(key) <= KEY_BYTES_MAX:
            return client_key(user, topic.name, key, digest(message.body))
    by = topic.attributes.get(attribute.DEDUPLICATION)
    if by == attribute.BY_ID:
        name = message.message_id.encode() or properties.find(stored, properties.UNIQ_KEY_START)
        return _bounded("id", topic, name)
    if by == attribute.BY_EVENT:
        source, event_id = properties.find(stored, _SOURCE), properties.find(stored, _ID)
        return _bounded("event", topic, source + b"\x00" + event_id) if source and event_id else None
    return None


def _bounded(kind: str, topic: Topic, name: bytes) -> OnceKey | None:
    if not name:
        return None
    return OnceKey(f"{kind} {topic.name}", name if len(name) <= KEY_BYTES_MAX else digest(name))


def append_each(log: MessageLog, items: Sequence[Item], done: Done | None, changes: Sequence[StateChange]) -> None:
    """Append messages with keys and without, in order and all in this turn. `changes` are appended whatever the keys are.

    `done` gets the places in order when all are stored, or the first Failure when all are answered: other messages are stored.
    """
    runs = _runs(items)
    results: list[list[Placed] | Failure | None] = [None] * (len(runs) + 1)
    left = len(results)

    def answer(at: int) -> Done:
        def answered(result: list[Placed] | Failure) -> None:
            nonlocal left
            results[at] = result
            left -= 1
            if not left and done is not None:
                done(_joined(results))

        return answered

    if changes:
        log.append((), answer(0), changes)
    else:
        answer(0)([])
    for at, run in enumerate(runs, 1):
        messages = [message for message, _, _ in run]
        key = run[0][1]
        own = [change for _, _, change in run if change is not None]
        if key is None:
            log.append(messages, answer(at), own)
        else:
            log.append_once(key, messages, answer(at), own)


def _runs(items: Sequence[Item]) -> list[list[Item]]:
    """The items in order: each with a key alone, those without one together as far as they follow each other."""
    runs: list[list[Item]] = []
    for item in items:
        if item[1] is None and runs and runs[-1][0][1] is None:
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs


def _joined(results: Sequence[list[Placed] | Failure | None]) -> list[Placed] | Failure:
    places: list[Placed] = []
    for result in results:
        if isinstance(result, Failure):
            return result
        places += result or ()
    return places
