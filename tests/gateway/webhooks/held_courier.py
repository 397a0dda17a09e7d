"""A courier whose requests wait until a test answers them, and the process around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from domain.ports import Clock
from domain.subscription.courier import SinkAnswer, SinkRequest, Trouble
from gateway.connection.handler import Handler
from gateway.webhooks.delivery.delivery_process import ClaimExpiry, DeliveryProcess
from gateway.webhooks.delivery.outbox import DeliveryOutbox
from gateway.webhooks.internal_client import InternalClient
from tests.gateway.scripted import RecordingHandler
from tests.simulation.kit.entropy import SeededEntropy


class HeldCourier:
    """`domain.subscription.courier.Courier`. `sent`: all requests; `waiting`: what is to be told of those without an answer."""

    def __init__(self) -> None:
        self.sent: list[SinkRequest] = []
        self.waiting: list[Callable[[SinkAnswer], None]] = []

    def send(self, delivery: SinkRequest, done: Callable[[SinkAnswer], None]) -> Callable[[], None]:
        """As the port says."""
        self.sent.append(delivery)
        self.waiting.append(done)
        return lambda: self.waiting.remove(done)

    def answer(self, status: int, trouble: Trouble | None = None, fields: Sequence[tuple[str, str]] = ()) -> None:
        """Answer all that wait."""
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(SinkAnswer(status, fields, trouble=trouble))


def process_of(courier: HeldCourier, clock: Clock, handler: Handler | None = None, callback: str = "") -> DeliveryProcess:
    """A process with origin `me.example` whose commands `handler` takes; None: nobody answers them."""
    counters: Counter[str] = Counter()
    client = InternalClient(handler or RecordingHandler(), lambda: None)
    outbox = DeliveryOutbox(client, clock, counters)
    entropy = SeededEntropy(1)
    return DeliveryProcess(courier, clock, entropy, "me.example", callback, counters, ClaimExpiry(), client, outbox)
