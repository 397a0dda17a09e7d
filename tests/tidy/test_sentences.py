"""The sentences of docstrings and comments: the noun of a thing first, and the field's words."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tests.tidy.source import Source, sources

CLAUSE = re.compile(r"(?:What|Who|Whose|Whom|How|Why|When|Whether|Which|Where)\b")
"""A clause in the place of a noun, at the beginning of a module or of a class."""
WORD = re.compile(r"\b(?:told|tells?|telling|heard|hears?|anew|so many|in the place of)\b", re.IGNORECASE)
"""Words for which the field has others: notify, report, receive, again, N, instead of."""
NAMES = re.compile(r"^\s*_?(?:told|tell|heard)(?:, \w+)* {2,}", re.MULTILINE)
"""The name of an attribute in a table of attributes."""


def texts(source: Source) -> Iterator[tuple[int, bool, str]]:
    """(line, whether a module or class begins with it, text) of every docstring, text below an assignment, and comment."""
    yield 1, True, ast.get_docstring(source.tree) or ""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, isinstance(node, ast.ClassDef), ast.get_docstring(node) or ""
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, False, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], False, token.string


def faults(source: Source) -> Iterator[str]:
    """The texts of a file that break the rule, with their places."""
    for line, begins, text in texts(source):
        if begins and CLAUSE.match(text):
            yield f"{source.path}:{line}: begins with a clause: {text[:60]!r}"
        found = WORD.search(NAMES.sub("", text))
        if found is not None:
            yield f"{source.path}:{line}: {found.group()!r}"


def test_docstrings_are_sentences_in_the_words_of_the_field() -> None:
    assert [fault for source in sources() for fault in faults(source)] == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('"""What a node does."""', True),
        ('"""The work of a node."""', False),
        ('"""A node."""\n\nclass A:\n    """How it is done."""', True),
        ('"""A node."""\n\ndef f():\n    """Tell the others."""', True),
        ('"""A node."""\n\nclass A:\n    """A reader.\n\n    heard   bytes received\n    """', False),
        ('"""A node."""\n\nx = 1  # begins anew', True),
    ],
)
def test_the_rule_finds_what_it_forbids(text: str, wrong: bool) -> None:
    assert bool(list(faults(Source("a.py", text, ast.parse(text))))) == wrong
