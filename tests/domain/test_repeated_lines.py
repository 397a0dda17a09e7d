"""Lines that recur: the first at once, then one with the number of them."""

from __future__ import annotations

import logging

import pytest

from domain.repeated_lines import AFTER_NS, EVERY_NS, TEXTS_MAX, RepeatedLines
from tests.simulation.kit.clock import VirtualClock

MS = 1_000_000


class Lines:
    """Lines of a log of its own."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.clock = VirtualClock()
        self.lines = RepeatedLines(logging.getLogger("tests.repeated"), self.clock)
        self._caplog = caplog
        caplog.set_level(logging.INFO, "tests.repeated")

    def said(self) -> list[str]:
        found = [each.getMessage() for each in self._caplog.records if each.name == "tests.repeated"]
        self._caplog.clear()
        return found


def test_events_of_one_text_are_one_line_with_their_number(caplog: pytest.LogCaptureFixture) -> None:
    scene = Lines(caplog)
    for _ in range(5 * 31):
        scene.lines.event(logging.INFO, "the set is to be [1, 2]")
        scene.clock.run_for(200)
    text = "the set is to be [1, 2]"
    assert scene.said() == [text, f"{text} (50 times in 10 s)", f"{text} (50 times in 10 s)", f"{text} (50 times in 10 s)"]


def test_two_texts_in_turn_are_no_new_ones(caplog: pytest.LogCaptureFixture) -> None:
    scene = Lines(caplog)
    for number in range(40):
        scene.lines.event(logging.INFO, ("a", "b")[number % 2])
        scene.clock.run_for(200)
    assert scene.said() == ["a", "b"]
    scene.lines.forget()
    scene.lines.event(logging.INFO, "a")
    assert scene.said() == ["a"], "after it was over it is new"


def test_no_more_texts_are_remembered_than_the_bound(caplog: pytest.LogCaptureFixture) -> None:
    scene = Lines(caplog)
    for number in range(3 * TEXTS_MAX):
        scene.lines.event(logging.INFO, str(number))
    assert len(scene.lines._events) == TEXTS_MAX
    scene.said()
    scene.lines.event(logging.INFO, str(3 * TEXTS_MAX - 1))
    assert scene.said() == []


def test_a_state_is_told_once_it_lasts_and_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    scene = Lines(caplog)

    def look(text: str, ns: int) -> list[str]:
        for _ in range(ns // (100 * MS)):
            scene.lines.state(logging.WARNING, text)
            scene.clock.run_for(100)
        return scene.said()

    assert look("waits", AFTER_NS) == [], "what ends soon is not worth a line"
    assert look("waits", 100 * MS) == ["waits"]
    assert look("waits", 3 * EVERY_NS) == ["waits"] * 3
    assert look("", EVERY_NS) == []
    assert look("waits", AFTER_NS) == []
    assert look("waits for another", EVERY_NS) == ["waits for another"]
