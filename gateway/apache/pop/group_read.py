"""Reads of one group from one topic, by POP at all brokers that have queues of it.

A lease call asks one broker after the other until it has messages; each call starts with the next broker. A broker without
messages is quiet: it gets no POP until it answers a NOTIFICATION, which all waiting calls share. A broker that does not answer
within LATE_NS is skipped; messages that it returns later go to a call that waits then. A broker without connection is skipped
until it is back. Thus a slow broker delays only its own messages.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.event import Leased
from domain.filter.filter import SQL92, TAG, Filter
from domain.limits import MILLISECOND_NS, WAIT_MS_MAX
from domain.message.record import Record
from domain.store.store_ports import LeaseResult, Leases
from domain.store.store_request import LeaseRequest
from gateway.apache.pop import reply as replies
from gateway.apache.pop import request as requests
from gateway.apache.pop.broker_side import BrokerSide
from gateway.apache.pop.brokers import PopBrokers
from gateway.apache.pop.call import Leasing, Pop, PopCall
from gateway.brokers.cluster_map import ClusterMap
from gateway.brokers.refusal import BrokerAnswerError, refusal
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

KEPT_MS: Final = 1_000
"""Time for which messages of a late broker are kept for the next call."""
WINDOW_MAX: Final = 64
"""Lease calls of one read served at a time at most."""
INTEREST_NS: Final = (WAIT_MS_MAX + 1_000) * MILLISECOND_NS
"""Time after its last lease call for which a call may be parked."""

log = logging.getLogger("headgate.rocketmq")


@final
class GroupRead:
    """Queue of the lease calls of one group for one topic, queue, filter and order: first come, first served.

    The window is the number of calls served at a time; the others wait in this queue. It starts at 1, doubles up to WINDOW_MAX
    with each call that leaves messages at its broker, and returns to 1 with a call that finds none.

    A call that finds no messages is answered without any, and the use case parks it (long poll). `freed` wakes the parked calls
    in their order, and each is called here again. A woken call outside the window is not queued: it is answered without
    messages at once, so that it keeps its place among the parked calls, and `freed` is called again when there are more
    messages.

    used_ns       time of the last lease call, monotonic
    _stock        messages of a late broker, for the next calls
    _stocks       serial number of the stock, by which the timer of an older stock is ignored
    _under_way    number of calls being served
    _window       limit of `_under_way`
    _is_waking    True while `freed` runs
    _wakes_more   True: a call found no room while `freed` ran
    """

    __slots__ = (
        "_broker", "_brokers", "_calls", "_cluster", "_freed", "_is_begun", "_is_waking", "_leases", "_queue_id", "_sides",
        "_stock", "_stocks", "_turn", "_under_way", "_wakes_more", "_wanted", "_window", "expression", "from_first", "group",
        "ordered", "topic", "used_ns",
    )  # fmt: skip

    def __init__(
        self,
        request: LeaseRequest,
        broker: str,
        queue_id: int,
        leases: Leases,
        brokers: PopBrokers,
        cluster: ClusterMap,
        freed: Callable[[str, str], None],
    ) -> None:
        """Create a read for calls like `request`.

        broker     broker of the queue; "": all brokers
        queue_id   queue of that broker; -1: any
        leases     settles and withdraws leases of messages that no call gets
        freed      called with (group, topic) to notify the listeners of the store (StoreListener.freed)
        """
        self.group = request.group
        self.topic = request.topic
        self.ordered = request.terms.ordered
        self.from_first = request.from_first
        self.used_ns = 0
        self._leases = leases
        self._brokers = brokers
        self._cluster = cluster
        self._freed = freed
        self._broker = broker
        self._queue_id = queue_id
        kind, text = request.wanted.expression if request.wanted is not None else (TAG, "*")
        self.expression = (kind, text) if kind in (TAG, SQL92) else (TAG, "*")
        # Brokers compare hashes of tags only, and support no other filter but SQL92.
        self._wanted: Filter | None = None if kind == SQL92 else request.wanted
        self._sides: dict[str, BrokerSide] = {}
        self._calls: deque[PopCall] = deque()
        self._stock: list[Leased] = []
        self._stocks = 0
        self._turn = 0
        self._under_way = 0
        self._window = 1
        self._is_begun = False
        self._is_waking = False
        self._wakes_more = False

    @property
    def is_wanted(self) -> bool:
        """True while a call may be parked: until INTEREST_NS after the last one."""
        return self._brokers.now_ns() - self.used_ns < INTEREST_NS

    @property
    def is_idle(self) -> bool:
        """True when no call waits or is served."""
        return not self._calls and not self._under_way and not self._is_waking

    def lease(self, request: LeaseRequest, done: Leasing) -> None:
        """Serve a call from the stock, at once, or after the calls before it."""
        self.used_ns = self._brokers.now_ns()
        call = PopCall(request, done)
        if self._stock and self._stock[0].receipt.invisible_ms == request.terms.invisible_ms:
            given, self._stock = self._stock[: request.limit], self._stock[request.limit :]
            call.is_over = True
            done(LeaseResult(given, given[0].receipt.pop_ms, len(self._stock)))
        elif self._under_way < self._window:
            self._start(call)
        elif self._is_waking:
            self._wakes_more = True
            done(LeaseResult([], 0, 0))
        else:
            self._calls.append(call)

    def _start(self, call: PopCall) -> None:
        self._under_way += 1
        brokers = (self._broker,) if self._broker else self._cluster.brokers_of(self.topic)
        if not brokers:
            text = f"no broker of the cluster has a queue of topic {self.topic} that can be read"
            call.failure = Failure(ErrorCode.STORE_UNAVAILABLE, text)
        self._turn += 1
        late: list[str] = []
        for at in range(len(brokers)):
            broker = brokers[(self._turn + at) % len(brokers)]
            side = self._side(broker)
            if side.quiet and not call.request.terms.attempt_id:
                call.heard = call.heard or side.refusal is None
                call.failure = side.refusal or call.failure
                continue
            away = self._brokers.absence(broker, self)
            if away is not None:
                call.failure = away
            elif self._brokers.is_late(broker, self):
                late.append(broker)
            else:
                call.left.append(broker)
        if not call.left and not call.heard:
            call.left = late
        self.go_on(call)

    def _ask(self, call: PopCall) -> None:
        broker = call.left.pop(0)
        call.asked += 1
        asked = call.request
        request = requests.pop(
            self.group, self.topic, self._queue_id, asked.limit, asked.terms.invisible_ms, self.expression, self.from_first,
            self.ordered, asked.terms.attempt_id,
        )  # fmt: skip
        self._brokers.pop(Pop(call, broker, self._brokers.now_ns(), self.go_on), request, self._answered)

    def go_on(self, call: PopCall) -> None:
        """Ask the next broker of a call, unless a POP in flight is not late; finish the call when no broker is left.

        A call waits for a late broker only when no other broker has answered.
        """
        if call.is_over or call.asked > call.late:
            return
        if call.left:
            self._ask(call)
        elif not call.asked or call.heard:
            self._finish(call, [], 0)

    def _answered(self, pop: Pop, answer: Frame | Failure) -> None:
        call, broker = pop.call, pop.broker
        call.asked -= 1
        call.late -= pop.is_late
        messages: list[Leased] = []
        more = 0
        lasting: Failure | None = None
        if isinstance(answer, Failure):
            call.failure = answer
            self._brokers.miss(broker, self)
        elif answer.code == codes.SUCCESS:
            try:
                messages = replies.read(answer, broker, self.topic, self.ordered)
                more = replies.rest(answer)
            except BrokerAnswerError as fault:
                log.warning("broker %s answered a POP with %s", broker, fault)
                call.failure = Failure(ErrorCode.STORE_UNAVAILABLE, f"broker {broker} answered a POP with {fault}")
                self._side(broker).quieten()
        elif answer.code in (codes.POLLING_TIMEOUT, codes.PULL_NOT_FOUND, codes.POLLING_FULL):
            call.heard = True
        else:
            call.failure = refusal(broker, answer)
            lasting = call.failure if answer.code == codes.NOT_SUPPORTED else None
        if messages:
            self._side(broker).fruitless = 0
            self._give(call, messages, more)
            return
        if isinstance(answer, Frame):
            self._side(broker).quieten(lasting)
        self.go_on(call)

    def _give(self, call: PopCall, messages: list[Leased], more: int) -> None:
        kept = self._matching(messages)
        if call.is_over:
            self._give_late(kept)
        else:
            call.filtered = not kept
            self._finish(call, kept, more)

    def _matching(self, messages: list[Leased]) -> list[Leased]:
        """The messages that match the filter; the others are acknowledged, as by Apache's proxy."""
        wanted = self._wanted
        if wanted is None:
            return messages
        unwanted = [each for each in messages if not wanted.matches(_properties(each))]
        if not unwanted:
            return messages
        self._leases.settle(self.group, self.topic, [each.receipt for each in unwanted], _ignored)
        dropped = {id(each) for each in unwanted}
        return [each for each in messages if id(each) not in dropped]

    def _give_late(self, messages: list[Leased]) -> None:
        """Serve waiting calls with messages of a late broker; keep the rest for KEPT_MS, a tenth of its lease at most."""
        self._give_back(self._stocks)
        self._stock = messages
        while self._stock and self._calls:
            call = self._calls.popleft()
            limit = call.request.limit
            given, self._stock = self._stock[:limit], self._stock[limit:]
            call.is_over = True
            call.done(LeaseResult(given, given[0].receipt.pop_ms, len(self._stock)))
        if self._stock:
            self.wake()
        if self._stock:
            self._stocks += 1
            kept_ms = min(KEPT_MS, self._stock[0].receipt.invisible_ms // 10)
            self._brokers.after(kept_ms, partial(self._give_back, self._stocks))

    def _give_back(self, stock: int) -> None:
        """Withdraw the leases of the stock with the serial number `stock`, if it is the current one."""
        if stock != self._stocks:
            return
        rest, self._stock = self._stock, []
        if rest:
            self._leases.withdraw(self.group, self.topic, [each.receipt for each in rest])

    def _finish(self, call: PopCall, messages: list[Leased], more: int) -> None:
        self._under_way -= 1
        call.is_over = True
        has_more = more > 0 or len(messages) >= call.request.limit
        if has_more:
            self._window = min(2 * self._window, WINDOW_MAX)
        elif not messages and not call.filtered:
            self._window = 1
        if messages or call.filtered:
            pop_ms = messages[0].receipt.pop_ms if messages else 0
            call.done(LeaseResult(messages, pop_ms, more, unfinished=not messages))
        elif call.failure is not None and not call.heard:
            call.done(call.failure)
        else:
            call.done(LeaseResult([], 0, 0))
        if not self._is_begun:
            # Calls that are started here may be answered before `_start` returns.
            self._is_begun = True
            while self._calls and self._under_way < self._window:
                self._start(self._calls.popleft())
            self._is_begun = False
        if self._wakes_more and messages and not self._is_waking:
            if has_more:
                self.wake()
            else:
                self._wait_for_more()

    def _wait_for_more(self) -> None:
        """Send NOTIFICATIONs to the brokers that are not quiet, since calls are parked and no broker has more messages."""
        self._wakes_more = False
        for broker, side in self._sides.items():
            if not side.quiet and self._brokers.absence(broker, self) is None:
                side.quieten()

    def wake(self) -> None:
        """Retry the parked calls."""
        self._wakes_more = False
        self._is_waking = True
        self._freed(self.group, self.topic)
        self._is_waking = False

    def _side(self, broker: str) -> BrokerSide:
        side = self._sides.get(broker)
        if side is None:
            side = self._sides[broker] = BrokerSide(self, self._brokers, broker)
        return side

    def notification(self, poll_ms: int) -> Request:
        """A NOTIFICATION that is answered after `poll_ms` at the latest."""
        return requests.notification(self.group, self.topic, self._queue_id, poll_ms, self.expression, self.ordered)

    def back(self, broker: str) -> None:
        """See PopReader."""
        if self.is_wanted:
            self._side(broker).quieten()

    def unblock(self, broker: str) -> None:
        """Retry `broker`, since a lease of the ordered group has ended there: the next message of its queue may be free."""
        self._side(broker).unblock()


def _properties(message: Leased) -> bytes:
    return Record(message.record).properties


def _ignored(_: Sequence[Failure | None] | Failure) -> None:
    """Ignore the outcome of the acknowledgement of an unmatched message: without it the lease expires."""
