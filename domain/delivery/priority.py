"""The order in which a receive reads the queues of a PRIORITY topic, as a number in place of a queue id (LeaseRequest).

Each queue has new messages and redeliveries (nacked, or the lease has ended). Messages of a queue are leased only when the
queues of higher priority have none. Redeliveries of all queues are read after, or before, the new messages of all queues.
"""

from __future__ import annotations

from typing import Final

HIGHEST_QUEUE_FIRST: Final = -2
"""The queue with the highest number has the highest priority; redeliveries come last."""
_LOWEST: Final = 1
_AGAIN: Final = 2


def looking(lowest_first: bool, again_first: bool) -> int:
    """The number for an order of queues.

    lowest_first   True: queue 0 has the highest priority; False: the queue with the highest number
    again_first    True: redeliveries come before new messages; False: behind them
    """
    return HIGHEST_QUEUE_FIRST - (_LOWEST if lowest_first else 0) - (_AGAIN if again_first else 0)


def by_priority(queue_id: int) -> bool:
    """True when the number is an order of queues, neither a queue id nor -1 (any queue)."""
    return queue_id <= HIGHEST_QUEUE_FIRST


def lowest_first(queue_id: int) -> bool:
    """True when an order of queues begins with queue 0, which then has the highest priority."""
    return (HIGHEST_QUEUE_FIRST - queue_id) & _LOWEST != 0


def again_first(queue_id: int) -> bool:
    """True when an order of queues looks at redeliveries before new messages."""
    return (HIGHEST_QUEUE_FIRST - queue_id) & _AGAIN != 0
