"""States that come and go: when they are told."""

from __future__ import annotations

from domain.hovering import SETTLED_NS, HoveringState
from domain.limits import MILLISECOND_NS, SECOND_NS
from tests.simulation.kit.clock import VirtualClock

SETTLED_MS = SETTLED_NS // MILLISECOND_NS


class Scene:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.told: list[tuple[bool, int]] = []
        self.state = HoveringState(self.clock, lambda is_on, times: self.told.append((is_on, times)))

    def hover(self, times: int, period_ms: int = 1_000) -> None:
        for _ in range(times):
            self.state.change(True)
            self.clock.run_for(period_ms // 2)
            self.state.change(False)
            self.clock.run_for(period_ms // 2)


def test_a_state_that_begins_and_ends_once_is_told_at_once() -> None:
    scene = Scene()
    assert scene.state.change(True)
    assert not scene.state.change(True), "it is there already"
    assert scene.told == [(True, 0)]
    assert scene.state.change(False)
    assert scene.told == [(True, 0), (False, 0)]


def test_a_state_that_hovers_is_told_twice_and_its_end_when_it_stays_away() -> None:
    scene = Scene()
    scene.hover(300)
    assert scene.told == [(True, 0), (False, 0), (True, 0)]
    scene.clock.run_for(SETTLED_MS)
    assert scene.told[3:] == [(False, 299)], "it says how often"


def test_a_state_that_stays_is_told_though_it_hovered() -> None:
    """The last line is never wrong about a state that lasts."""
    scene = Scene()
    scene.hover(20)
    scene.state.change(True)
    scene.clock.run_for(10 * SETTLED_MS)
    assert scene.told[-1][0] is True
    assert scene.state.is_told


def test_a_state_that_comes_back_much_later_is_told_at_once_both_times() -> None:
    scene = Scene()
    for _ in range(3):
        scene.hover(1)
        scene.clock.run_for(SETTLED_MS)
    assert scene.told == [(True, 0), (False, 0)] * 3


def test_slow_hovering_has_a_pair_of_lines_in_a_minute_at_most() -> None:
    scene = Scene()
    scene.hover(200, period_ms=14_000)
    scene.clock.run_for(SETTLED_MS)
    minutes = scene.clock.monotonic_ns() / (60 * SECOND_NS)
    assert len(scene.told) <= 6 < minutes
    assert scene.told[-1][0] is False


def test_nothing_is_told_of_one_that_was_stopped() -> None:
    scene = Scene()
    scene.hover(3)
    scene.state.stop()
    scene.clock.run_for(2 * SETTLED_MS)
    assert scene.told == [(True, 0), (False, 0), (True, 0)]
