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


def beginnings(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """(line, docstring) of the classes of a module or class."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node.lineno, ast.get_docstring(node) or ""
            yield from beginnings(node.body)


def texts(source: Source) -> Iterator[tuple[int, str]]:
    """(line, text) of every docstring, text below an assignment, and comment."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""')):
            yield token.start[0], token.string


def faults(source: Source) -> Iterator[str]:
    """The texts of a file that break the rule, with their places."""
    for line, text in ((1, ast.get_docstring(source.tree) or ""), *beginnings(source.tree.body)):
        if CLAUSE.match(text):
            yield f"{source.path}:{line}: begins with a clause: {text[:60]!r}"
    if WORD.search(source.text) is None:
        return
    for line, text in texts(source):
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
