"""The pages of faults and of points of specifications name tests that exist, each row one at least."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.tidy.source import ROOT, companions

PAGES = {"faults.md": 100, "cloudevents-points.md": 40}
"""Page in docs/ -> rows that it has at least."""
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


@pytest.mark.parametrize(("page", "least"), PAGES.items())
def test_each_row_of_a_page_names_tests_that_exist(page: str, least: int) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert sorted(set(TEST.findall(text)) - known()) == []
    rows = ROW.findall(text)
    assert len(rows) > least
    assert [row for row in rows if TEST.search(row.rpartition(" | ")[2]) is None] == []
