"""Leases of an Apache RocketMQ cluster: POP at its brokers. Receipts are theirs, byte for byte."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock
from domain.receipt import ORDERED_REVIVE_QUEUE, Receipt
from domain.store_ports import LeaseResult
from domain.store_request import LeaseRequest
from gateway.rocketmq import pop_request
from gateway.rocketmq.acknowledgements import ACK_MS, REFUSED, Acknowledgements
from gateway.rocketmq.brokers import Brokers
from gateway.rocketmq.cluster_map import ClusterMap
from gateway.rocketmq.group_read import GroupRead, Leasing, Pop
from gateway.rocketmq.link import BrokerAnswerError
from gateway.rocketmq.refusal import refusal
from protocols.remoting import codes
from protocols.remoting.frame import Frame

LATE_NS: Final = 250 * MILLISECOND_NS
"""Time without an answer after which a broker is passed over."""
TICK_NS: Final = 50 * MILLISECOND_NS
WATCHES_MAX: Final = 8_192
"""NOTIFICATIONs that one broker holds for this node."""
READS_MAX: Final = 100_000
IDLE_NS: Final = 120 * SECOND_NS
"""Time without a call after which a read is forgotten."""
SWEPT_AT: Final = 1_000
"""Reads that are there before the first of them is forgotten."""
EXPIRED_MS: Final = 500
"""How long after its end, by the clock of this node, a lease is still tried: clocks differ, and brokers end it later."""

log = logging.getLogger("headgate.rocketmq")

_Key = tuple[str, str, str, int, str, str, bool, bool]


@final
class RocketmqLeases:
    """`Leases`. What it cannot do: withdrawing a lease counts as a delivery, and fleeting leases last as long as others.

    brokers   where requests go
    map       brokers and queues of topics
    clock     time
    freed     tells the listeners of the store: (group, topic), as StoreListener.freed
    on_read   called when a group begins to receive; None: nobody wants to know
    """

    def __init__(self, brokers: Brokers, cluster: ClusterMap, clock: Clock, freed: Callable[[str, str], None]) -> None:
        self.brokers = brokers
        self.map = cluster
        self.clock = clock
        self.freed = freed
        self.on_read: Callable[[], None] | None = None
        self._acks = Acknowledgements(brokers, clock)
        self._reads: dict[_Key, GroupRead] = {}
        self._ordered: dict[tuple[str, str], list[GroupRead]] = {}
        self._asked: dict[Pop, None] = {}
        self._late: dict[str, int] = {}
        self._missing: dict[str, dict[GroupRead, None]] = {}
        self._watches: dict[str, int] = {}
        self._ticking = False

    def lease(self, request: LeaseRequest, done: Leasing) -> None:
        """Leases.lease. Failure: as the brokers say, STORE_UNAVAILABLE when none of them answers."""
        if pop_request.is_own_retry_topic(request.group, request.topic):
            # The brokers read it whenever its origin is asked for.
            done(LeaseResult([], 0, 0))
            return
        broker, queue_id = "", -1
        if request.queue_id >= 0:
            queues = self.map.queues(request.topic)
            if request.queue_id >= len(queues):
                text = f"topic {request.topic} has no queue {request.queue_id}"
                done(Failure(ErrorCode.QUEUE_ILLEGAL, text))
                return
            broker, queue_id = queues[request.queue_id]
        kind, text = request.wanted.expression if request.wanted is not None else ("", "")
        key = (request.group, request.topic, broker, queue_id, kind, text, request.from_first, request.ordered)
        read = self._reads.get(key)
        if read is None:
            read = self._new_read(key, request, broker, queue_id)
            if read is None:
                done(
                    Failure(
                        ErrorCode.OVERLOADED, f"{READS_MAX} groups and topics are read by this node, and there is no more room"
                    )
                )
                return
        read.lease(request, done)

    def _new_read(self, key: _Key, request: LeaseRequest, broker: str, queue_id: int) -> GroupRead | None:
        if len(self._reads) >= SWEPT_AT and len(self._reads) & 0xFF == 0:
            self._sweep()
        if len(self._reads) >= READS_MAX:
            return None
        read = self._reads[key] = GroupRead(self, request, broker, queue_id)
        if request.ordered:
            self._ordered.setdefault((request.group, request.topic), []).append(read)
        if self.on_read is not None:
            self.on_read()
        return read

    def _sweep(self) -> None:
        """Forget reads that nobody uses."""
        before = self.clock.monotonic_ns() - IDLE_NS
        for key, read in list(self._reads.items()):
            if read.is_idle and read.used_ns < before:
                del self._reads[key]
                if read.ordered:
                    reads = self._ordered[read.group, read.topic]
                    reads.remove(read)
                    if not reads:
                        del self._ordered[read.group, read.topic]
                for missing in self._missing.values():
                    missing.pop(read, None)

    def reading(self) -> dict[str, list[str]]:
        """Group -> topics that it receives from here, or did so a moment ago."""
        since = self.clock.monotonic_ns() - IDLE_NS
        found: dict[str, list[str]] = {}
        for read in self._reads.values():
            if read.used_ns >= since:
                topics = found.setdefault(read.group, [])
                if read.topic not in topics:
                    topics.append(read.topic)
        return found

    def withdraw(self, group: str, topic: str, receipts: Sequence[Receipt], wake: bool = False) -> None:
        """Leases.withdraw: the leases end at once, which brokers count as a delivery. They tell themselves who waits."""
        for receipt in receipts:
            request = pop_request.change_invisible(group, topic, receipt, 0)
            self.brokers.ask(receipt.broker, request, partial(self._withdrawn, group, topic, receipt), ACK_MS)

    def _withdrawn(self, group: str, topic: str, receipt: Receipt, _: Frame | Failure) -> None:
        self._unblock(group, topic, receipt)

    def lapse(self) -> None:
        """Leases.lapse: does nothing. Leases that a life of this node left behind end at their time."""

    def settle(
        self, group: str, topic: str, receipts: Sequence[Receipt], done: Callable[[list[Failure | None] | Failure], None]
    ) -> None:
        """Leases.settle. A broker does not say whether the message was leased again: the end of the lease decides here."""
        outcomes: list[Failure | None] = [None] * len(receipts)
        # One more than there are receipts: answers may come before the last one is sent.
        left = len(receipts) + 1

        def settled(at: int, failure: Failure | None) -> None:
            nonlocal left
            if at >= 0:
                outcomes[at] = failure
            left -= 1
            if left == 0:
                done(outcomes)

        for at, receipt in enumerate(receipts):
            failure = self._expired(receipt)
            if failure is not None:
                settled(at, failure)
            elif receipt.revive_queue == ORDERED_REVIVE_QUEUE:
                self._acks.add(
                    group, topic, receipt, partial(self._settled_in_order, group, topic, receipt, partial(settled, at))
                )
            else:
                self._acks.add(group, topic, receipt, partial(settled, at))
        settled(-1, None)

    def _settled_in_order(
        self, group: str, topic: str, receipt: Receipt, done: Callable[[Failure | None], None], failure: Failure | None
    ) -> None:
        done(failure)
        self._unblock(group, topic, receipt)

    def extend(
        self,
        group: str,
        topic: str,
        receipts: Sequence[Receipt],
        invisible_ms: int,
        done: Callable[[list[Receipt | Failure] | Failure], None],
    ) -> None:
        """Leases.extend."""
        outcomes: list[Receipt | Failure] = list(receipts)
        left = len(receipts) + 1

        def extended(at: int, outcome: Receipt | Failure) -> None:
            nonlocal left
            if at >= 0:
                outcomes[at] = outcome
            left -= 1
            if left == 0:
                done(outcomes)

        for at, receipt in enumerate(receipts):
            failure = self._expired(receipt)
            if failure is not None:
                extended(at, failure)
                continue
            request = pop_request.change_invisible(group, topic, receipt, invisible_ms)
            answered = partial(self._extended, group, topic, receipt, invisible_ms, partial(extended, at))
            self.brokers.ask(receipt.broker, request, answered, ACK_MS)
        if receipts:
            extended(-1, receipts[0])
        else:
            done([])

    def _extended(
        self,
        group: str,
        topic: str,
        receipt: Receipt,
        invisible_ms: int,
        done: Callable[[Receipt | Failure], None],
        answer: Frame | Failure,
    ) -> None:
        if isinstance(answer, Failure):
            done(answer)
            return
        if answer.code != codes.SUCCESS:
            done(refusal(receipt.broker, answer, REFUSED))
            return
        fields = answer.fields() or {}
        pop_ms, invisible = fields.get("popTime", ""), fields.get("invisibleTime", "")
        revive = fields.get("reviveQid", "")
        if not (pop_ms.isdigit() and invisible.isdigit() and revive.isdigit()):
            # A message that is settled already: the broker changes nothing and tells no time.
            done(receipt)
            return
        done(
            Receipt(
                receipt.queue_offset, int(pop_ms), int(invisible), int(revive), receipt.retry, receipt.broker, receipt.queue_id,
                receipt.queue_offset, receipt.physical_offset,
            )
        )  # fmt: skip
        if invisible_ms == 0:
            self._unblock(group, topic, receipt)

    def _expired(self, receipt: Receipt) -> Failure | None:
        """RECEIPT_EXPIRED: the lease has ended, and the message may have been given to somebody else."""
        late_ms = self.clock.wall_ms() - receipt.pop_ms - receipt.invisible_ms
        if late_ms <= EXPIRED_MS:
            return None
        return Failure(ErrorCode.RECEIPT_EXPIRED, f"the lease ended {late_ms} ms ago")

    def _unblock(self, group: str, topic: str, receipt: Receipt) -> None:
        if receipt.revive_queue == ORDERED_REVIVE_QUEUE:
            for read in self._ordered.get((group, topic), ()):
                read.unblock(receipt.broker)

    # What follows is for GroupRead.

    def asked(self, waiting: Pop) -> None:
        """A POP is sent."""
        self._asked[waiting] = None
        self._tick_soon()

    def answered(self, waiting: Pop, answer: Frame | Failure) -> None:
        """A POP is answered, or failed."""
        self._asked.pop(waiting, None)
        if waiting.is_late:
            broker = waiting.broker
            left = self._late.get(broker, 0) - 1
            if left > 0 and isinstance(answer, Failure):
                self._late[broker] = left
            else:
                self._late.pop(broker, None)

    def absence(self, broker: str, read: GroupRead) -> Failure | None:
        """Why a broker cannot be asked now; `read` is told when it is back. None: it can."""
        reason = self.brokers.waits(broker)
        if not reason:
            return None
        self.miss(broker, read)
        return Failure(ErrorCode.STORE_UNAVAILABLE, f"broker {broker} does not answer: {reason}")

    def is_late(self, broker: str, read: GroupRead) -> bool:
        """True while a broker takes long to answer; `read` is told when it does."""
        if broker not in self._late:
            return False
        self.miss(broker, read)
        return True

    def miss(self, broker: str, read: GroupRead) -> None:
        """Tell `read` when `broker` answers again."""
        self._missing.setdefault(broker, {})[read] = None
        self._tick_soon()

    def may_watch(self, broker: str) -> bool:
        """Take a place for one more NOTIFICATION at `broker`; False: there is none."""
        count = self._watches.get(broker, 0)
        if count >= WATCHES_MAX:
            return False
        self._watches[broker] = count + 1
        return True

    def watched(self, broker: str) -> None:
        """A NOTIFICATION has ended."""
        self._watches[broker] -= 1

    def after(self, pause_ms: int, callback: Callable[[], None]) -> None:
        """Call back later."""
        self.clock.call_at(self.clock.monotonic_ns() + pause_ms * MILLISECOND_NS, callback)

    def faulty(self, broker: str, fault: BrokerAnswerError) -> None:
        """Say which broker answered with something that cannot be read."""
        log.warning("broker %s answered a POP with %s", broker, fault)

    def _tick_soon(self) -> None:
        if not self._ticking:
            self._ticking = True
            self.clock.call_at(self.clock.monotonic_ns() + TICK_NS, self._tick)

    def _tick(self) -> None:
        """Pass over brokers that take long; tell who is back."""
        self._ticking = False
        before = self.clock.monotonic_ns() - LATE_NS
        overdue: list[Pop] = []
        for waiting in self._asked:
            if waiting.begun_ns > before:
                break
            overdue.append(waiting)
        for waiting in overdue:
            del self._asked[waiting]
            self._late[waiting.broker] = self._late.get(waiting.broker, 0) + 1
        for waiting in overdue:
            waiting.overdue()
        for broker in [name for name in self._missing if name not in self._late and not self.brokers.waits(name)]:
            for read in self._missing.pop(broker):
                read.back(broker)
        if self._asked or self._missing:
            self._tick_soon()
