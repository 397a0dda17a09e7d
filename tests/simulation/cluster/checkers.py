"""What must be true of every history of a cluster, checked as it happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from domain.controller.group import SetMember, StoreGroup
from domain.controller.health import Fitness
from domain.errors import ErrorCode, Failure
from domain.message.record import Record
from domain.replication.ports import LeaderStore
from domain.store.store_ports import ReadResult
from domain.store.store_request import ReadRequest
from store.log import batch
from tests.simulation.cluster.load import LEVELS, QUEUES, QUICK
from tests.simulation.cluster.machine import DRIFT_MS
from tests.simulation.cluster.past import shows_old
from tests.simulation.kit.bugs import HistoryError

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster
    from tests.simulation.cluster.store_group import SimGroup
    from tests.simulation.cluster.store_node import StoreNode

AGAIN_MS = 50
"""Time until a read that has failed is tried again."""


class Reader:
    """Hears what becomes readable at one leader."""

    def __init__(self, checkers: Checkers, node: StoreNode, store: LeaderStore) -> None:
        self._checkers = checkers
        self._node = node
        self._store = store
        self.written = self.synced = 0

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """StoreListener.arrived."""
        if topic not in LEVELS:
            return
        limit = self.written if topic == QUICK else self.synced
        for each in records:
            record = Record(each)
            if record.physical_offset + len(each) > limit:
                raise self._checkers.wrong(
                    self._node, f"{topic}/{queue_id}/{record.queue_offset} is readable above the confirmed position {limit}"
                )
            self._checkers.shown(self._node, topic, queue_id, record)

    def freed(self, group: str, topic: str) -> None:
        """StoreListener.freed."""


class Checkers:
    """Looks at every promotion, every confirmed position and every record that becomes readable.

    confirmed   the bytes that some leader has confirmed, from position 0 on
    durable     up to where they were confirmed as durable
    epochs      leader epoch -> the replica that has led in it
    seen        (topic, queue, offset) -> body of what was readable at some leader
    unsynced    True: what was confirmed and not durable may be lost, because machines have lost their power
    serving     leaders that have begun to serve
    due         body of a message -> when it is to be delivered, epoch ms
    is_void     True for the body of a message that nobody may ever see
    clocks_known  True: the controllers know whose clock is off, and have somebody else who can lead
    lost_logs   (replica, incarnation) of logs that are gone
    has_past    True: the group has all old messages, or had them
    given_up_to the replica that an operator lets lead though it may lack records; None: nobody has
    given_up    bytes that were confirmed and that it lacked when it began to lead
    """

    def __init__(self, cluster: Cluster, of: SimGroup) -> None:
        self._cluster = cluster
        self._of = of
        self.confirmed = bytearray()
        self.durable = 0
        self.epochs: dict[int, int] = {}
        self.seen: dict[tuple[str, int, int], bytes] = {}
        self.unsynced = False
        self.serving = 0
        self.due: Callable[[str], int] = lambda body: 0
        self.is_void: Callable[[str], bool] = lambda body: False
        self.clocks_known = False
        self.lost_logs: set[tuple[int, str]] = set()
        self.has_past = False
        self.given_up_to: StoreNode | None = None
        self.given_up = 0

    def stands_still(self) -> bool:
        """True when too few logs of the SyncStateSet exist for an election: nobody is elected before an operator decides."""
        group = self.group()
        if group is None or not group.members:
            return False
        if group.electing == 1:
            return {tuple(each) for each in group.members} <= self.lost_logs
        logs = {each.member for each in group.replicas} | {SetMember(each.id, each.continues_log) for each in group.replicas}
        return not group.leader and len({tuple(each) for each in logs & {*group.members}} - self.lost_logs) < group.electing

    def wrong(self, node: StoreNode, what: str) -> HistoryError:
        """The error for something that cannot be."""
        self._cluster.timeline.note(node.name, f"WRONG: {what}")
        return HistoryError(f"{node.name}: {what}")

    def does_not_open(self, node: StoreNode, error: Exception) -> None:
        """A replica does not start on what its disk has."""
        if not node.damaged:
            raise self.wrong(node, f"does not start: {error}")
        self.lost_logs.add(node.last_member)
        node.end(f"cannot be helped, and gets an empty disk: {error}")
        node.replace_disk()

    # Leaders

    def promoted(self, node: StoreNode, store: LeaderStore) -> None:
        """A replica leads: alone in its epoch, with all that was confirmed before.

        It may have stood still since its election, and another one leads by now: then it will confirm nothing.
        """
        led = store.replica
        if node is self._cluster.off and self.clocks_known:
            raise self.wrong(node, f"leads in epoch {led.epoch} with a clock that is {node.time.offset_ms} ms off")
        if self.epochs.setdefault(led.epoch, node.number) != node.number:
            raise self.wrong(node, f"leads in epoch {led.epoch}, as replica {self.epochs[led.epoch]} has")
        self._cluster.timeline.note(node.name, f"leads in epoch {led.epoch} from {led.begin} on")
        first = min(node.first, len(self.confirmed))
        own, confirmed = node.log(first, len(self.confirmed)), bytes(self.confirmed[first:])
        if own != confirmed and led.epoch == max(self.epochs):
            same = first + next(
                (at for at, (one, other) in enumerate(zip(own, confirmed, strict=False)) if one != other), len(own)
            )
            only_filler = (
                same == first + len(own) and batch.is_filler(bytes(self.confirmed[same:])) and len(self.confirmed) - same == 8
            )
            if node is self.given_up_to:
                self._give_up(node.log(0, same))
            elif not only_filler and (same < self.durable or not self.unsynced):
                raise self.wrong(
                    node, f"lacks what was confirmed: of {len(self.confirmed)} bytes the first {same} are the same"
                )
            del self.confirmed[same:]
            self.seen = {key: body for key, body in self.seen.items() if key[0] != QUICK}
        reader = Reader(self, node, store)
        confirm = led.confirm

        def noted(written: int, synced: int) -> None:
            self._confirmed(node, led.epoch, written, synced)
            reader.written, reader.synced = written, synced
            confirm(written, synced)

        led.confirm = noted  # type: ignore[method-assign]
        store.store.log.listen(reader)

    def _give_up(self, kept: bytes) -> None:
        """An operator has given up what was confirmed behind these bytes: it may be lost, and nothing before it."""
        self.given_up_to, self.given_up = None, len(self.confirmed) - len(kept)
        self.durable = min(self.durable, len(kept))
        self.seen = {key: body for key, body in self.seen.items() if body in kept}

    def _confirmed(self, node: StoreNode, epoch: int, written: int, synced: int) -> None:
        """A leader confirms: enough of the SyncStateSet have the same bytes, which are those of all earlier leaders, too."""
        group = self.group()
        before = len(self.confirmed)
        begin = min(before, written)
        own = node.log(begin, written)
        if len(own) != written - begin:
            raise self.wrong(node, f"has confirmed up to {written}, and its log ends at {begin + len(own)}")
        newest = max(self.epochs)
        if epoch < newest and written > before and self._elsewhere(newest, own, begin):
            raise self.wrong(node, f"has confirmed up to {written} in epoch {epoch}, which the leader of epoch {newest} lacks")
        self.confirmed[begin : max(before, written)] = own or self.confirmed[begin:]
        if group is None or group.leader_epoch != epoch:
            self.durable = max(self.durable, synced)
            return
        for other in self._of.stores:
            if (applied := applied_in(epoch, other)) > len(self.confirmed):
                raise self.wrong(other, f"has timers and leases of {applied} bytes; {len(self.confirmed)} are confirmed")
        members = {(each.id, each.incarnation) for each in group.members}
        others = [each for each in self._of.stores if each is not node and each.member in members]
        lacks = [
            f"has confirmed up to {written} of the log, which {each.name} in the set lacks"
            for each in others
            if each.log(begin, written) != own
        ] + [""] * (len(members) - 1 - len(others))  # who is not there had the bytes once
        not_durable = [self._not_durable(each, synced, each is node) for each in (node, *others)]
        for found in (lacks, not_durable):
            wrong = [each for each in found if each]
            if len(wrong) > len(members) - group.confirming:
                raise self.wrong(node, wrong[0])
        self.durable = max(self.durable, synced)

    def _elsewhere(self, epoch: int, own: bytes, begin: int) -> bool:
        """True when the leader of that epoch has other bytes than these."""
        leader = self._of.stores[self.epochs[epoch] - 1]
        return leader.led is not None and leader.log(begin, begin + len(own)) != own

    def _not_durable(self, node: StoreNode, synced: int, leads: bool) -> str:
        """What of that which is confirmed as durable is not on the platter; "": all is.

        Except a filler with which that ends: a follower that connects again names the end of its last batch, is cut off there,
        and gets the filler behind it anew.
        """
        if not leads and node.log_end < synced - batch.FILLER_BYTES:
            return f"has confirmed {synced} as durable; the log of {node.name} ends before"
        for name in filter(str.isdigit, node.disk.names("log")):
            content = node.disk.files[f"log/{name}"]
            end = synced - int(name)
            tail = bytes(content.data[-batch.FILLER_BYTES :])
            if not leads and end == len(content.data) and batch.is_filler(tail):
                end -= batch.FILLER_BYTES
            if int(name) < synced and content.synced < min(end, len(content.data)):
                return f"has confirmed {synced} as durable; {node.name} has {name} up to {content.synced}"
        return ""

    def slow(self) -> set[int]:
        """Ids of the replicas that a controller which leads passes over, because they were slow."""
        leading = [each.requests for each in self._cluster.controllers if each.requests is not None]
        group = self.group()
        return {
            replica.id
            for each in leading
            if each.grey is not None and each.member is not None and each.member.leads and group is not None
            for replica in group.replicas
            if each.grey.standing(group.name, replica.id).fitness is Fitness.SLOW
        }

    def group(self) -> StoreGroup | None:
        """The store group as a majority of the controllers has decided it: the newest that one of them has applied."""
        found = [
            group
            for each in self._cluster.controllers
            if each.requests is not None and each.requests.member is not None
            and (group := each.requests.member.groups.group(self._of.name)) is not None
        ]  # fmt: skip
        return max(found, key=lambda group: (group.leader_epoch, group.set_epoch), default=None)

    # Records

    def shown(self, node: StoreNode, topic: str, queue_id: int, record: Record) -> None:
        """A record is readable: it stays what it is, follows the one before it, and comes not before its time."""
        key = (topic, queue_id, record.queue_offset)
        body = bytes(record.body)
        before = self.seen.setdefault(key, body)
        if before != body:
            raise self.wrong(node, f"{topic}/{queue_id}/{record.queue_offset} is {body!r}, and was {before!r}")
        name = body.decode("utf-8", "replace").rstrip(".")
        if self.is_void(name):
            raise self.wrong(node, f"{name} is readable, and its transaction was rolled back")
        due = self.due(name)
        now = self._cluster.clock.wall_ms()
        if due and now < due - self._cluster.skew_ms // 2 - DRIFT_MS:
            raise self.wrong(node, f"{body!r} is readable {due - now} ms before its time")

    def served(self, node: StoreNode, store: LeaderStore) -> None:
        """A replica begins to serve: what it shows is what was shown before, and it has all of that."""
        self.serving += 1
        shows_old(self._cluster, node, store)
        for topic, count in QUEUES.items():
            for queue in range(count):
                self._shows(node, store, topic, queue)

    def _shows(self, node: StoreNode, store: LeaderStore, topic: str, queue: int, begin: int = 0) -> None:
        """Read a queue from an offset on. What cannot be read yet is read later: another replica has its bytes."""

        def again(offset: int) -> None:
            self._cluster.after(AGAIN_MS, lambda: self._shows(node, store, topic, queue, offset))

        def read(result: ReadResult | Failure) -> None:
            if node.store is not store:
                return
            if isinstance(result, Failure):
                if result.code is not ErrorCode.TOPIC_NOT_FOUND:
                    again(begin)
                    return
                result = ReadResult("EMPTY", [], 0, 0, 0)
            records = [Record(each) for each in result.records]
            offsets = [each.queue_offset for each in records]
            if offsets != list(range(begin, begin + len(offsets))):
                raise self.wrong(node, f"the offsets of {topic}/{queue} have gaps: {offsets}")
            lacks = [offset for offset in expected if offset >= result.max_offset]
            if lacks:
                raise self.wrong(
                    node, f"has {result.max_offset} messages in {topic}/{queue}, and lacks {lacks}, which were readable"
                )
            for record in records:
                self.shown(node, topic, queue, record)
            if result.next_offset < result.max_offset:
                again(result.next_offset)

        expected = [key[2] for key in self.seen if key[:2] == (topic, queue)]
        store.store.log.read(ReadRequest(topic, queue, begin, 1_000_000, 1 << 40), read)


def applied_in(epoch: int, node: StoreNode) -> int:
    """Bytes that a follower has applied; 0 for any other replica, and for one that has nothing of this epoch in its log.

    The leader of the epoch has not taken that one so far. It may have applied what a leader confirmed alone and has lost with
    its power: a leader that takes it cuts it off there, and it begins anew (`store.replication.following`).
    """
    follower = node.follower
    if follower is None or node.led is not None or node.life is None or node.life.ended:
        return 0
    eras = follower.eras()
    return follower.applied if eras and eras[-1].epoch == epoch else 0
