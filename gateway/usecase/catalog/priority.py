"""Topics whose queues are priorities: which queue a message goes to, and in which order a group's receives look at them.

RocketMQ's SendMessageProcessor and PopMessageProcessor: the queue's number is the priority, and the highest is read first,
or the lowest (priorityOrderAsc); what comes again is read last (popFromRetryProbabilityForPriority).
"""

from __future__ import annotations

from typing import Final, final

from domain import property as properties
from domain.command import Receive
from domain.message import Message
from domain.priority import looking
from domain.topic import PRIORITY_FACTOR, Group, Topic
from gateway.usecase.catalog.policy import SHARES, NodePolicy

_STEP: Final = 61
"""Prime to 100: receives by priority are spread among the others, not bunched."""


def prioritize(topic: Topic, message: Message) -> None:
    """Put a message with a priority into the queue of that number, the last one for all above.

    What is delayed, ordered or half is not placed by priority: it loses it, as does one whose priority is no number.
    """
    stored = message.properties
    digits = properties.find(stored, properties.PRIORITY_START)
    if digits.isdigit() and properties.message_type(stored) == "PRIORITY":
        message.queue_id = min(int(digits[:10]), topic.write_queues - 1)
    else:
        message.properties = properties.without(stored, (properties.PRIORITY,))


@final
class PriorityReads:
    """Of a hundred receives, as many as `priority.factor` of the group says look at the queues by priority.

    Of those, as many look first at what comes again as the policy says; for the others that has the lowest priority.
    """

    def __init__(self, policy: NodePolicy) -> None:
        self._policy = policy
        self._turn = 0
        self._again = 0

    def queue_id(self, topic: Topic | None, group: Group, command: Receive) -> int:
        """The queue that `command` leases from, as MessageStore.lease has it."""
        if topic is None or topic.type != "PRIORITY" or command.ordered or command.queue_id >= 0:
            return command.queue_id
        factor = group.attributes.get(PRIORITY_FACTOR, "")
        if factor.isdigit() and int(factor) < SHARES:
            self._turn = (self._turn + _STEP) % SHARES
            if self._turn >= int(factor):
                return command.queue_id
        self._again = (self._again + _STEP) % SHARES
        return looking(not self._policy.priority_order_ascending, self._again < self._policy.priority_again_first_percent)
