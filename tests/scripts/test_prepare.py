"""`./up` serves at once and compiles beside the server; tests and `make compile` wait for the compilation."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.runtime.compiled import under_way
from tests.patience import until
from tests.scripts.tree import FAILURE, ROOT, Tree

PATIENCE_S = 60.0
COMPILE = "setup.py -q compile"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tree]:
    """A tree with stand-ins. Compilations end with the test."""
    monkeypatch.delenv("HEADGATE_PURE", raising=False)
    tree = Tree(tmp_path)
    yield tree
    tree.end()
    until(lambda: not under_way(tmp_path), PATIENCE_S)


def compiled(tree: Tree) -> bool:
    """Whether a compilation has ended and written the files that the next start checks."""
    return not under_way(tree.root) and (tree.root / ".compiled" / "tools").exists()


def test_server_starts_and_ends_while_the_compilation_is_under_way(tree: Tree) -> None:
    status, out, err = tree.run("./up")
    assert (status, out.split()[0]) == (0, "serving")
    assert "compilation goes on beside the server" in err
    until(lambda: under_way(tree.root), PATIENCE_S)
    tree.go()
    until(lambda: compiled(tree), PATIENCE_S)
    assert not (tree.root / ".compiled.log").exists()


def test_next_start_installs_and_compiles_nothing(tree: Tree) -> None:
    tree.go()
    tree.run("./up")
    until(lambda: compiled(tree), PATIENCE_S)
    calls = tree.calls()
    status, out, err = tree.run("./up")
    assert (status, err) == (0, "")
    assert "gcc:" in out
    assert tree.calls() == calls


def test_changed_source_is_compiled_again(tree: Tree) -> None:
    tree.go()
    for edit in ("", "# edited\n"):
        (tree.root / "setup.py").write_text((tree.root / "setup.py").read_text() + edit)
        tree.run("./up")
        until(lambda: compiled(tree), PATIENCE_S)
    assert tree.calls().count(COMPILE) == 2


def test_up_becomes_the_server_and_ctrl_c_ends_the_server_alone(tree: Tree) -> None:
    process = tree.start("./up", SERVE="yes")
    assert process.stdout is not None
    assert process.stdout.readline().split()[:2] == ["serving", str(process.pid)]
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=PATIENCE_S) == -signal.SIGINT
    until(lambda: under_way(tree.root), PATIENCE_S)
    tree.go()
    until(lambda: compiled(tree), PATIENCE_S)


def test_two_starts_at_the_same_time_compile_once(tree: Tree) -> None:
    tree.run("./up")
    status, out, err = tree.run("./up")
    assert (status, out.split()[0]) == (0, "serving")
    assert "another process is compiling" in err
    tree.go()
    until(lambda: compiled(tree), PATIENCE_S)
    assert tree.calls().count(COMPILE) == 1


def test_tests_wait_for_the_compilation_that_up_has_begun(tree: Tree) -> None:
    tree.run("./up")
    waiting = tree.start("bash", "-c", ". scripts/prepare && compile && cat .compiled/tools")
    tree.go()
    out, _ = waiting.communicate(timeout=PATIENCE_S)
    assert waiting.returncode == 0
    assert out.startswith("gcc:")
    assert tree.calls().count(COMPILE) == 1


def test_required_compilation_comes_before_the_server(tree: Tree) -> None:
    tree.go()
    status, out, err = tree.run("./up", HEADGATE_REQUIRE_COMPILED="1")
    assert status == 0
    assert "gcc:" in out
    assert "headgate: translating" in err
    assert not under_way(tree.root)


def test_required_compilation_that_fails_refuses_the_start(tree: Tree) -> None:
    tree.go()
    (tree.root / "setup.py").write_text(FAILURE)
    status, out, err = tree.run("./up", HEADGATE_REQUIRE_COMPILED="1")
    assert (status, out) == (1, "")
    assert "the reason is in .compiled.log" in err
    assert "no such luck" in (tree.root / ".compiled.log").read_text()


def test_compilation_that_fails_leaves_its_reason_and_is_tried_again(tree: Tree) -> None:
    tree.go()
    (tree.root / "setup.py").write_text(FAILURE)
    for tried in (1, 2):
        status, out, _ = tree.run("./up")
        assert (status, out.split()[0]) == (0, "serving")
        until(lambda: not under_way(tree.root), PATIENCE_S)
        assert tree.calls().count(COMPILE) == tried
        assert "no such luck" in (tree.root / ".compiled.log").read_text()


def test_pure_start_compiles_nothing(tree: Tree) -> None:
    status, _, err = tree.run("./up", HEADGATE_PURE="1")
    assert (status, err, tree.calls()) == (0, "", [])


def test_up_needs_no_java(tree: Tree) -> None:
    def missing(kind: str, **environment: str) -> set[str]:
        command = f". scripts/prepare; PATH=/nowhere; PYTHON=nothing; missing_packages {kind}"
        return set(tree.run("bash", "-c", command, **environment)[1].split())

    assert missing("up") - {"libnghttp2-dev"} == {"python3", "python3-venv", "python3-dev", "gcc"}
    assert missing("up", HEADGATE_PURE="1") == {"python3", "python3-venv"}
    assert "openjdk-17-jdk-headless" in missing("dev")


@pytest.mark.parametrize("gate", ["lint", "format", "types"])
def test_first_gate_that_fails_is_named_and_ends_the_run(tree: Tree, gate: str) -> None:
    gates = ["lint", "format", "types"]
    word = {"lint": "check .", "format": "format --check .", "types": ""}[gate]
    for program in ("ruff", "mypy"):
        tree.program(program, f'#!/bin/sh\n[ "$*" != "{word}" ]\n')
    status, out, err = tree.run("scripts/check")
    assert status == 1
    assert f"gate {gate} failed" in err
    assert [line.split()[-1] for line in out.splitlines()] == gates[: gates.index(gate) + 1]


def test_make_check_and_the_gate_of_changes_check_the_same() -> None:
    for name in ("Makefile", ".ci/run"):
        text = (ROOT / name).read_text("utf-8")
        assert "scripts/check" in text
        assert "mypy" not in text
        assert "ruff check ." not in text.replace("ruff check --fix .", "")
