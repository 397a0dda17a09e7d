"""In which order a receive looks at the queues of a topic whose queues are priorities, for MessageStore.lease.

All queues, and of each what is new and what comes again (given back, or its lease has ended): a message of one queue only when
those before it have none, and new ones of all queues before what comes again of any, or the other way round.
"""

from __future__ import annotations

from typing import Final

HIGHEST_QUEUE_FIRST: Final = -2
"""The queue with the highest number has the highest priority; what comes again has the lowest of all."""
_LOWEST: Final = 1
_AGAIN: Final = 2


def looking(lowest_first: bool, again_first: bool) -> int:
    """What stands in the place of a queue id. `lowest_first`: queue 0 has the highest priority."""
    return HIGHEST_QUEUE_FIRST - (_LOWEST if lowest_first else 0) - (_AGAIN if again_first else 0)


def by_priority(queue_id: int) -> bool:
    """Whether it is no queue, nor any (-1), but an order of queues."""
    return queue_id <= HIGHEST_QUEUE_FIRST


def lowest_first(queue_id: int) -> bool:
    """Of an order of queues, whether queue 0 comes first."""
    return (HIGHEST_QUEUE_FIRST - queue_id) & _LOWEST != 0


def again_first(queue_id: int) -> bool:
    """Of an order of queues, whether what comes again is before what is new."""
    return (HIGHEST_QUEUE_FIRST - queue_id) & _AGAIN != 0
