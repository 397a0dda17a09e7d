"""The receipt of one lease, in exactly Apache RocketMQ's form, so that any gateway can settle what another one delivered.

    startOffset popTime invisibleTime reviveQueueId retryFlag brokerName queueId queueOffset [commitLogOffset]

(group, queue, queue offset, pop time) identifies a lease: the pop time rises strictly per (group, queue).
"""

from __future__ import annotations

from typing import Final, final

RETRY_NONE: Final = 0
RETRY_V1: Final = 1
RETRY_V2: Final = 2
ORDERED_REVIVE_QUEUE: Final = 999


@final
class Receipt:
    """One lease.

    start_offset     first offset of the receive that leased it
    pop_ms           time of the lease, epoch milliseconds
    invisible_ms     length of the lease
    revive_queue     queue of RocketMQ's revive topic; ORDERED_REVIVE_QUEUE for ordered leases
    retry            RETRY_NONE: the message is of the topic; RETRY_V1, RETRY_V2: of the group's retry topic
    broker           name of the broker that leased it
    physical_offset  byte offset in the log, -1: unknown
    """

    __slots__ = (
        "broker", "invisible_ms", "physical_offset", "pop_ms", "queue_id", "queue_offset", "retry", "revive_queue",
        "start_offset",
    )  # fmt: skip

    def __init__(
        self,
        start_offset: int,
        pop_ms: int,
        invisible_ms: int,
        revive_queue: int,
        retry: int,
        broker: str,
        queue_id: int,
        queue_offset: int,
        physical_offset: int = -1,
    ) -> None:
        self.start_offset = start_offset
        self.pop_ms = pop_ms
        self.invisible_ms = invisible_ms
        self.revive_queue = revive_queue
        self.retry = retry
        self.broker = broker
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.physical_offset = physical_offset

    def text(self) -> str:
        """The wire form: 8 fields, 9 when the physical offset is known."""
        head = (
            f"{self.start_offset} {self.pop_ms} {self.invisible_ms} {self.revive_queue} {self.retry} {self.broker}"
            f" {self.queue_id} {self.queue_offset}"
        )
        return head if self.physical_offset < 0 else f"{head} {self.physical_offset}"


def parse(text: str) -> Receipt | None:
    """Wire form -> Receipt, None for anything but 8 or 9 fields with decimal numbers of at most 19 digits."""
    parts = text.split(" ")
    if len(parts) not in (8, 9):
        return None
    numbers: list[int] = []
    for at, part in enumerate(parts):
        if at == 5:
            continue
        digits = part.removeprefix("-")
        if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
            return None
        numbers.append(int(part))
    return Receipt(
        numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], parts[5], numbers[5], numbers[6],
        numbers[7] if len(numbers) > 7 else -1,
    )  # fmt: skip
