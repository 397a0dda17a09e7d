"""Topics of type PRIORITY: the queue that a message goes to, and the order in which receives read the queues.

RocketMQ's SendMessageProcessor and PopMessageProcessor: the queue's number is the priority, and the highest is read first,
or the lowest (priorityOrderAsc); the retry topic is read last (popFromRetryProbabilityForPriority).
"""

from __future__ import annotations

from typing import Final, final

from domain.command import Receive
from domain.delivery.priority import looking
from domain.message import property as properties
from domain.message.message import Message
from domain.topic.topic import PRIORITY_FACTOR, Group, Topic
from gateway.usecase.topics_and_groups.policy import SHARES, NodePolicy

_STEP: Final = 61
"""Has no common divisor with 100, so that receives by priority are spread evenly among the others."""


def prioritize(topic: Topic, message: Message) -> None:
    """Put a message into the queue with the number of its priority, or into the last queue when that is lower.

    A message that is delayed, ordered or half, or whose priority is no number, loses the property and is placed as any other.
    """
    stored = message.properties
    digits = properties.find(stored, properties.PRIORITY_START)
    if digits.isdigit() and properties.message_type(stored) == "PRIORITY":
        message.queue_id = min(int(digits[:10]), topic.write_queues - 1)
    else:
        message.properties = properties.without(stored, (properties.PRIORITY,))


@final
class PriorityReads:
    """Decides for each receive whether it reads the queues by priority.

    Of a hundred receives, `priority.factor` of the group (an attribute; all when it is absent) read by priority. Of these,
    `priority_again_first_percent` of the policy read the group's retry topic first, and the others read it last.
    """

    def __init__(self, policy: NodePolicy) -> None:
        self._policy = policy
        self._turn = 0
        self._again = 0

    def queue_id(self, topic: Topic | None, group: Group, command: Receive) -> int:
        """The queue that `command` leases from, as a lease of the store names it: a queue, or an order of queues below 0."""
        if topic is None or topic.type != "PRIORITY" or command.ordered or command.queue_id >= 0:
            return command.queue_id
        factor = group.attributes.get(PRIORITY_FACTOR, "")
        if factor.isdigit() and int(factor) < SHARES:
            self._turn = (self._turn + _STEP) % SHARES
            if self._turn >= int(factor):
                return command.queue_id
        self._again = (self._again + _STEP) % SHARES
        return looking(not self._policy.priority_order_ascending, self._again < self._policy.priority_again_first_percent)
