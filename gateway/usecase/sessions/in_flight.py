"""In-flight messages of a session, and their leases."""

from __future__ import annotations

from typing import Final, final

from domain.message.receipt import Receipt

HELD: Final = 0
SETTLED: Final = 1
RETURNED: Final = 2
DEAD_LETTERED: Final = 3

QueueKey = tuple[str, int]
"""(topic, queue id)."""
QUEUE_KEYS_MAX: Final = 4_096
"""Queues in QueueKeys; with more, all are dropped."""


@final
class QueueKeys:
    """One tuple for each queue: the dictionaries of sessions find it without a comparison of names."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[QueueKey, QueueKey] = {}

    def of(self, topic: str, queue_id: int) -> QueueKey:
        """The key of a queue."""
        key = (topic, queue_id)
        known = self._keys.get(key)
        if known is None:
            if len(self._keys) >= QUEUE_KEYS_MAX:
                self._keys.clear()
            known = self._keys[key] = key
        return known


@final
class DeliveryLease:
    """The lease of a consumer group on a message that is delivered to a member of a shared subscription.

    topic      topic of the receipt: the subscribed topic or the group's retry topic
    receipt    proof of the lease; a renewal replaces it
    attempt    number of this delivery, from 1
    renewing   True: a renewal is under way, and `receipt` is not valid until the store has answered
    outcome    HELD, SETTLED, RETURNED to the group after `delay_ms`, or DEAD_LETTERED
    delay_ms   time in milliseconds before a returned message is delivered again
    """

    __slots__ = ("attempt", "delay_ms", "group", "outcome", "receipt", "renewing", "topic")

    def __init__(self, group: str, topic: str, receipt: Receipt, attempt: int = 1) -> None:
        self.attempt = attempt
        self.delay_ms = 0
        self.group = group
        self.topic = topic
        self.receipt = receipt
        self.renewing = False
        self.outcome = HELD


@final
class InFlightMessage:
    """An unconfirmed delivery above AT_MOST_ONCE. It occupies one slot of the in-flight window.

    level        QoS of the delivery
    offset       queue offset of the record
    path         topic name of a retained message, which has no offset; "" for others
    retained     RETAIN flag of the delivery
    identifiers  Subscription Identifiers of the delivery
    size         bytes of the record that count towards WINDOW_BYTES_MAX; 0 while the client is disconnected
    accepted     True: the client has sent PUBREC, and the message must not be sent again
    lease        lease of a shared subscription; None: not shared, or settled
    number       of the delivery: they are sent again in this order, whatever their slots
    """

    __slots__ = ("accepted", "identifiers", "lease", "level", "number", "offset", "path", "queue", "retained", "size")

    def __init__(
        self,
        level: int,
        queue: QueueKey,
        offset: int,
        path: str,
        retained: bool,
        identifiers: tuple[int, ...],
        lease: DeliveryLease | None = None,
    ) -> None:
        self.lease = lease
        self.level = level
        self.number = 0
        self.queue = queue
        self.offset = offset
        self.path = path
        self.retained = retained
        self.identifiers = identifiers
        self.size = 0
        self.accepted = False
