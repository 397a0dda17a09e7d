"""Which broken leases a killed master explains: what its successor does not know, by the source of Apache RocketMQ 5.5.0.

Positions of groups are not in the log that brokers replicate. A replica copies them every ten seconds or so, and begins at
what it has when it becomes the master (`SlaveSynchronize`): what was given since the last copy is given again at once. A
replica also clears its check points and positions in memory every five seconds, and once more up to five seconds after it has
become the master (`PopBufferMergeService.run`): what it has given by then is given again too. Each of these deliveries has a
check point of its own, and each that is not acknowledged comes again by itself, however often the others are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final

from tests.interop.rocketmq.failover.leases import BrokenLease, Handout
from tests.interop.rocketmq.failover.recovery import Kill

CLEARED_S: Final = 5.0
"""`interval * 200 * 5` ms: until then a new master may forget what it has given."""


def unexplained(
    leases: Iterable[BrokenLease], handouts: Iterable[Handout], group_of: Callable[[Hashable], str], kills: Sequence[Kill]
) -> list[BrokenLease]:
    """The broken leases that no killed master explains.

    One is explained when its message was given first by a master that was killed later, or by the next one before CLEARED_S,
    and when it was broken after that kill.

    handouts   all deliveries
    group_of   of a message: the broker group that has it
    """
    first: dict[Hashable, float] = {}
    for each in handouts:
        first[each.message] = min(first.get(each.message, each.asked_s), each.asked_s)

    def explained(lease: BrokenLease) -> bool:
        message = lease.one.message
        return any(
            kill.group == group_of(message)
            and first[message] <= kill.elected_s + CLEARED_S
            and lease.other.answered_s >= kill.killed_s
            for kill in kills
        )

    return [each for each in leases if not explained(each)]
