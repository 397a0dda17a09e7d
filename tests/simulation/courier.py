"""A sink of webhooks behind a simulated courier: it answers, refuses, delays and hangs at random."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from domain.limits import MILLISECOND_NS
from domain.subscription.courier import ANSWER_BYTES_MAX, SinkAnswer, SinkRequest, Trouble
from tests.simulation.kit.clock import ProcessClock

CONSENT = [("webhook-allowed-origin", "*")]


@dataclass
class Arrival:
    """One request that the sink has taken.

    owner   whose courier brought it
    number  of the try, as the request says
    url     where it was sent
    until   when its answer was given; 0: not yet
    """

    owner: str
    began: int
    identity: str
    body: bytes
    status: int
    number: int
    url: str
    until: int = 0


class SimulatedSink:
    """What arrived.

    weather   statuses that answers are drawn from; 0 stands for no answer, -1 for a connection that breaks
              -2 for one of 64 KiB that has more
    hangs     URL that never answers; "": there is none
    asked_s   each Retry-After that it has said
    """

    def __init__(self, chance: random.Random, weather: tuple[int, ...] = (200,)) -> None:
        self.chance = chance
        self.weather = weather
        self.arrivals: list[Arrival] = []
        self.delay_ms = (0, 1, 5, 50, 400)
        self.hangs = ""
        self.asked_s: list[int] = []

    def delivered(self) -> list[bytes]:
        """Bodies that were answered with 2xx, in the order of the answers."""
        done = [each for each in self.arrivals if each.until and 200 <= each.status < 300]
        return [each.body for each in sorted(done, key=lambda each: each.until)]


class SimulatedCourier:
    """`Courier` of one process. What it brought arrives, whether or not the process lives when the answer comes."""

    def __init__(self, life: ProcessClock, sink: SimulatedSink, owner: str) -> None:
        self._life = life
        self._sink = sink
        self._owner = owner
        self.sent: list[SinkRequest] = []

    def send(self, delivery: SinkRequest, done: Callable[[SinkAnswer], None]) -> Callable[[], None]:
        self.sent.append(delivery)
        sink, chance = self._sink, self._sink.chance
        now = self._life.monotonic_ns()
        if delivery.method == "OPTIONS":
            self._life.call_at(now + MILLISECOND_NS, lambda: done(SinkAnswer(200, CONSENT)))
            return lambda: None
        identity = next(value for name, value in delivery.fields if name == "webhook-id")
        number = int(next(value for name, value in delivery.fields if name == "mq-attempt"))
        status = 0 if delivery.url == sink.hangs else chance.choice(sink.weather)
        arrival = Arrival(self._owner, now, identity, delivery.body, status, number, delivery.url)
        sink.arrivals.append(arrival)
        ended: list[bool] = []

        def end() -> None:
            ended.append(True)

        def answer() -> None:
            if ended:
                return
            arrival.until = self._life.monotonic_ns()
            if status == 0:
                done(SinkAnswer(0, trouble=Trouble.TIMEOUT, text="no answer"))
            elif status == -2:
                done(SinkAnswer(200, body=bytes(ANSWER_BYTES_MAX), cut=True))
            elif status < 0:
                done(SinkAnswer(0, trouble=Trouble.CONNECTION, text="the connection broke"))
            elif status == 429:
                sink.asked_s.append(chance.choice((0, 1, 7, 10**9)))
                done(SinkAnswer(429, [("retry-after", str(sink.asked_s[-1]))]))
            else:
                done(SinkAnswer(status, [], b"said"))

        delay_ms = delivery.timeout_ms if status == 0 else chance.choice(sink.delay_ms)
        self._life.call_at(now + delay_ms * MILLISECOND_NS, answer)
        return end
