"""The place of a stored message in responses to senders."""

from __future__ import annotations

from domain.delivery import recall
from domain.message import property as properties
from domain.message.message import Message, Placed


def due_of(message: Message) -> int:
    """The message's delivery time in epoch milliseconds; 0 when it has none."""
    found = properties.find(message.properties, properties.TIMER_DELIVER_MS_START)
    return int(found) if found else 0


def place(placed: Placed, due_ms: int) -> dict[str, object]:
    """`id`, `queue` and `offset`. A delayed message has no queue and offset yet, and has `deliverAt` and `recall` instead."""
    if due_ms:
        found: dict[str, object] = {"id": placed.message_id, "deliverAt": due_ms}
        if placed.recall_handle:
            # A repetition is answered as the first was: its delay has begun then.
            handle = recall.parse(placed.recall_handle)
            if handle is not None:
                found["deliverAt"] = handle.due_ms
            found["recall"] = placed.recall_handle
        return found
    return {"id": placed.message_id, "queue": placed.queue_id, "offset": placed.queue_offset}
