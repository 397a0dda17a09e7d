"""Delivery for one subscription: leases messages, and sends them while consent, breaker and rate limit of the sink permit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, final

from domain.admin.subscription import ChangeStatus
from domain.event import Event, Leased, Refused
from domain.limits import RECEIVE_MESSAGES_MAX, SECOND_NS
from domain.ports import Timer
from domain.subscription.filters import predicate
from domain.subscription.subscription import Payload, Status, WebhookSubscription
from gateway.webhooks.delivery.batches import chains_of
from gateway.webhooks.delivery.breaker import Breaker
from gateway.webhooks.delivery.delivery_process import DeliveryProcess
from gateway.webhooks.delivery.leasing import Leasing
from gateway.webhooks.delivery.rate_limit import SinkRateLimit
from gateway.webhooks.delivery.requests import SinkRequests
from gateway.webhooks.delivery.settlement import Settlement
from gateway.webhooks.delivery.sink_consent import SinkConsent

AGAIN_NS: Final = SECOND_NS
"""Pause after a refused change of the status."""
DELIVERING: Final = (Status.ACTIVE, Status.PENDING)


@final
class Deliverer:
    """Delivers for one subscription until it is stopped. Leases only messages that can be sent at once.

    epoch      of the claim
    left_out   number of topics over WILD_TOPICS_MAX, which the source does not read
    """

    def __init__(
        self,
        subscription: WebhookSubscription,
        epoch: int,
        process: DeliveryProcess,
        topics: tuple[Sequence[str], int],
    ) -> None:
        """`topics`: (topics that the source reads, number of topics left out)."""
        self.subscription = subscription
        self.epoch = epoch
        self._process = process
        self._clock = process.clock
        filtered = subscription.filters or subscription.types
        self._wanted = predicate(subscription.filters, subscription.types) if filtered else None
        self._leasings: dict[str, Leasing] = {}
        self._turn = 0
        self._breaker = Breaker()
        self._pace = SinkRateLimit(subscription.rate_per_minute)
        self._started = self._stopped = False
        self._settlement = Settlement(subscription, epoch, process, self._breaker)
        self._consenting = SinkConsent(subscription, process, self._agreed, self._suspend, self._wait)
        self._requests = SinkRequests(
            subscription, process, self._settlement, self._breaker, self._pace, self._consenting, self._suspend, self._pump
        )
        self._timer: Timer | None = None
        self._timer_ns = 0
        self.left_out = 0
        self.follow(*topics)

    # Lifecycle

    def follow(self, topics: Sequence[str], left_out: int) -> None:
        """Read these topics from now on. `left_out`: number of topics left out."""
        self.left_out = left_out
        for topic in self._leasings.keys() - set(topics):
            self._leasings.pop(topic).end()
        for topic in topics:
            if topic not in self._leasings:
                self._leasings[topic] = Leasing(
                    self.subscription, self.epoch, topic, self._process, self._take, self._pump, self._refused
                )
        self._pump()

    def start(self) -> None:
        """Start delivery, after a consent request if required. No effect unless the status is one of DELIVERING."""
        if self.subscription.status not in DELIVERING:
            return  # it exists for test deliveries only
        self._started = True
        if self._consenting.given:
            self._agreed()
        else:
            self._consenting.ask()

    def renew(self, subscription: WebhookSubscription) -> bool:
        """Take over a changed subscription. False: a new deliverer is needed, since more than the status has changed, or
        delivery starts or ends."""
        mine = replace(self.subscription, status=subscription.status, reason=subscription.reason, version=subscription.version)
        if not subscription.consented_ms:  # a consent has ended: this deliverer has detected that itself
            mine = replace(mine, consented_ms=0)
        goes_on = self._started and not self._stopped and subscription.status in DELIVERING
        if mine != subscription or not goes_on or not self._consents:
            return False
        self.subscription = subscription
        return True

    @property
    def _consents(self) -> bool:
        """True while the sink consents, is being asked, or may consent at the callback URL."""
        return self._consenting.given or self._consenting.asking or self._consenting.waiting

    def stop(self, release: bool) -> None:
        """End all requests, and record an attempt for each. `release`: True returns their messages at once without counting an
        attempt; False: the claim is lost."""
        if self._stopped:
            return
        self._stopped = True
        self._consenting.end()
        if self._timer is not None:
            self._timer.cancel()
        self._requests.end(release)

    @property
    def under_way(self) -> int:
        """Number of requests in flight."""
        return len(self._requests)

    def test(self, serial: int) -> None:
        """Send one test event, which is not in the log; its attempt goes to the client that requested it."""
        self._requests.test(serial)

    # Leasing

    def _pump(self) -> None:
        """Lease as many messages as may be sent now; set a timer when breaker or rate limit permit none."""
        if self._stopped or not self._started or not self._consenting.given:
            return
        now = self._clock.monotonic_ns()
        if not self._process.term.holds(now):
            return
        leasings = list(self._leasings.values())
        for each in leasings:
            each.watch()
        ready = [each for each in leasings if each.ready]
        if not ready or any(each.receiving for each in leasings):
            return
        subscription = self.subscription
        room = self._breaker.room(now, len(self._requests), subscription.concurrency)
        if room == 0:
            if not self._requests:
                self._later(self._breaker.until_ns)
            return
        due = self._pace.due(now)
        if due > now:
            self._later(due)
            return
        batched = subscription.payload is Payload.BATCHED
        most = min(RECEIVE_MESSAGES_MAX, subscription.batch_max if batched else room)
        self._turn += 1
        ready[self._turn % len(ready)].ask(self._pace.room(now, most))

    def _refused(self, again: int) -> None:
        if not self._stopped:
            self._process.counters["refused"] += 1
            self._later(again)

    def _take(self, topic: str, messages: Sequence[Leased], until: int) -> None:
        """Start a request for each chain of messages; acknowledge messages that match no filter."""
        room = self._breaker.room(self._clock.monotonic_ns(), len(self._requests), self.subscription.concurrency)
        if self._stopped or (messages and (room == 0 or not self._requests.permitted)):  # the breaker opened during the wait
            self._settlement.give_back(topic, messages)
            self._pump()
            return
        chains, unwanted = chains_of(messages, self._wanted, self.subscription)
        self._requests.begin(topic, chains, until)
        if unwanted:
            self._process.counters["filtered"] += len(unwanted)
            self._settlement.acknowledge(topic, unwanted)
        self._pump()

    # Consent and status

    def _suspend(self, reason: str) -> None:
        """The sink refuses all further deliveries. `reason`: text for people."""
        self._consenting.withdraw(ask=False)  # leases nothing more
        self._process.counters["suspended"] += 1
        self._change(Status.SUSPENDED, reason)

    def _agreed(self) -> None:
        self._pace.bound(self._consenting.rate, self.subscription.rate_per_minute)
        if self.subscription.status is Status.PENDING:
            self._change(Status.ACTIVE, "")
        self._pump()

    def _wait(self) -> None:
        """Set the status to PENDING: the sink may consent later, and messages wait until then."""
        if self.subscription.status is Status.ACTIVE:
            self._change(Status.PENDING, "")

    def _change(self, status: Status, reason: str) -> None:
        def changed(event: Event) -> None:
            if isinstance(event, Refused) and not self._stopped:
                self._clock.call_at(self._clock.monotonic_ns() + AGAIN_NS, lambda: self._change(status, reason))

        if not self._stopped:
            found, epoch = self.subscription, self.epoch
            self._process.client.ask(
                lambda ticket: ChangeStatus(ticket, found.id, status.value, reason, epoch, found.version), changed
            )  # fmt: skip

    # Time

    def _later(self, when_ns: int) -> None:
        if self._timer is not None:
            if self._timer_ns <= when_ns:
                return
            self._timer.cancel()
        self._timer_ns = when_ns
        self._timer = self._clock.call_at(when_ns, self._due)

    def _due(self) -> None:
        self._timer = None
        self._pump()
