"""Tokens of a SQL92 filter: names, keywords, literals and signs."""

from __future__ import annotations

from typing import Final

from domain.lexicon import Lexicon

KEYWORDS: Final = frozenset(
    {"AND", "BETWEEN", "CONTAINS", "ENDSWITH", "FALSE", "IN", "IS", "NOT", "NULL", "OR", "STARTSWITH", "TRUE"}
)


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _strange(expression: str, at: int) -> str:
    if expression[at] == "'":
        return "a string literal is not closed"
    if expression.startswith("/*", at):
        return "a comment is not closed"
    if expression.startswith("!=", at):
        return "!= is not known; write <>"
    return f"the character {expression[at]!r} has no meaning here"


SQL: Final = Lexicon(
    r"(?:[ \t\n\r\f]+|--[^\n\r]*|/\*.*?\*/)+",
    r"(?P<real>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<whole>[0-9]+[lL]?)"
    r"|(?P<text>'(?:[^']|'')*')"
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<sign><>|>=|<=|[=<>(),+-])",
    KEYWORDS,
    _unquoted,
    _strange,
)
