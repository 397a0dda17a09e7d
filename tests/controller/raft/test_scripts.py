"""Scripts and what they must show: tests/controller/raft/scripts/*.txt.

    python -m tests.controller.raft.test_scripts    writes what the scripts show now into them, to be read before it is believed

A script is blocks: comments, a command of scene.py, `----`, what it shows, an empty line.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.controller.raft.scene import Scene

SCRIPTS = Path(__file__).parent / "scripts"
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.txt"))
MARK = "----"


def replayed(text: str) -> str:
    """The script with what its commands show now."""
    scene = Scene()
    lines: list[str] = []
    for block in re.split("\n{2,}", text.rstrip("\n")):
        head = block.split(f"\n{MARK}")[0].splitlines()
        lines += head
        shown = [line for command in head if not command.startswith("#") for line in scene.run(command)]
        lines += [MARK, *shown] if shown else []
        lines.append("")
    return "\n".join(lines)


@pytest.mark.parametrize("name", NAMES)
def test_script_shows_what_it_says(name: str) -> None:
    text = (SCRIPTS / f"{name}.txt").read_text("utf-8")
    assert replayed(text) == text


def test_scripts_are_there() -> None:
    assert len(NAMES) >= 12


if __name__ == "__main__":
    for each in NAMES:
        path = SCRIPTS / f"{each}.txt"
        path.write_text(replayed(path.read_text("utf-8")), "utf-8")
