"""`scripts/soak`: every part runs, whatever another one's result is, and the table says what each has found."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from tests.scripts.tree import ROOT


@pytest.fixture
def soak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, whose tree is a folder with two files of tests."""
    loader = SourceFileLoader("soak", str(ROOT / "scripts" / "soak"))
    spec = spec_from_loader("soak", loader)
    assert spec is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "soak", module)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)  # plugins of this tree are not in that one
    loader.exec_module(module)
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    (tmp_path / "tests" / "interop").mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def parts(soak: ModuleType, **files: str) -> list[object]:
    """A part for each file, which has this text."""
    found: list[object] = []
    for name, text in files.items():
        path = f"tests/interop/test_{name}.py"
        (soak.ROOT / path).write_text(text)
        found.append(soak.Part(name, f"the part {name}", (path,), {"LONG": "1"}))
    return found


GOOD = "import os\ndef test_good():\n    assert os.environ['LONG'] == '1'\n"
BAD = "def test_bad():\n    assert False\ndef test_good():\n    pass\n"
FLAKY = """
from pathlib import Path
def test_flaky():
    seen = Path({path!r}).exists()
    Path({path!r}).touch()
    assert seen
"""
LEFT_OUT = "import pytest\n@pytest.mark.skip(reason='it is about one process')\ndef test_left_out():\n    pass\n"


def test_a_part_that_fails_is_named_and_the_next_one_runs(soak: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    assert soak.main([], parts(soak, bad=BAD, good=GOOD)) == 1
    table = capfd.readouterr().out.partition("Soak of")[2]
    assert "| bad | the part bad | failed (status 1) | 1 | 1: tests/interop/test_bad.py::test_bad | 0 |" in table
    assert "| good | the part good | passed | 1 | 0 | 0 |" in table
    assert table.endswith("headgate: soak FAILED: bad\n")


def test_what_is_left_out_is_told_with_its_reason(soak: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    assert soak.main([], parts(soak, some=LEFT_OUT + GOOD)) == 0
    table = capfd.readouterr().out.partition("Soak of")[2]
    assert "| some | the part some | passed | 1 | 0 | 1: it is about one process (1) |" in table
    assert table.endswith("headgate: soak passed\n")


def test_a_part_without_any_test_has_not_passed(soak: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    assert soak.main([], parts(soak, empty="")) == 1
    assert "headgate: soak FAILED: empty" in capfd.readouterr().out


def test_parts_are_chosen_by_name(soak: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    both = parts(soak, bad=BAD, good=GOOD)
    assert soak.main(["good"], both) == 0
    assert "the part bad" not in capfd.readouterr().out
    assert soak.main(["god"], both) == 2
    assert "parts are bad, good" in capfd.readouterr().out


def test_what_passes_alone_is_counted_apart(soak: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    flaky = FLAKY.format(path=str(soak.ROOT / "first"))
    assert soak.main([], parts(soak, flaky=flaky)) == 0
    assert "| passed | 1, of which 1 at the second time | 0 | 0 |" in capfd.readouterr().out
