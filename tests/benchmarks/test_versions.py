"""The comparison of two checkouts: when a path is called dearer, and what a row says."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import versions
from benchmarks.measure import Terms
from benchmarks.shapes import SHAPES, Shape

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


def test_a_share_of_noise_makes_no_path_dearer() -> None:
    assert [versions.verdict([100.0], [after], versions.NOISE) for after in (95.9, 96.1, 103.9, 104.1)] == [
        "cheaper", "same", "same", "dearer",
    ]  # fmt: skip


def test_a_row_has_medians_ranges_and_the_median_of_the_ratios() -> None:
    found = versions.row(NAME, {versions.BEFORE: [10.0, 20.0, 30.0], versions.AFTER: [40.0, 50.0, 90.0]})
    cells = [cell.strip() for cell in found.strip("|").split("|")]
    assert cells == [f"`{NAME}`", SHAPES[NAME].text, "20.00 (10.00-30.00)", "50.00 (40.00-90.00)", "3.00", "dearer"]
    assert found.count("|") == versions.HEAD.splitlines()[0].count("|")


def test_every_path_is_counted_in_cpu() -> None:
    assert [name for name in versions.PATHS if not SHAPES[name].unit.startswith("CPU")] == []
    assert len(set(versions.PATHS)) == len(versions.PATHS)


class Servers:
    """Stands for `Loaded`: the order of starts and rounds, and figures of the test."""

    def __init__(self, failing: set[int], failing_starts: set[int] | None = None) -> None:
        self.sides: list[str] = []
        self.starts: list[str] = []
        self.windows: list[int] = []
        self.running = 0
        self.failing = failing
        self.failing_starts = failing_starts or set()

    def __call__(self, side: str, shape: Shape, terms: Terms) -> Server:
        self.starts.append(side)
        self.windows.append(shape.window)
        if len(self.starts) in self.failing_starts:
            raise RuntimeError("the server does not start")
        return Server(self, side)


class Server:
    """One server of `Servers`."""

    def __init__(self, servers: Servers, side: str) -> None:
        self._servers, self._side = servers, side

    def __enter__(self) -> Server:
        self._servers.running += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._servers.running -= 1

    def round(self) -> dict[str, float]:
        """The figure is the number of the round, both sides counted."""
        self._servers.sides.append(self._side)
        if len(self._servers.sides) in self._servers.failing:
            raise RuntimeError("the server has ended")
        return {"cpu_us": float(len(self._servers.sides)), "instructions": 100.0 + len(self._servers.sides)}


def test_the_side_that_goes_first_changes_with_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(set())
    monkeypatch.setattr(versions, "Loaded", servers)
    found = versions.compare([NAME], 3, Terms("page", 1.0))
    before, after = versions.BEFORE, versions.AFTER
    assert servers.sides == [before, after, after, before, before, after]
    assert found == {NAME: {before: [1.0, 4.0, 5.0], after: [2.0, 3.0, 6.0]}}


def test_instructions_are_compared_with_less_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(set())
    monkeypatch.setattr(versions, "Loaded", servers)
    found = versions.compare(["mqtt-qos0"], 1, Terms("page", 1.0), versions.INSTRUCTIONS)
    assert found == {"mqtt-qos0": {versions.BEFORE: [101.0], versions.AFTER: [102.0]}}
    assert servers.windows == [versions.WINDOW_MAX] * 2


def test_servers_are_started_anew_after_some_rounds_and_all_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(set())
    monkeypatch.setattr(versions, "Loaded", servers)
    found = versions.compare([NAME], 2 * versions.ROUNDS_OF_A_SERVER + 1, Terms("page", 1.0))
    assert servers.starts == [versions.BEFORE, versions.AFTER] * 3
    assert servers.running == 0
    assert [len(rounds) for rounds in found[NAME].values()] == [2 * versions.ROUNDS_OF_A_SERVER + 1] * 2


def test_a_round_that_fails_is_left_out_on_both_sides(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(versions, "Loaded", Servers({4}))
    found = versions.compare([NAME], 3, Terms("page", 1.0))
    assert found == {NAME: {versions.BEFORE: [1.0, 5.0], versions.AFTER: [2.0, 6.0]}}
    assert capsys.readouterr().err == f"{NAME}, round 2: the server has ended\n"


def test_rounds_without_a_server_are_left_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    servers = Servers(set(), {2})
    monkeypatch.setattr(versions, "Loaded", servers)
    rounds = versions.ROUNDS_OF_A_SERVER
    found = versions.compare([NAME], rounds + 1, Terms("page", 1.0))
    assert [len(each) for each in found[NAME].values()] == [1, 1]
    assert servers.running == 0
    assert capsys.readouterr().err == f"{NAME}, rounds 1 to {rounds}: the server does not start\n"
