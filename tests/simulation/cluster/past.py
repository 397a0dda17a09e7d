"""Messages from before the run: the cluster was off until they were old, and retention deletes them while there are faults.

Timers are among them, which are due during the faults: what retention deletes has to be written again before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from domain.errors import Failure
from domain.message.message import Message, Placed
from domain.message.record import Record
from domain.replication.ports import LeaderStore
from domain.store.store_ports import ReadResult
from domain.store.store_request import ReadRequest
from domain.topic.topic import Durability, Topic
from tests.simulation.cluster.load import DEV, TimerPoster

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster
    from tests.simulation.cluster.store_group import SimGroup
    from tests.simulation.cluster.store_node import StoreNode

OLD: Final = "old"
COUNT: Final = 64
BYTES: Final = 4_000
AT_ONCE: Final = 8
TIMERS: Final = 6
RETENTION_MS: Final = 180_000
"""Longer than the messages of a run are of use to anybody."""
OFF_MS: Final = RETENTION_MS - 1_000
APART_BYTES: Final = 50_000
"""How far apart the logs of a group may begin: a log that has begun anew has its segments, of 24,000 bytes, elsewhere."""
AGAIN_MS: Final = 50


def body(number: int) -> bytes:
    """The old message of this number."""
    return b"old %d " % number + b"." * BYTES


class OldTimerPoster(TimerPoster):
    """Sends timers that are due when retention deletes the part of the log in which they are."""

    later_ms = OFF_MS + 8_000, OFF_MS + 30_000

    def lost(self) -> None:
        """Connect again, unless all is sent: nobody is there for a long time."""
        if not self.done:
            super().lost()


class Past:
    """The old messages of all groups, and timers.

    timers   sends the timers
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # Who leads first after the night may be a replica whose clock is off: nobody has compared them yet.
        count = TIMERS if cluster.off is None else 0
        self.timers = OldTimerPoster(cluster, f"OldTimer-{cluster.seed}", DEV, count)

    def happen(self) -> None:
        """Write the messages, and turn everything off until they are old. All machines run again in the end."""
        self.timers.start()
        for group in self._cluster.groups:
            self._write(group)
        self._cluster.clock.run_until(lambda: self.timers.done, 20_000)
        for group in self._cluster.groups:
            group.checkers.has_past = True
        self._cluster.clock.run_for(1_000)
        for machine in self._cluster.machines:
            machine.end("is turned off for the night")
        self._cluster.clock.run_for(OFF_MS)
        self._cluster.start()

    def _write(self, group: SimGroup) -> None:
        clock = self._cluster.clock
        for first in range(0, COUNT, AT_ONCE):
            written: list[list[Placed] | Failure] = []
            while not written or isinstance(written[-1], Failure):
                leader = group.leader()
                assert leader is not None
                assert leader.store is not None
                store = leader.store.store
                if store.metadata.topic(OLD) is None:
                    topic = Topic(OLD, read_queues=1, write_queues=1, durability=Durability.REPLICATED_FLUSHED)
                    store.metadata.put_topic(topic, lambda failure: None)
                    clock.run_for(AGAIN_MS)
                    continue
                count = len(written)
                messages = [Message(OLD, body(number), b"", queue_id=0) for number in range(first, first + AT_ONCE)]
                store.log.append(messages, written.append)
                clock.run_until(lambda: len(written) > count, 10_000)  # noqa: B023 - it is called at once

    def waits_for(self) -> str:
        """What retention has not done yet; "": nothing. Old messages are in the newest segments of the past too, which stay."""
        for group in self._cluster.groups:
            first, end = bounds_of(group)
            if end != COUNT:
                return f"{COUNT} old messages of {group.name}, and not {end}"
            if first < COUNT // 2:
                return f"the deletion of old messages of {group.name}, which has {first} to {end}"
            firsts = sorted(each.first for each in group.stores)
            if firsts[-1] - firsts[0] > APART_BYTES:
                return f"logs of {group.name} that begin near each other: {firsts}"
        return ""


def bounds_of(group: SimGroup) -> tuple[int, int]:
    """Offsets of the first old message, and behind the last one, at the leader; (0, 0): it does not say."""
    found: list[tuple[int, int] | Failure] = []
    group.served.log.bounds(OLD, 0, found.append)
    return found[0] if found and isinstance(found[0], tuple) else (0, 0)


def shows_old(cluster: Cluster, node: StoreNode, store: LeaderStore, begin: int = 0) -> None:
    """A leader begins to serve: the old messages that it still has are what they were, up to the last one."""

    def read(result: ReadResult | Failure) -> None:
        if node.store is not store:
            return
        if isinstance(result, Failure):
            cluster.after(AGAIN_MS, lambda: shows_old(cluster, node, store, begin))
            return
        if begin < result.min_offset:
            shows_old(cluster, node, store, result.min_offset)
            return
        records = [Record(each) for each in result.records]
        found = [(each.queue_offset, bytes(each.body)) for each in records]
        if found != [(at, body(at)) for at in range(begin, begin + len(found))] or result.max_offset != COUNT:
            offsets = [at for at, _ in found]
            raise node.group.checkers.wrong(node, f"has old messages {offsets}, from {begin} to {result.max_offset} of {COUNT}")
        if found and begin + len(found) < COUNT:
            shows_old(cluster, node, store, begin + len(found))

    if node.group.checkers.has_past:
        store.store.log.read(ReadRequest(OLD, 0, begin, COUNT, 1 << 30), read)
