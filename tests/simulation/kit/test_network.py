"""A network of messages loses, repeats and delays them as its weather says."""

from __future__ import annotations

import random

from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.network import Messages, Weather, between


class Net:
    """A network of numbers, and what has arrived: (step, receiver, number)."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.arrived: list[tuple[int, int, int]] = []
        self.messages: Messages[int] = Messages(random.Random(1), self._after, self._deliver)

    def _after(self, steps: int, call: object) -> None:
        self.clock.call_at(self.clock.monotonic_ns() + steps, call)  # type: ignore[arg-type]

    def _deliver(self, to: int, number: int) -> None:
        self.arrived.append((self.clock.monotonic_ns(), to, number))

    def run(self, weather: Weather) -> list[tuple[int, int, int]]:
        """Send 1,000 messages from 1 to 2 at once, and wait."""
        self.messages.weather = weather
        for number in range(1_000):
            self.messages.send(1, 2, number)
        self.clock.run_for(1)
        return self.arrived


def test_in_fair_weather_each_message_arrives_once_within_five_steps() -> None:
    arrived = Net().run(Weather())
    assert sorted(number for _, _, number in arrived) == list(range(1_000))
    assert {(step, to) for step, to, _ in arrived} == {(step, 2) for step in range(1, 6)}


def test_messages_are_lost_doubled_and_late_as_often_as_the_weather_says() -> None:
    assert 650 < len(Net().run(Weather(lost=0.3))) < 750
    assert 1_250 < len(Net().run(Weather(doubled=0.3))) < 1_350
    assert 200 < len([step for step, _, _ in Net().run(Weather(late=0.3)) if step > 5]) < 350


def test_nothing_arrives_where_nothing_passes_when_it_would_arrive() -> None:
    net = Net()
    net.messages.send(1, 2, 7)
    net.messages.blocked = between([1], [1, 2, 3])
    assert net.messages.blocked == {(1, 2), (2, 1), (1, 3), (3, 1)}
    net.messages.send(2, 3, 8)
    net.clock.run_for(1)
    assert [(to, number) for _, to, number in net.arrived] == [(3, 8)]
