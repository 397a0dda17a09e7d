"""Counting instructions: what is asked of callgrind, and what its dump says. A script stands for callgrind_control."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.callgrind import TRIES, Callgrind
from benchmarks.servers import AbsentError

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the preloaded clock needs a C compiler")


def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, control: str) -> Callgrind:
    """A counter of process 7, with a `callgrind_control` that appends its arguments to `asked` and then does `control`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in (("valgrind", ""), ("callgrind_control", f'echo "$@" >> {tmp_path}/asked\n{control}')):
        program = folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    found = Callgrind(tmp_path)
    found.pid = 7
    return found


def test_instructions_are_those_of_the_dump_between_begin_and_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dump = f'[ "$1" != --dump ] || echo "totals: 12345" > {tmp_path}/callgrind/7.1'
    counting = counter(tmp_path, monkeypatch, dump)
    (tmp_path / "callgrind" / "7.0").write_text("totals: 1\n")
    counting.begin()
    assert counting.end() == 12_345
    assert (tmp_path / "asked").read_text().splitlines() == ["--instr=on 7", "--zero 7", "--dump 7", "--instr=off 7"]


def test_a_dump_without_totals_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="no totals"):
        counter(tmp_path, monkeypatch, "true").end()


def test_a_busy_process_is_asked_again_and_then_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="Error: busy"):
        counter(tmp_path, monkeypatch, "echo Error: busy").begin()
    assert len((tmp_path / "asked").read_text().splitlines()) == TRIES


def test_without_valgrind_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AbsentError, match="apt install"):
        Callgrind(tmp_path)
