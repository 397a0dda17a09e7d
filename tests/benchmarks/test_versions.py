"""The comparison of two checkouts: when a path is called dearer, and what a row says."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import versions
from benchmarks.measure import Terms
from benchmarks.shapes import SHAPES

ROUNDS = st.lists(st.integers(1, 50).map(float), min_size=1, max_size=9)
NAME = "mqtt-qos1"


@given(ROUNDS, ROUNDS)
def test_a_verdict_needs_a_median_outside_every_round_of_the_other_side(before: list[float], after: list[float]) -> None:
    median = statistics.median(after)
    expected = {(True, False): "dearer", (False, True): "cheaper", (False, False): "same"}
    assert (
        versions.verdict(before, after)
        == expected[all(median > each for each in before), all(median < each for each in before)]
    )


def test_one_bad_round_makes_no_path_dearer() -> None:
    assert versions.verdict([10.0, 11.0, 12.0], [10.0, 11.0, 500.0]) == "same"


def test_a_row_has_medians_ranges_and_the_median_of_the_ratios() -> None:
    found = versions.row(NAME, {versions.BEFORE: [10.0, 20.0, 30.0], versions.AFTER: [40.0, 50.0, 90.0]})
    cells = [cell.strip() for cell in found.strip("|").split("|")]
    assert cells == [f"`{NAME}`", SHAPES[NAME].text, "20.0 (10.0-30.0)", "50.0 (40.0-90.0)", "3.00", "dearer"]
    assert found.count("|") == versions.HEAD.splitlines()[0].count("|")


def test_every_path_is_counted_in_cpu() -> None:
    assert [name for name in versions.PATHS if not SHAPES[name].unit.startswith("CPU")] == []
    assert len(set(versions.PATHS)) == len(versions.PATHS)


class Measured:
    """Stands for `measure`: the order of the calls, and figures of the test."""

    def __init__(self, failing: set[int]) -> None:
        self.sides: list[str] = []
        self.failing = failing

    def __call__(self, side: str, shape: object, terms: Terms) -> dict[str, float]:
        self.sides.append(side)
        if len(self.sides) in self.failing:
            raise RuntimeError("the server has ended")
        return {"cpu_us": float(len(self.sides))}


def test_the_side_that_goes_first_changes_with_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Measured(set())
    monkeypatch.setattr(versions, "measure", measured)
    found = versions.compare([NAME], 3, Terms("page", 1.0))
    before, after = versions.BEFORE, versions.AFTER
    assert measured.sides == [before, after, after, before, before, after]
    assert found == {NAME: {before: [1.0, 4.0, 5.0], after: [2.0, 3.0, 6.0]}}


def test_a_round_that_fails_is_left_out_on_both_sides(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(versions, "measure", Measured({4}))
    found = versions.compare([NAME], 3, Terms("page", 1.0))
    assert found == {NAME: {versions.BEFORE: [1.0, 5.0], versions.AFTER: [2.0, 6.0]}}
    assert capsys.readouterr().err == f"{NAME}, round 2: the server has ended\n"
