"""Sinks that consent at the callback URL: messages wait for them, and their consent outlives its owner, not its end."""

from __future__ import annotations

from collections.abc import Callable

from domain.admin.subscription import ChangeStatus, GrantConsent, QuerySubscriptions, SubscriptionFound
from domain.errors import ErrorCode
from domain.event import Done, Refused
from domain.limits import MILLISECOND_NS
from domain.subscription.courier import SinkAnswer, SinkRequest
from domain.subscription.document import decode
from domain.subscription.subscription import Status, WebhookSubscription
from gateway.webhooks.delivery.deliverers import Deliverers
from tests.simulation.courier import SimulatedCourier, SimulatedSink
from tests.simulation.kit.clock import ProcessClock
from tests.simulation.kit.entropy import SeededEntropy
from tests.simulation.test_webhooks import Hooks

DAY_MS = 24 * 3_600_000


class SilentCourier:
    """A courier to a sink whose answers to OPTIONS have no consent. `asked`: those questions."""

    def __init__(self, life: ProcessClock, sink: SimulatedSink, owner: str, asked: list[SinkRequest]) -> None:
        self._life = life
        self._deliveries = SimulatedCourier(life, sink, owner)
        self._asked = asked

    def send(self, delivery: SinkRequest, done: Callable[[SinkAnswer], None]) -> Callable[[], None]:
        """As the port says."""
        if delivery.method != "OPTIONS":
            return self._deliveries.send(delivery, done)
        self._asked.append(delivery)
        self._life.call_at(self._life.monotonic_ns() + MILLISECOND_NS, lambda: done(SinkAnswer(204)))
        return lambda: None


class SilentHooks(Hooks):
    """A world with one process that delivers to such a sink, beside the node's gate."""

    def __init__(self, weather: tuple[int, ...] = (200,)) -> None:
        super().__init__(7, weather)
        self.asked: list[SinkRequest] = []

    def deliver(self, owner: str) -> None:
        """Start it, in the place of the one before, which is killed."""
        self.kill(owner)
        assert self.world.parts is not None
        life = self.processes[owner] = ProcessClock(self.world.clock)
        courier = SilentCourier(life, self.sink, owner, self.asked)
        entropy = SeededEntropy(len(self.asked))
        Deliverers(self.world.parts.gate, courier, life, entropy, "sim", "https://me.example").start()

    def status(self, subscription: WebhookSubscription) -> Status:
        """As it is now."""
        found = self.ask(lambda ticket: QuerySubscriptions(ticket, subscription.id))
        assert isinstance(found, SubscriptionFound)
        return decode(found.record).status

    def change(self, subscription: WebhookSubscription, status: Status) -> None:
        """A person pauses or resumes."""
        found = self.ask(lambda ticket: ChangeStatus(ticket, subscription.id, status.value))
        assert isinstance(found, SubscriptionFound)
        self.world.clock.run_for(2_000)

    def consent(self, subscription: WebhookSubscription, rate: int = 0) -> None:
        """The sink calls the URL that it was told."""
        url = dict(self.asked[-1].fields)["webhook-request-callback"]
        assert url == f"https://me.example/subscriptions/{subscription.id}:consent?key={subscription.consent_key}"
        found = self.ask(lambda ticket: GrantConsent(ticket, subscription.id, url.rpartition("=")[2], rate))
        assert isinstance(found, Done), found
        self.world.clock.run_for(2_000)


def test_messages_wait_for_a_sink_that_consents_later() -> None:
    hooks = SilentHooks()
    hooks.deliver("a")
    subscription = hooks.subscribe()
    hooks.send(b"1")
    hooks.world.clock.run_for(60_000)
    assert (hooks.status(subscription), hooks.sink.arrivals, len(hooks.asked)) == (Status.PENDING, [], 1)
    for identity, key in ((subscription.id, ""), (subscription.id, "0" * 48), ("unknown", subscription.consent_key)):
        found = hooks.ask(lambda ticket, identity=identity, key=key: GrantConsent(ticket, identity, key))
        assert isinstance(found, Refused)
        assert found.failure.code is ErrorCode.SUBSCRIPTION_NOT_FOUND
    hooks.world.clock.run_for(60_000)
    assert hooks.sink.arrivals == []
    hooks.consent(subscription)
    hooks.settle(subscription, 60)
    assert (hooks.status(subscription), hooks.sink.delivered()) == (Status.ACTIVE, [b"1"])


def test_consent_outlives_its_owner_and_the_node() -> None:
    hooks = SilentHooks()
    hooks.deliver("a")
    subscription = hooks.subscribe()
    hooks.world.clock.run_for(2_000)
    hooks.consent(subscription)
    hooks.again(power=True)
    hooks.deliver("b")
    hooks.kill("a")
    hooks.send(b"1")
    hooks.settle(subscription, 60)
    assert len(hooks.asked) == 1
    hooks.world.clock.run_for(DAY_MS)
    assert len(hooks.asked) == 2, "a sink is asked anew each day"
    hooks.send(b"2")
    hooks.world.clock.run_for(60_000)
    assert (hooks.status(subscription), hooks.sink.delivered()) == (Status.PENDING, [b"1"])
    hooks.consent(subscription)
    hooks.settle(subscription, 60)


def test_the_rate_that_a_sink_grants_is_kept() -> None:
    hooks = SilentHooks()
    hooks.deliver("a")
    subscription = hooks.subscribe()
    hooks.world.clock.run_for(2_000)
    hooks.consent(subscription, rate=60)
    for number in range(20):
        hooks.send(b"%d" % number)
    hooks.world.clock.run_for(10_000)
    assert 8 <= len(hooks.sink.arrivals) <= 14, "one a second"
    hooks.settle(subscription, 60)


def test_after_the_end_of_a_sink_its_consent_is_asked_for_anew() -> None:
    hooks = SilentHooks((410,))
    hooks.deliver("a")
    subscription = hooks.subscribe()
    hooks.world.clock.run_for(2_000)
    hooks.consent(subscription)
    hooks.send(b"1")
    hooks.world.clock.run_for(10_000)
    assert hooks.status(subscription) is Status.SUSPENDED
    hooks.sink.weather = (200,)
    hooks.change(subscription, Status.ACTIVE)
    hooks.world.clock.run_for(60_000)
    assert (hooks.status(subscription), len(hooks.asked), len(hooks.sink.arrivals)) == (Status.PENDING, 2, 1)
    hooks.consent(subscription)
    hooks.settle(subscription, 60)


def test_a_pause_does_not_end_with_a_consent() -> None:
    hooks = SilentHooks()
    hooks.deliver("a")
    subscription = hooks.subscribe()
    hooks.world.clock.run_for(2_000)
    hooks.change(subscription, Status.PAUSED)
    hooks.consent(subscription)
    assert hooks.status(subscription) is Status.PAUSED
