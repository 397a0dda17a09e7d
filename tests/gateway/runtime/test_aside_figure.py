"""What a replica says of what it has set aside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from domain.limits import MILLISECOND_NS
from domain.set_aside import KeptAside
from domain.turn import WALKS_NS
from domain.walk import STEP_NS, Walks
from gateway.runtime import aside_figure
from gateway.runtime.aside_figure import LOOK_NS, AsideFigure
from tests.simulation.kit.clock import VirtualClock
from tests.turns import most_in_a_turn


def later(clock: VirtualClock) -> None:
    clock.run_for(LOOK_NS // MILLISECOND_NS + 1)


def keep(folder: Path, name: str, size: int) -> None:
    path = folder / "set-aside" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))


def test_folders_and_their_bytes_are_counted_now_and_then(tmp_path: Path) -> None:
    clock = VirtualClock()
    figure = AsideFigure(tmp_path, Walks(clock))
    assert figure.look() == KeptAside(0, 0)
    for name, size in (("log-5/log/a", 10), ("log-5/log/b", 20), ("behind/log/c", 5)):
        keep(tmp_path, name, size)
    assert figure.look() == KeptAside(0, 0), "a heartbeat does not look at the disk each time"
    later(clock)
    assert figure.look() == KeptAside(2, 35)


def test_a_turn_looks_at_a_few_files_and_the_figure_stays_until_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Watched:
        """`os.scandir`, which notes what it has given."""

        def __init__(self, place: Path) -> None:
            self._found = os.scandir(place)

        def __enter__(self) -> Iterator[os.DirEntry[str]]:
            for each in self._found:
                seen.append(each.name)
                yield each

        def __exit__(self, *_: object) -> None:
            self._found.close()

    clock = VirtualClock()
    figure = AsideFigure(tmp_path, Walks(clock))
    figure.look()
    for number in range(1_000):
        keep(tmp_path, f"log-5/log/{number}", 3)
    monkeypatch.setattr(aside_figure, "scandir", Watched)
    later(clock)
    assert figure.look() == KeptAside(0, 0)
    assert 0 < len(seen) <= WALKS_NS // STEP_NS
    assert most_in_a_turn(clock, lambda: len(seen), 1_002) <= WALKS_NS // STEP_NS
    assert figure.look() == KeptAside(1, 3_000)


def test_what_the_disk_does_not_give_counts_as_before_and_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    figure = AsideFigure(tmp_path, Walks(clock))
    keep(tmp_path, "log-5/log/a", 10)
    assert figure.look() == KeptAside(1, 10)
    keep(tmp_path, "log-5/log/b", 10)

    def broken(place: Path) -> None:
        raise OSError(5, "an error of the disk", str(place))

    with monkeypatch.context() as patch:
        patch.setattr(aside_figure, "scandir", broken)
        later(clock)
        assert figure.look() == KeptAside(1, 10)
    later(clock)
    assert figure.look() == KeptAside(1, 20)
