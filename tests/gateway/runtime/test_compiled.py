"""Compiled modules are used while they are what the sources are, group by group, and never after."""

from __future__ import annotations

import fcntl
import hashlib
import json
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from domain.errors import ConfigError
from gateway.runtime import compiled
from gateway.runtime.compiled import Compiled, Pure, activate, at_next_start, under_way


@pytest.fixture(autouse=True)
def meta_path() -> Iterator[None]:
    """Nothing of ours finds modules at first, whatever this very run is made of."""
    before = list(sys.meta_path)
    sys.meta_path[:] = [finder for finder in before if not isinstance(finder, Compiled | Pure)]
    yield
    sys.meta_path[:] = before


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working tree with two groups, one of them of two modules."""
    monkeypatch.delenv("HEADGATE_PURE", raising=False)
    monkeypatch.delenv("HEADGATE_REQUIRE_COMPILED", raising=False)
    for name in ("one.py", "two.py", "three.pyx"):
        (tmp_path / name).write_text(name)
    folder = tmp_path / ".compiled"
    folder.mkdir()
    groups = {
        "leaves": {"modules": ["nowhere.one", "nowhere.two"], "inputs": ["one.py", "two.py"]},
        "nghttp2": {"modules": ["nowhere.three"], "inputs": ["three.pyx"]},
    }
    record = {"python": sys.implementation.cache_tag, "groups": groups, "why": {}}
    (folder / "record.json").write_text(json.dumps(record))
    sums = [f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n" for name in ("one.py", "two.py", "three.pyx")]
    (folder / "inputs.sha256").write_text("".join(sums))
    return tmp_path


def found() -> set[str]:
    """Modules that a finder of ours would find."""
    return {name for finder in sys.meta_path if isinstance(finder, Compiled) for name in finder.files}


def test_unchanged_sources_use_machine_code(tree: Path) -> None:
    assert activate(tree) == "3 compiled modules"
    assert found() == {"nowhere.one", "nowhere.two", "nowhere.three"}
    spec = next(finder for finder in sys.meta_path if isinstance(finder, Compiled)).find_spec("nowhere.one")
    assert spec is not None
    assert spec.origin == str(tree / ".compiled" / "nowhere" / ("one" + EXTENSION_SUFFIXES[0]))


@pytest.mark.parametrize("change", ["edit", "delete"])
def test_changed_source_leaves_its_whole_group_aside(tree: Path, change: str) -> None:
    if change == "edit":
        (tree / "two.py").write_text("edited")
    else:
        (tree / "two.py").unlink()
    assert activate(tree) == "1 compiled modules; leaves compiled but not used, two.py has changed since"
    assert found() == {"nowhere.three"}


def test_module_that_is_imported_already_keeps_its_group_aside(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nowhere.two", sys)
    activate(tree)
    assert found() == {"nowhere.three"}


def test_machine_code_of_another_python_is_left_aside(tree: Path) -> None:
    record = tree / ".compiled" / "record.json"
    record.write_text(record.read_text().replace(str(sys.implementation.cache_tag), "cpython-39"))
    assert "compiled for cpython-39" in activate(tree)
    assert found() == set()


def test_what_could_not_be_compiled_is_said(tree: Path) -> None:
    record = tree / ".compiled" / "record.json"
    facts = json.loads(record.read_text())
    del facts["groups"]["nghttp2"]
    facts["why"] = {"nghttp2": "no header"}
    record.write_text(json.dumps(facts))
    assert activate(tree) == "2 compiled modules; nghttp2 not compiled (no header)"


def test_required_machine_code_is_missed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_REQUIRE_COMPILED", "1")
    assert activate(tree) == "3 compiled modules"
    (tree / "one.py").write_text("edited")
    with pytest.raises(ConfigError, match=r"one\.py has changed since; run 'make compile'"):
        activate(tree)


def test_pure_prefers_sources_to_what_lies_beside_them(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_PURE", "1")
    assert activate(tree) == "pure Python (HEADGATE_PURE=1)"
    assert found() == set()
    spec = Pure().find_spec("domain.message.record", ["domain"])
    assert spec is not None
    assert spec.origin == str(compiled.ROOT / "domain" / "message" / "record.py")
    assert Pure().find_spec("domain", None) is None
    assert Pure().find_spec("json.decoder", ["json"]) is None


def test_tree_without_a_record_runs_from_its_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADGATE_PURE", raising=False)
    assert activate(tmp_path) == "0 compiled modules; nothing is compiled"


def test_compilation_under_way_is_for_the_next_start(tree: Path) -> None:
    (tree / "one.py").write_text("edited")
    aside = "1 compiled modules; leaves compiled but not used, one.py has changed since"
    with (tree / ".compiled.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert under_way(tree)
        assert activate(tree) == f"{aside}; a compilation is under way, for the next start"
    assert not under_way(tree)
    assert activate(tree) == aside


def test_pure_start_awaits_no_compilation(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_PURE", "1")
    with (tree / ".compiled.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not under_way(tree)


def test_next_start_uses_what_this_one_has_imported_from_its_source(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nowhere.two", sys)
    assert activate(tree) == "1 compiled modules; leaves compiled but not used, nowhere.two is imported already"
    assert at_next_start(tree) == "3 compiled modules"


def test_compilation_that_failed_says_where_its_reason_is(tmp_path: Path) -> None:
    (tmp_path / ".compiled.log").write_text("no such luck")
    assert at_next_start(tmp_path) == "0 compiled modules; nothing is compiled; the reason is in .compiled.log"
