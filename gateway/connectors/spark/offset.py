"""Positions in queues, and the JSON documents that Spark stores in its checkpoint.

    {"v":1,"q":{"broker-a/orders":{"0":17,"1":4}}}

Numbers are the next offset to read, not the last one read. Keys are sorted, so equal positions have equal text: Spark compares
the text. Two more keys are for the start of a query, see docs/spark.md, "Where a query starts":

    "initial":true    the start of the query, from `initialOffset`; it is never in the checkpoint
    "from":{…}        in the end of the first batch: its start. The checkpoint has it, so that a start which moves
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
"""Queue -> next offset to read."""
Document = dict[str, object]
"""A position as a JSON object."""


def encode(position: Mapping[QueueRoute, int]) -> dict[str, dict[str, int]]:
    """Position -> the value of `q`."""
    out: dict[str, dict[str, int]] = {}
    for queue in sorted(position):
        out.setdefault(f"{queue.broker}/{queue.topic}", {})[str(queue.queue_id)] = position[queue]
    return out


def document(position: Mapping[QueueRoute, int]) -> Document:
    """A position -> its document."""
    return {"v": VERSION, "q": encode(position)}


def initial(position: Mapping[QueueRoute, int]) -> Document:
    """The document of a query's start."""
    return {"v": VERSION, "q": encode(position), "initial": True}


def first_end(position: Mapping[QueueRoute, int], start: Document) -> Document:
    """The document of the end of a query's first batch, with the batch's start."""
    return {"v": VERSION, "q": encode(position), "from": start["q"]}


def is_initial(found: Document) -> bool:
    """True for a document of `initial`."""
    return found.get("initial") is True


def read(found: Document) -> Position:
    """A document -> its position. Raises OptionError when it is malformed or of another version."""
    version = found.get("v")
    if version != VERSION:
        raise OptionError(
            f"The checkpoint holds offsets of version {version!r}, this connector writes and reads version {VERSION}: "
            "use the newer connector, or a new checkpoint."
        )
    return decode(found.get("q"))


def start_of(start: Document, end: Document) -> Position:
    """The start of the batch that ends at `end`; for the first batch, from `end`. Raises OptionError."""
    if is_initial(start) and "from" in end:
        return decode(end["from"])
    return read(start)


def decode(found: object) -> Position:
    """The value of `q` -> the position. Raises OptionError when it is malformed."""
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
    """The JSON of an option -> the position of every queue in `bounds`. Raises OptionError.

    `{"topic":{"0":17}}`, `{"broker/topic":{"0":17}}`, or a document from Spark's progress. -2 is the first offset, -1 the
    offset of the next message. Other queues start at their first offset, or end at the offset of their next message.
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
