"""What clients were told, beside what is stored in the end: pure checks that name what cannot be.

Each message has a body of its own and is sent once, so it may be stored once; one whose sending was acknowledged has to be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tests.interop.rocketmq.failover.leases import Handout, broken, given_twice


class Sent(NamedTuple):
    """A message that was sent.

    key       ordering key; "": none
    number    of the message among those of its key, ascending
    place     (queue, offset) of the answer; None: the protocol does not tell it, or there was no success
    success   True: it was acknowledged
    """

    body: str
    key: str
    number: int
    place: tuple[int, int] | None
    success: bool


class Stored(NamedTuple):
    """A message that a queue has in the end."""

    queue: int
    offset: int
    body: str


class Bounds(NamedTuple):
    """Of a queue: its first offset, and the one behind its last message."""

    first: int
    end: int


def faults(sent: Sequence[Sent], stored: Sequence[Stored], bounds: Mapping[int, Bounds]) -> list[str]:
    """What is wrong with the messages, a sentence each; [] when nothing is."""
    return [*_places(sent, stored), *_offsets(stored, bounds), *_order(sent, stored)]


def _places(sent: Sequence[Sent], stored: Sequence[Stored]) -> Iterable[str]:
    """Each acknowledged message is there once, where its sender was told; all others at most once; nothing else is."""
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for each in stored:
        places[each.body].append((each.queue, each.offset))
    bodies = {each.body for each in sent}
    for message in sent:
        found = places.get(message.body, [])
        if message.success and not found:
            yield f"{message.body!r} was acknowledged and is lost"
        if len(found) > 1:
            yield f"{message.body!r} is stored {len(found)} times, at {found}"
        if message.success and message.place is not None and found and message.place not in found:
            yield f"{message.body!r} was acknowledged at {message.place} and is at {found}"
    told: dict[tuple[int, int], str] = {}
    for message in sent:
        if message.place is not None and told.setdefault(message.place, message.body) != message.body:
            yield f"{message.body!r} and {told[message.place]!r} were acknowledged at one place, {message.place}"
    for body in places.keys() - bodies:
        yield f"{body!r} is stored and was never sent"


def _offsets(stored: Sequence[Stored], bounds: Mapping[int, Bounds]) -> Iterable[str]:
    """Offsets are dense and unique within the bounds of their queue."""
    offsets: dict[int, list[int]] = defaultdict(list)
    for each in stored:
        offsets[each.queue].append(each.offset)
    for queue, (first, end) in bounds.items():
        if offsets[queue] != list(range(first, end)):
            yield f"queue {queue} reaches from {first} to {end} and has the offsets {_brief(offsets[queue])}"


def _order(sent: Sequence[Sent], stored: Sequence[Stored]) -> Iterable[str]:
    """Messages of one key are in one queue, in the order in which they were sent one after the other."""
    keys = {each.body: (each.key, each.number) for each in sent if each.key}
    last: dict[str, tuple[int, int]] = {}
    for each in sorted(stored, key=lambda message: (message.queue, message.offset)):
        key, number = keys.get(each.body, ("", 0))
        if not key:
            continue
        queue, before = last.get(key, (each.queue, -1))
        if queue != each.queue:
            yield f"messages of key {key!r} are in queues {queue} and {each.queue}"
        elif number < before:
            yield f"message {number} of key {key!r} stands behind message {before}"
        last[key] = (each.queue, max(number, before))


def lease_faults(handouts: Sequence[Handout]) -> list[str]:
    """Leases that were certainly broken: given again before their end, or after their acknowledgement, or to two receives."""
    early: list[str] = []
    for each in broken(handouts):
        when = "after its acknowledgement" if each.was_settled() else f"{each.early_s:.3f} s too early"
        early.append(f"{each.one.message} came again {when}: {each.one} and {each.other}")
    return early + [f"one lease was given to two receives: {one} and {other}" for one, other in given_twice(handouts)]


def body_faults(sent: Sequence[Sent], handouts: Mapping[str, Sequence[str]], must: bool) -> list[str]:
    """Consumer group -> bodies that it was given. `must`: the group has had the time to get everything."""
    bodies, acknowledged = {each.body for each in sent}, {each.body for each in sent if each.success}
    found: list[str] = []
    for group, given in handouts.items():
        found += [f"group {group} got {body!r}, which was never sent" for body in set(given) - bodies]
        if must:
            found += [f"group {group} never got {body!r}, which was acknowledged" for body in acknowledged - set(given)]
    return found


def _brief(offsets: Sequence[int]) -> str:
    text = str(list(offsets))
    return text if len(text) <= 400 else f"{text[:200]} … {text[-200:]}"
