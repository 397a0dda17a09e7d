"""Positions in queues, and their JSON: what Spark keeps in its checkpoint.

    {"v":1,"q":{"broker-a/orders":{"0":17,"1":4}}}

Numbers are the next offset to read, never the last one read. Keys are sorted, so equal positions are equal text, which is how
the engine compares them. Two more keys belong to the beginning of a query, see docs/spark.md, "Where a query starts":

    "initial":true    this is where the query starts; only `initialOffset` says so, it never reaches the checkpoint
    "from":{…}        in the end of the first batch: where that batch starts. The checkpoint has it, so that a start which moves
                      (`latest`, a timestamp) is the same after a crash before the first batch was committed
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from gateway.client.answer import QueueRoute
from gateway.connectors.spark.failure import OptionError

VERSION: Final = 1

Position = dict[QueueRoute, int]
"""Queue -> next offset."""
Document = dict[str, object]
"""A position as JSON."""


def encode(position: Mapping[QueueRoute, int]) -> dict[str, dict[str, int]]:
    """Position -> the value of `q`."""
    out: dict[str, dict[str, int]] = {}
    for queue in sorted(position):
        out.setdefault(f"{queue.broker}/{queue.topic}", {})[str(queue.queue_id)] = position[queue]
    return out


def document(position: Mapping[QueueRoute, int]) -> Document:
    """Position -> JSON document."""
    return {"v": VERSION, "q": encode(position)}


def initial(position: Mapping[QueueRoute, int]) -> Document:
    """Where a query starts."""
    return {"v": VERSION, "q": encode(position), "initial": True}


def first_end(position: Mapping[QueueRoute, int], start: Document) -> Document:
    """The end of a query's first batch, with its start."""
    return {"v": VERSION, "q": encode(position), "from": start["q"]}


def is_initial(found: Document) -> bool:
    """True for what `initial` made."""
    return found.get("initial") is True


def read(found: Document) -> Position:
    """JSON document of ours -> position. Raises OptionError when it is another version's, or no document at all."""
    version = found.get("v")
    if version != VERSION:
        raise OptionError(
            f"The checkpoint holds offsets of version {version!r}, this connector writes and reads version {VERSION}: "
            "use the newer connector, or a new checkpoint."
        )
    return decode(found.get("q"))


def start_of(start: Document, end: Document) -> Position:
    """Where the batch that ends at `end` starts: as the checkpoint has it when it is the first one."""
    if is_initial(start) and "from" in end:
        return decode(end["from"])
    return read(start)


def decode(found: object) -> Position:
    """The value of `q` -> position. Raises OptionError."""
    position: Position = {}
    if not isinstance(found, dict):
        raise OptionError(f"Offsets are an object of objects, not {found!r}.")
    for place, queues in found.items():
        broker, slash, topic = str(place).rpartition("/")
        if not slash:
            raise OptionError(f"Offsets name queues as broker/topic, not {place!r}.")
        position.update(_numbers(queues, broker, topic))
    return position


def resolve(option: str, text: str, bounds: Mapping[QueueRoute, tuple[int, int]]) -> Position:
    """JSON that a person wrote -> a position of every queue in `bounds`. Raises OptionError.

    `{"topic":{"0":17}}`, `{"broker/topic":{"0":17}}`, or a whole document as Spark's progress shows it. -2 is the first offset,
    -1 the next one to be written. Queues that are not named start (or end) at their first (or next) offset.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise OptionError(f"Option {option!r} is no JSON: {error}") from error
    if isinstance(found, dict) and "q" in found and "v" in found:
        read(found)
        found = found["q"]
    if not isinstance(found, dict):
        raise OptionError(f"Option {option!r} is an object such as " + '{"orders":{"0":17}}' + ".")
    side = 0 if option.startswith("starting") else 1
    position = {queue: edges[side] for queue, edges in bounds.items()}
    for place, queues in found.items():
        broker, _, topic = str(place).rpartition("/")
        for wanted, offset in _numbers(queues, broker, topic).items():
            mine = [q for q in bounds if q.topic == topic and q.queue_id == wanted.queue_id and broker in ("", q.broker)]
            if not mine:
                raise OptionError(f"Option {option!r} names queue {wanted.queue_id} of {place!r}; the query does not read it.")
            for queue in mine:
                position[queue] = {-2: bounds[queue][0], -1: bounds[queue][1]}.get(offset, offset)
    return position


def _numbers(queues: object, broker: str, topic: str) -> Position:
    if not isinstance(queues, dict):
        raise OptionError(f"Offsets of {topic!r} are an object of queue numbers, not {queues!r}.")
    out: Position = {}
    for number, offset in queues.items():
        if not str(number).isdigit() or not isinstance(offset, int) or isinstance(offset, bool) or offset < -2:
            raise OptionError(f"Offset {offset!r} of queue {number!r} of {topic!r} is none: both are whole numbers.")
        out[QueueRoute(broker, topic, int(number))] = offset
    return out
