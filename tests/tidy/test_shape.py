"""The shape of files: their length, their names, and text that they must not contain."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.source import ROOT, companions, sources

LINES, FUNCTION_LINES, CLASS_LINES = 400, 60, 300
"""Hints: a longer file, function or class is named in a warning, since it may hold a second noun."""
TOO_LONG = 1.5
"""What is longer than a hint by this factor fails."""
FOLDER_ENTRIES_MAX = 24
"""Files and folders in one folder of the gateway."""
USECASE_ENTRIES_MAX = 13
"""Files and folders in `gateway/usecase`."""
LARGE_CLASSES = {"Reader": 332}
"""Classes above CLASS_LINES and their lines. Entries go and numbers fall; nothing is added.

Reader   the grammar of HTTP/1.1: all its states read one buffer
"""
WIDE_CONSTRUCTORS = {"Message": 13, "Receipt": 9}
"""Constructors above PARAMETERS parameters and their numbers. Entries go and numbers fall; nothing is added.

Message   one for each message that is sent: a second object for some of its fields costs each send
Receipt   the fields of a receipt's text, each once
"""
PARAMETERS = 8
NO_NOUNS = {"utils", "util", "common", "helpers", "helper", "manager", "base", "misc", "core_utils"}
CATCH_ALL = (
    "gateway/connection/pump.py", "gateway/connection/stream_driver.py",
    "gateway/cluster/forwarding/gateway_life.py", "gateway/runtime/admin/port.py",
    "gateway/runtime/datagrams/pump.py", "gateway/link/dialer.py",
    "store/appends/effects.py", "store/events.py", "store/lease/journaled_tables.py", "store/reads/listeners.py",
)  # fmt: skip
"""Files that turn an exception of any kind into the end of one connection, or that tell it and go on with others' work."""

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b(?!X)")
PLACES = re.compile(r"(?<!\w)/(work|home|Users|root)/[A-Za-z]")
EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf]")


def lengths() -> Iterator[tuple[str, int, int]]:
    """(place, lines, hint) of every file, function and class."""
    for source in sources():
        yield source.path, source.text.count("\n"), LINES
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                hint = CLASS_LINES if isinstance(node, ast.ClassDef) else FUNCTION_LINES
                yield f"{source.path}:{node.lineno} {node.name}", (node.end_lineno or 0) - node.lineno + 1, hint


def test_files_functions_and_classes_are_short() -> None:
    for place, lines, hint in lengths():
        if lines > hint:
            warnings.warn(f"{place} has {lines} lines, usual are at most {hint}: look for the second noun", stacklevel=1)
    assert [f"{place}: {lines} lines" for place, lines, hint in lengths() if lines > hint * TOO_LONG] == []


def test_large_classes_and_wide_constructors_become_fewer() -> None:
    large: dict[str, int] = {}
    wide: dict[str, int] = {}
    for made in (node for source in sources() for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)):
        if (lines := (made.end_lineno or 0) - made.lineno + 1) > CLASS_LINES:
            large[made.name] = lines
        for function in made.body:
            if isinstance(function, ast.FunctionDef) and function.name == "__init__":
                count = len(function.args.args) - 1 + len(function.args.kwonlyargs)
                if count > PARAMETERS:
                    wide[made.name] = count
    assert sorted(large) == sorted(LARGE_CLASSES), "a class that is small now leaves the list"
    assert [name for name, lines in large.items() if lines > LARGE_CLASSES[name]] == []
    assert wide == WIDE_CONSTRUCTORS


def test_files_are_named_after_nouns() -> None:
    wrong = [source.path for source in (*sources(), *companions()) if NO_NOUNS & set(Path(source.path).with_suffix("").parts)]
    assert wrong == []


def test_folders_of_the_gateway_have_few_entries() -> None:
    folders = [
        ROOT / "gateway",
        *(path for path in (ROOT / "gateway").rglob("*") if path.is_dir() and path.name != "__pycache__"),
    ]
    counts = {
        str(folder.relative_to(ROOT)): sum(entry.name != "__pycache__" for entry in folder.iterdir()) for folder in folders
    }
    wrong = [f"{name}: {count} entries" for name, count in counts.items() if count > FOLDER_ENTRIES_MAX]
    assert wrong == []
    assert counts["gateway/usecase"] <= USECASE_ENTRIES_MAX


def test_public_names_say_what_they_are() -> None:
    wrong: list[str] = []
    for source in sources():
        if ast.get_docstring(source.tree) is None and source.text.strip():
            wrong.append(f"{source.path}:1")
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.ClassDef):
                continue
            members = [node, *(inner for inner in node.body if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef))]
            if node.name.startswith("_"):
                continue
            wrong += [
                f"{source.path}:{member.lineno}: {member.name}"
                for member in members
                if not member.name.startswith("_") and ast.get_docstring(member) is None
            ]
    assert wrong == []


def test_nothing_is_left_unfinished() -> None:
    wrong = [
        f"{source.path}:{number}: {line.strip()}"
        for source in (*sources(), *companions())
        if not source.path.startswith("tests/tidy/")
        for number, line in enumerate(source.text.splitlines(), 1)
        if UNFINISHED.search(line) or (EMOJI.search(line) and not source.path.startswith("tests/"))
    ]
    assert wrong == []


def test_only_the_pumps_catch_everything() -> None:
    wrong = [
        f"{source.path}:{node.lineno}"
        for source in sources()
        if source.path not in CATCH_ALL
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")))
        and not isinstance(node.body[-1], ast.Raise)
    ]
    assert wrong == []


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    texts = [path for suffix in ("py", "md", "toml", "pyx", "pyi") for path in ROOT.rglob(f"*.{suffix}")]
    ours = [
        path
        for path in texts
        if not any(part.startswith(".") or part == "node_modules" for part in path.relative_to(ROOT).parts)
    ]
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in ours
        if path != Path(__file__)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if PLACES.search(line)
    ]
    assert wrong == []


def test_folders_of_protocols_and_store_explain_themselves() -> None:
    folders = [*(ROOT / "protocols").iterdir(), ROOT / "store", *(ROOT / "store").iterdir()]
    wrong = [
        str(folder.relative_to(ROOT))
        for folder in folders
        if folder.is_dir() and any(folder.glob("*.py")) and not (folder / "README.md").exists()
    ]
    assert wrong == []
