"""Leases of an Apache RocketMQ cluster: POP at its brokers. Receipts are those of the brokers, byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar, final

from domain.errors import ErrorCode, Failure
from domain.limits import SECOND_NS
from domain.message.receipt import ORDERED_REVIVE_QUEUE, Receipt
from domain.ports import Clock
from domain.store.store_ports import LeaseResult
from domain.store.store_request import LeaseRequest
from gateway.apache.pop import request as requests
from gateway.apache.pop.acknowledgements import ACK_MS, REFUSED, Acknowledgements
from gateway.apache.pop.brokers import PopBrokers, hear_clock
from gateway.apache.pop.call import Leasing
from gateway.apache.pop.group_read import GroupRead
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.brokers.refusal import refusal
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

READS_MAX: Final = 100_000
IDLE_NS: Final = 120 * SECOND_NS
"""Time without a call after which a read may be dropped."""
SWEPT_AT: Final = 1_000
"""Reads that exist before idle ones are dropped."""
EXPIRED_MS: Final = 500
"""Time after the end of a lease, by the clock of its broker, for which it is still settled: its master may have changed."""

Outcome = TypeVar("Outcome")
_Key = tuple[str, str, str, int, str, str, bool, bool]


@final
class RocketmqLeases:
    """`Leases` over POP. Limits: a withdrawn lease counts as a delivery, and fleeting leases last as long as others."""

    def __init__(
        self,
        brokers: Brokers,
        cluster: ClusterMap,
        clock: Clock,
        freed: Callable[[str, str], None],
        on_read: Callable[[str, str], None],
    ) -> None:
        """`freed(group, topic)` notifies the listeners of the store (StoreListener.freed); `on_read(group, topic)` is called
        when a group starts to receive."""
        self._on_read = on_read
        self._brokers = brokers
        self._pop_brokers = PopBrokers(brokers, clock)
        self._cluster = cluster
        self._clock = clock
        self._freed = freed
        self._acks = Acknowledgements(brokers, clock)
        self._reads: dict[_Key, GroupRead] = {}
        self._ordered: dict[tuple[str, str], list[GroupRead]] = {}

    def lease(self, request: LeaseRequest, done: Leasing) -> None:
        """See Leases. Failures: those of the brokers; STORE_UNAVAILABLE when none answers; OVERLOADED above READS_MAX reads;
        QUEUE_ILLEGAL."""
        if requests.is_own_retry_topic(request.group, request.topic):
            # Brokers read the retry topic together with its origin topic.
            done(LeaseResult([], 0, 0))
            return
        broker, queue_id = "", -1
        if request.queue_id >= 0:
            queues = self._cluster.queues(request.topic)
            if request.queue_id >= len(queues):
                text = f"topic {request.topic} has no queue {request.queue_id}"
                done(Failure(ErrorCode.QUEUE_ILLEGAL, text))
                return
            broker, queue_id = queues[request.queue_id]
        kind, text = request.wanted.expression if request.wanted is not None else ("", "")
        key = (request.group, request.topic, broker, queue_id, kind, text, request.from_first, request.terms.ordered)
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
        read = self._reads[key] = GroupRead(
            request, broker, queue_id, self, self._pop_brokers, self._cluster, self._freed
        )  # fmt: skip
        if request.terms.ordered:
            self._ordered.setdefault((request.group, request.topic), []).append(read)
        self._on_read(request.group, request.topic)
        return read

    def _sweep(self) -> None:
        """Drop reads that are idle for IDLE_NS."""
        before = self._clock.monotonic_ns() - IDLE_NS
        for key, read in list(self._reads.items()):
            if read.is_idle and read.used_ns < before:
                del self._reads[key]
                if read.ordered:
                    reads = self._ordered[read.group, read.topic]
                    reads.remove(read)
                    if not reads:
                        del self._ordered[read.group, read.topic]
                self._pop_brokers.forget(read)

    def reading(self) -> dict[str, list[str]]:
        """Group -> topics that it has received through this node within IDLE_NS."""
        since = self._clock.monotonic_ns() - IDLE_NS
        found: dict[str, list[str]] = {}
        for read in self._reads.values():
            if read.used_ns >= since:
                topics = found.setdefault(read.group, [])
                if read.topic not in topics:
                    topics.append(read.topic)
        return found

    def withdraw(self, group: str, topic: str, receipts: Sequence[Receipt], wake: bool = False) -> None:
        """See Leases. The leases end at once; brokers count that as a delivery, and notify waiting readers themselves."""
        for receipt in receipts:
            request = requests.change_invisible(group, topic, receipt, 0)
            self._brokers.ask(receipt.broker, request, partial(self._withdrawn, group, topic, receipt), ACK_MS)

    def _withdrawn(self, group: str, topic: str, receipt: Receipt, _: Frame | Failure) -> None:
        self._unblock(group, topic, receipt)

    def lapse(self) -> None:
        """See Leases. No effect: leases from before a restart of this node expire by themselves."""

    def settle(
        self, group: str, topic: str, receipts: Sequence[Receipt], done: Callable[[list[Failure | None] | Failure], None]
    ) -> None:
        """See Leases. Brokers do not report that a message was leased again; an expired lease is refused here."""

        def settle(receipt: Receipt, settled: Callable[[Failure | None], None]) -> None:
            if receipt.revive_queue == ORDERED_REVIVE_QUEUE:
                settled = partial(self._settled_in_order, group, topic, receipt, settled)
            self._acks.add(group, topic, receipt, settled)

        self._each(receipts, [None] * len(receipts), settle, done)

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
        """See Leases."""

        def extend(receipt: Receipt, extended: Callable[[Receipt | Failure], None]) -> None:
            request = requests.change_invisible(group, topic, receipt, invisible_ms)
            answered = partial(self._extended, group, topic, receipt, invisible_ms, extended)
            self._brokers.ask(receipt.broker, request, answered, ACK_MS)

        self._each(receipts, receipts, extend, done)

    def _each(
        self,
        receipts: Sequence[Receipt],
        unknown: Sequence[Outcome],
        ask: Callable[[Receipt, Callable[[Outcome | Failure], None]], None],
        done: Callable[[list[Outcome | Failure] | Failure], None],
    ) -> None:
        """Call `ask` for each receipt with an unexpired lease. `done` gets all outcomes, in the order of the receipts."""
        outcomes: list[Outcome | Failure] = list(unknown)
        # One more than the receipts, since answers may arrive before the last request is sent.
        left = len(receipts) + 1

        def count() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                done(outcomes)

        def notified(at: int, outcome: Outcome | Failure) -> None:
            outcomes[at] = outcome
            count()

        for at, receipt in enumerate(receipts):
            expired = self._expired(receipt)
            if expired is not None:
                notified(at, expired)
            else:
                ask(receipt, partial(notified, at))
        count()

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
        hear_clock(self._brokers, receipt.broker, answer)
        fields = answer.fields() or {}
        pop_ms, invisible = fields.get("popTime", ""), fields.get("invisibleTime", "")
        revive = fields.get("reviveQid", "")
        if not (pop_ms.isdigit() and invisible.isdigit() and revive.isdigit()):
            # The message is settled already: the broker changes nothing, and returns no times.
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
        """RECEIPT_EXPIRED when the lease has ended and the message may be leased to another consumer; else None.

        The clock of the broker decides, which set the end of the lease. While it is not known, the broker is asked.
        """
        now_ms = self._brokers.clocks.wall_ms(receipt.broker)
        late_ms = 0 if now_ms is None else now_ms - receipt.pop_ms - receipt.invisible_ms
        if late_ms <= EXPIRED_MS:
            return None
        return Failure(ErrorCode.RECEIPT_EXPIRED, f"the lease ended {late_ms} ms ago")

    def _unblock(self, group: str, topic: str, receipt: Receipt) -> None:
        if receipt.revive_queue == ORDERED_REVIVE_QUEUE:
            for read in self._ordered.get((group, topic), ()):
                read.unblock(receipt.broker)
