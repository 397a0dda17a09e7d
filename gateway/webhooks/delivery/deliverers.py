"""Deliverers of this process: it claims subscriptions, and runs a Deliverer for each."""

from __future__ import annotations

from typing import Final, final

from domain.admin.subscription import Claim, ClaimSubscriptions, DeliveryReport, SubscriptionsClaimed
from domain.event import Event
from domain.limits import SECOND_NS
from domain.ports import Clock, Entropy, Timer
from domain.subscription.courier import Courier
from domain.subscription.document import decode
from domain.subscription.subscription import CLAIM_NS, SUBSCRIPTIONS_MAX
from gateway.connection.handler import Handler
from gateway.webhooks.delivery.deliverer import Deliverer
from gateway.webhooks.delivery.delivery_process import ClaimExpiry, DeliveryProcess
from gateway.webhooks.delivery.outbox import DeliveryOutbox
from gateway.webhooks.internal_client import InternalClient
from gateway.webhooks.subscriptions.wildcard_sources import topics_in

WAIT_MS: Final = 4_000
"""Time for which the store holds a ClaimSubscriptions request when nothing has changed."""
MARGIN_NS: Final = SECOND_NS
"""Delivery stops this long before the claims expire and another owner may start."""
AGAIN_NS: Final = SECOND_NS // 2
PAUSE_NS: Final = SECOND_NS // 10
"""Pause between an answer and the next request: changes within it arrive in one answer."""
COUNTED: Final = (
    "attempts", "delivered", "filtered", "retried", "dead", "suspended", "breaker-opened", "refused", "unsettled", "unrecorded",
    "replies-illegal", "claims-lost", "unknown", "timeouts", "answers-cut", "waits-capped",
)  # fmt: skip
"""Names of the counters, in the order of the metrics page."""


@final
class Deliverers:
    """All deliveries of this process."""

    def __init__(
        self, handler: Handler, courier: Courier, clock: Clock, entropy: Entropy, origin: str, callback: str = ""
    ) -> None:
        self._handler = handler
        self._clock = clock
        self._owner = entropy.token(8).hex()
        self._known: dict[str, tuple[bytes, Deliverer]] = {}
        self._left: list[DeliveryReport] = []
        self._version = -1
        self._question = 0
        self._timer: Timer | None = None
        self._stopped = False
        self.counters = dict.fromkeys(COUNTED, 0)
        self._term = ClaimExpiry()
        self._means = (courier, clock, entropy, origin, callback)
        self._process = self._made()

    def _made(self) -> DeliveryProcess:
        """This process with a client of its own at the store."""
        client = InternalClient(self._handler, self._lost)
        outbox = DeliveryOutbox(client, self._clock, self.counters)
        return DeliveryProcess(*self._means, self.counters, self._term, client, outbox)

    def start(self) -> None:
        """Start claiming subscriptions."""
        self._claim()

    @property
    def subscriptions(self) -> int:
        """Number of subscriptions that this process delivers for."""
        return len(self._known)

    @property
    def under_way(self) -> int:
        """Number of requests in flight, over all subscriptions."""
        return sum(deliverer.under_way for _, deliverer in self._known.values())

    def figures(self) -> dict[str, float]:
        """Counters by their names on the metrics page."""
        found: dict[str, float] = {f"webhook_{what.replace('-', '_')}_total": count for what, count in self.counters.items()}
        found["webhook_subscriptions"] = self.subscriptions
        found["webhook_under_way"] = self.under_way
        found["webhook_topics_left_out"] = sum(deliverer.left_out for _, deliverer in self._known.values())
        return found

    def stop(self) -> None:
        """End all deliveries, and release the claims."""
        if self._stopped:
            return
        self._stopped = True
        self._end_all(release=True)
        self._process.outbox.flush()
        if self._timer is not None:
            self._timer.cancel()
        self._process.client.ask(lambda ticket: ClaimSubscriptions(ticket, self._owner, 0), lambda event: None)

    def _claim(self) -> None:
        if self._stopped:
            return
        self._question += 1
        question = self._question
        asked_ns = self._clock.monotonic_ns()
        self._arm()
        self._process.client.ask(
            lambda ticket: ClaimSubscriptions(ticket, self._owner, SUBSCRIPTIONS_MAX, self._version, WAIT_MS),
            lambda event: self._claimed(question, asked_ns, event),
        )

    def _arm(self) -> None:
        """Set the timer that ends all deliveries MARGIN_NS before the claims expire, and claims again, if no answer arrives."""
        if self._timer is not None:
            self._timer.cancel()
        due = self._term.until_ns or self._clock.monotonic_ns() + CLAIM_NS - MARGIN_NS
        self._timer = self._clock.call_at(due, self._lost)

    def _lost(self) -> None:
        """The claims were not renewed in time, or the store has closed the client: end all deliveries, and claim again."""
        if self._stopped:
            return
        if self._known:
            self.counters["claims-lost"] += 1
        if self._timer is not None:
            self._timer.cancel()
        self._end_all(release=False)
        self._left += self._process.outbox.end()
        self._process.client.end()
        self._process = self._made()
        self._version = -1
        self._term.until_ns = 0
        self._question += 1
        self._clock.call_at(self._clock.monotonic_ns() + AGAIN_NS, self._claim)

    def _claimed(self, question: int, asked_ns: int, event: Event) -> None:
        if self._stopped or question != self._question:
            return
        if not isinstance(event, SubscriptionsClaimed):
            self._question += 1
            self._clock.call_at(self._clock.monotonic_ns() + AGAIN_NS, self._claim)
            return
        until_ns = asked_ns + CLAIM_NS - MARGIN_NS
        if self._clock.monotonic_ns() >= until_ns:  # this process was paused: the answer is too old
            self._lost()
            return
        self._term.until_ns = until_ns
        self._process.outbox.again(self._left)
        self._left = []
        self._version = event.version
        self._follow(event)
        self._clock.call_at(self._clock.monotonic_ns() + PAUSE_NS, self._claim)

    def _follow(self, event: SubscriptionsClaimed) -> None:
        """Start, renew and stop deliverers, so that there is one for each claim, with the claim's current record."""
        gone = set(event.gone)
        if event.whole:
            gone = self._known.keys() - {claim.id for claim in event.claims}
        for identity in gone:
            known = self._known.pop(identity, None)
            if known is not None:
                known[1].stop(release=True)
        for claim in event.claims:
            deliverer = self._deliverer(claim)
            for serial in claim.tests:
                deliverer.test(serial)

    def _deliverer(self, claim: Claim) -> Deliverer:
        """The deliverer of a claim: the running one if nothing or only the status has changed, else a new one."""
        known = self._known.get(claim.id)
        if known is not None and known[0] == claim.record and known[1].epoch == claim.epoch:
            return known[1]
        subscription = decode(claim.record)
        if known is not None and known[1].epoch == claim.epoch and known[1].renew(subscription):
            known[1].follow(*topics_in(claim.record, subscription))
            self._known[claim.id] = (claim.record, known[1])
            return known[1]
        if known is not None:
            known[1].stop(release=True)
        made = Deliverer(subscription, claim.epoch, self._process, topics_in(claim.record, subscription))
        self._known[claim.id] = (claim.record, made)
        made.start()
        return made

    def _end_all(self, release: bool) -> None:
        for _, deliverer in self._known.values():
            deliverer.stop(release)
        self._known.clear()
