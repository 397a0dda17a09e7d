"""Damage at rest: a wrong bit anywhere, an emptied file, a missing file. It is told, or costs nothing that was promised."""

from __future__ import annotations

import pytest

from tests.simulation.kit.disk import MemoryDisk
from tests.store.faults.flips import Directory, flip, flips
from tests.store.faults.soak import SOAK

SEEDS = range(40 if SOAK else 4)
STEP = 7 if SOAK else 211


@pytest.mark.parametrize("seed", SEEDS)
def test_one_wrong_bit_anywhere(seed: int) -> None:
    flips(seed, 200 if SOAK else 25)


@pytest.mark.parametrize("seed", range(3 if SOAK else 1))
def test_one_wrong_bit_in_every_region_of_every_file(seed: int) -> None:
    directory = Directory(seed)
    ends = {
        (name.split("/")[0], flip(directory, name, at))
        for name in directory.files()
        for at in range(seed % STEP, len(directory.disk.files[name].data), STEP)
    }
    assert {told for folder, told in ends if folder == "log"} <= {"refused", "unreadable"}, "damage to the log is always told"
    assert {"log", "index", "keys", "promise"} <= {folder for folder, _ in ends}


@pytest.mark.parametrize("seed", SEEDS)
def test_an_emptied_or_missing_file(seed: int) -> None:
    directory = Directory(seed)
    for name in directory.files():
        ends = directory.damaged(name, lambda disk, name: disk.files[name].data.clear()), directory.damaged(name, remove)
        if name.startswith("log/"):
            assert ends == ("refused", "refused"), "a node never starts over in silence"


def remove(disk: MemoryDisk, name: str) -> None:
    """Delete a file behind the node's back."""
    del disk.files[name]
