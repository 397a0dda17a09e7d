"""The page of faults names tests that exist, each row one at least."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.tidy.source import ROOT, companions

PAGE = ROOT / "docs" / "faults.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROW = re.compile(r"^\| (?!---|What )(.+) \|$", re.MULTILINE)


@cache
def known() -> frozenset[tuple[str, str]]:
    """(file, name) of every test."""
    return frozenset(
        (source.path, node.name)
        for source in companions()
        for node in source.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def test_every_test_that_the_page_names_exists() -> None:
    named = set(TEST.findall(PAGE.read_text("utf-8")))
    assert sorted(named - known()) == []


def test_every_row_names_a_test() -> None:
    rows = ROW.findall(PAGE.read_text("utf-8"))
    assert len(rows) > 100
    assert [row for row in rows if TEST.search(row.rpartition(" | ")[2]) is None] == []
