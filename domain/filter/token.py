"""Tokens of a SQL92 filter: names, keywords, literals and signs, each with its column."""

from __future__ import annotations

import re
from typing import Final, final

KEYWORDS: Final = frozenset(
    {"AND", "BETWEEN", "CONTAINS", "ENDSWITH", "FALSE", "IN", "IS", "NOT", "NULL", "OR", "STARTSWITH", "TRUE"}
)

NAME: Final = "name"
KEYWORD: Final = "keyword"
TEXT: Final = "text"
WHOLE: Final = "whole"
REAL: Final = "real"
SIGN: Final = "sign"
END: Final = "end"

_SPACE = re.compile(r"(?:[ \t\n\r\f]+|--[^\n\r]*|/\*.*?\*/)+", re.DOTALL)
_TOKEN = re.compile(
    r"(?P<real>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<whole>[0-9]+[lL]?)"
    r"|(?P<text>'(?:[^']|'')*')"
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<sign><>|>=|<=|[=<>(),+-])"
)


class ExpressionError(Exception):
    """What is wrong with an expression, and at which column, counted from 1. Raised and caught within domain/filter."""

    def __init__(self, column: int, text: str) -> None:
        super().__init__(text)
        self.column = column
        self.text = text


@final
class FilterToken:
    """One token.

    kind     NAME, KEYWORD, TEXT, WHOLE, REAL, SIGN or END
    text     a keyword in upper case, a string without its quotes, any other token as written
    column   where it begins, counted from 1
    """

    __slots__ = ("column", "kind", "text")

    def __init__(self, kind: str, text: str, column: int) -> None:
        self.kind = kind
        self.text = text
        self.column = column

    def said(self) -> str:
        """The token as an error text names it."""
        if self.kind == END:
            return "the end"
        return f"the string '{self.text[:40]}'" if self.kind == TEXT else self.text[:40]


def tokens(expression: str) -> list[FilterToken]:
    """An expression -> its tokens, the last one of kind END. Raises ExpressionError."""
    out: list[FilterToken] = []
    at = 0
    while True:
        space = _SPACE.match(expression, at)
        if space is not None:
            at = space.end()
        if at == len(expression):
            out.append(FilterToken(END, "", at + 1))
            return out
        found = _TOKEN.match(expression, at)
        if found is None:
            raise ExpressionError(at + 1, _strange(expression, at))
        kind = str(found.lastgroup)
        text = found.group()
        if kind == TEXT:
            text = text[1:-1].replace("''", "'")
        elif kind == NAME and text.upper() in KEYWORDS:
            kind, text = KEYWORD, text.upper()
        out.append(FilterToken(kind, text, at + 1))
        at = found.end()


def _strange(expression: str, at: int) -> str:
    if expression[at] == "'":
        return "a string literal is not closed"
    if expression.startswith("/*", at):
        return "a comment is not closed"
    if expression.startswith("!=", at):
        return "!= is not known; write <>"
    return f"the character {expression[at]!r} has no meaning here"
