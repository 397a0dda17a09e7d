"""Positions in queues, and the JSON documents that Spark stores in its checkpoint.

    {"v":2,"q":{"broker-a/orders":{"0":17,"1":4}},"e":{"broker-a/orders":1795328262147}}

Numbers in `q` are the next offset to read, not the last one read. `e` has the epoch that these offsets belong to: one number
for a topic on a Headgate node; for other brokers an object with a pair for each queue (gateway.client.answer.Epoch). Keys are
sorted, so equal positions have equal text: Spark compares the text. Two more keys say where queues start, see docs/spark.md,
"Where a query starts":

    "initial":true    the start of the query, from `initialOffset`; it is never in the checkpoint
    "from":{…}        in the end of a batch: the starts of queues whose start is not in the end of the batch before. In the
                      first batch these are all queues; later, new queues, and queues that lost messages

Version 1 has no `e`, and `from` only in the first batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from gateway.client.answer import Edges, Epoch, QueueRoute, is_remade
from gateway.connectors.spark.failure import OptionError, TopicRemadeError

VERSION: Final = 2
_READABLE: Final = (1, 2)

Position = dict[QueueRoute, int]
"""Queue -> next offset to read."""
Epochs = dict[QueueRoute, Epoch]
"""Queue -> epoch of its topic."""
Document = dict[str, object]
"""A position as a JSON object."""


def encode(position: Mapping[QueueRoute, int]) -> dict[str, dict[str, int]]:
    """Position -> the value of `q`."""
    out: dict[str, dict[str, int]] = {}
    for queue in sorted(position):
        out.setdefault(f"{queue.broker}/{queue.topic}", {})[str(queue.queue_id)] = position[queue]
    return out


def document(position: Mapping[QueueRoute, int], epochs: Mapping[QueueRoute, Epoch]) -> Document:
    """A position and the epochs of its offsets -> the document that Spark stores."""
    return {"v": VERSION, "q": encode(position), "e": _encode_epochs(position, epochs)}


def initial(position: Mapping[QueueRoute, int], epochs: Mapping[QueueRoute, Epoch]) -> Document:
    """The document of a query's start."""
    return document(position, epochs) | {"initial": True}


def end_of_batch(
    position: Mapping[QueueRoute, int], epochs: Mapping[QueueRoute, Epoch], fresh: Mapping[QueueRoute, int]
) -> Document:
    """The document of the end of a batch. `fresh`: the starts that the end of the batch before does not have."""
    out = document(position, epochs)
    return out | {"from": encode(fresh)} if fresh else out


def is_initial(found: Document) -> bool:
    """True for a document of `initial`."""
    return found.get("initial") is True


def read(found: Document) -> Position:
    """A document -> its position. Raises OptionError when it is malformed or of another version."""
    version = found.get("v")
    if version not in _READABLE:
        raise OptionError(
            f"The checkpoint holds offsets of version {version!r}, this connector reads versions up to {VERSION}: "
            "use the newer connector, or a new checkpoint."
        )
    return decode(found.get("q"))


def epochs_of(found: Document) -> Epochs:
    """A document -> the epochs of its queues; queues whose epoch is not known are left out. Raises OptionError."""
    given = found.get("e", {})
    out: Epochs = {}
    if not isinstance(given, dict):
        raise OptionError(f"Epochs are an object, not {given!r}.")
    for queue in read(found):
        epoch = given.get(f"{queue.broker}/{queue.topic}")
        if isinstance(epoch, int):
            out[queue] = epoch
        elif isinstance(epoch, dict) and str(queue.queue_id) in epoch:
            pair = epoch[str(queue.queue_id)]
            if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(number, int) for number in pair):
                raise OptionError(f"The epoch of {queue.topic!r} is a number or pairs of numbers, not {epoch!r}.")
            out[queue] = (pair[0], pair[1])
    return out


def start_of(start: Document, end: Document) -> Position:
    """The start of the batch that ends at `end`: of the queues in `from` there, of others in `start`. Raises OptionError."""
    fresh = decode(end.get("from", {}))
    if fresh and is_initial(start):
        return fresh
    return read(start) | fresh


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


def resolve(option: str, text: str, bounds: Mapping[QueueRoute, Edges]) -> Position:
    """The JSON of an option -> the position of every queue in `bounds`. Raises OptionError, TopicRemadeError.

    `{"topic":{"0":17}}`, `{"broker/topic":{"0":17}}`, or a document from Spark's progress. -2 is the first offset, -1 the
    offset of the next message. Other queues start at their first offset, or end at the offset of their next message.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise OptionError(f"Option {option!r} is no JSON: {error}") from error
    if isinstance(found, dict) and "q" in found and "v" in found:
        for queue, epoch in epochs_of(found).items():
            if queue in bounds and is_remade(epoch, bounds[queue].epoch):
                raise TopicRemadeError(queue, read(found)[queue])
        found = found["q"]
    if not isinstance(found, dict):
        raise OptionError(f"Option {option!r} is an object such as " + '{"orders":{"0":17}}' + ".")
    begins = option.startswith("starting")
    position = {queue: edges.first if begins else edges.after for queue, edges in bounds.items()}
    for place, queues in found.items():
        broker, _, topic = str(place).rpartition("/")
        for wanted, offset in _numbers(queues, broker, topic).items():
            mine = [q for q in bounds if q.topic == topic and q.queue_id == wanted.queue_id and broker in ("", q.broker)]
            if not mine:
                raise OptionError(f"Option {option!r} names queue {wanted.queue_id} of {place!r}; the query does not read it.")
            for queue in mine:
                position[queue] = {-2: bounds[queue].first, -1: bounds[queue].after}.get(offset, offset)
    return position


def _encode_epochs(position: Mapping[QueueRoute, int], epochs: Mapping[QueueRoute, Epoch]) -> dict[str, object]:
    out: dict[str, object] = {}
    for queue in sorted(position):
        epoch = epochs.get(queue)
        place = f"{queue.broker}/{queue.topic}"
        if isinstance(epoch, int):
            out[place] = epoch
        elif epoch is not None:
            pairs = out.setdefault(place, {})
            if isinstance(pairs, dict):
                pairs[str(queue.queue_id)] = list(epoch)
    return out


def _numbers(queues: object, broker: str, topic: str) -> Position:
    if not isinstance(queues, dict):
        raise OptionError(f"Offsets of {topic!r} are an object of queue numbers, not {queues!r}.")
    out: Position = {}
    for number, offset in queues.items():
        if not str(number).isdigit() or not isinstance(offset, int) or isinstance(offset, bool) or offset < -2:
            raise OptionError(f"Offset {offset!r} of queue {number!r} of {topic!r} is none: both are whole numbers.")
        out[QueueRoute(broker, topic, int(number))] = offset
    return out
