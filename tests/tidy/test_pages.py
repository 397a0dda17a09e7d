"""What the pages name exists: files, folders and functions of the tree, and the targets of links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tidy import readmes
from tests.tidy.source import PACKAGES, ROOT, sources

TOPS = (*PACKAGES, "tests", "docs", "benchmarks", "examples", "scripts")
PATH = re.compile(rf"`((?:{'|'.join(TOPS)})/[\w./-]*)`")
DOTTED = re.compile(rf"`((?:{'|'.join(TOPS)})(?:\.[\w]+)+)(?:\(\))?`")
COMMAND = re.compile(r"-m ((?:gateway|tests|benchmarks|examples)(?:\.\w+)+)")
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
DECISIONS = sorted(path for path in (ROOT / "docs" / "decisions").glob("*.md") if path.name != "README.md")


def pages() -> list[Path]:
    """Every page of ours."""
    found = [*ROOT.glob("*.md"), *(path for top in TOPS for path in sorted((ROOT / top).rglob("*.md")))]
    return [path for path in found if "node_modules" not in path.parts]


def name_of(path: Path) -> str:
    """The page as a test shows it."""
    return str(path.relative_to(ROOT))


def number_of(decision: Path) -> int:
    """The number at the begin of a decision's file name."""
    return int(decision.name.partition("-")[0])


def decision_row(decision: Path) -> str:
    """The cells of a decision in the index: number, title and link."""
    title = decision.read_text("utf-8").partition("\n")[0].partition(". ")[2]
    return f"| {number_of(decision)} | [{title}]({decision.name}) | "


def is_there(dotted: str) -> bool:
    """True for `package.module`, `package.module.name`, `package.module.Class.method`, entry points and settings."""
    if f'"{dotted}"' in (ROOT / "pyproject.toml").read_text("utf-8"):
        return True
    parts = dotted.split(".")
    if parts[0] == "store" and len(parts) == 2 and f"    {parts[1]}" in (ROOT / "store" / "settings.py").read_text("utf-8"):
        return True
    for count in range(len(parts), 0, -1):
        module = ROOT.joinpath(*parts[:count])
        if module.is_dir() or module.with_suffix(".py").exists() or module.with_suffix(".pyx").exists():
            rest = parts[count:]
            file = module.with_suffix(".py") if module.with_suffix(".py").exists() else module / "__init__.py"
            text = file.read_text("utf-8") if file.exists() else ""
            return all(re.search(rf"\b{re.escape(name)}\b", text) for name in rest)
    return False


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_files_and_names_are_there(page: Path) -> None:
    text = page.read_text("utf-8")
    wrong = [path for path in PATH.findall(text) if not (ROOT / path).exists() and not (page.parent / path).exists()]
    wrong += [
        name for name in (*DOTTED.findall(text), *COMMAND.findall(text)) if not name.endswith(".py") and not is_there(name)
    ]
    assert wrong == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = [link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()]
    assert wrong == []


def test_files_that_docstrings_name_are_there() -> None:
    pattern = re.compile(rf"\b((?:{'|'.join(PACKAGES)}|docs)/[\w./-]+\.(?:py|md|pyx|toml))\b")
    wrong = [
        f"{source.path}: {path}" for source in sources() for path in pattern.findall(source.text) if not (ROOT / path).exists()
    ]
    assert wrong == []


def test_every_decision_is_listed_with_its_title_in_the_index() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text("utf-8")
    rows = [decision_row(path) for path in DECISIONS]
    assert [row for row in rows if index.count(row) != 1] == []


def test_every_decision_has_a_number_of_its_own() -> None:
    pages_by_number: dict[int, list[str]] = {}
    for path in DECISIONS:
        pages_by_number.setdefault(number_of(path), []).append(path.name)
        assert path.read_text("utf-8").startswith(f"# {number_of(path)}. "), path.name
    assert [names for names in pages_by_number.values() if len(names) > 1] == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_no_merge_was_left_half_done(page: Path) -> None:
    assert re.findall(r"^(?:<{7} |>{7} |={7}$).*", page.read_text("utf-8"), re.MULTILINE) == []


def test_the_architecture_names_every_folder_of_the_gateway() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
    folders = sorted(path.parent.name for path in (ROOT / "gateway").glob("*/__init__.py"))
    assert [name for name in folders if f"\n  {name}/ " not in text] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "protocols").glob("*.md")), ids=name_of)
def test_pages_of_protocols_have_a_section_about_answers_and_one_about_tests(page: Path) -> None:
    if page.name in (
        "remoting-extensions.md",
        "webhooks.md",
    ):  # requests among nodes; what a sink answers is under its deliveries
        return
    sections = re.findall(r"^## (.+)$", page.read_text("utf-8"), re.MULTILINE)
    assert [name for name in ("Answers", "Tests") if name not in sections] == []


@pytest.mark.parametrize("page", readmes.pages(), ids=lambda page: str(page.parent.relative_to(ROOT)))
def test_the_files_of_a_readme_are_those_of_its_folder(page: Path) -> None:
    assert page.read_text("utf-8") == readmes.written(page), "python -m tests.tidy.readmes -w"
