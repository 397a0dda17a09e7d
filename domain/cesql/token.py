"""Tokens of a CESQL expression, each with its column."""

from __future__ import annotations

import re
from typing import Final, final

KEYWORDS: Final = frozenset({"AND", "EXISTS", "FALSE", "IN", "LIKE", "NOT", "OR", "TRUE", "XOR"})
NAME: Final = "name"
KEYWORD: Final = "keyword"
TEXT: Final = "text"
INTEGER: Final = "integer"
SIGN: Final = "sign"
END: Final = "end"

_SPACE: Final = re.compile(r"[ \t\r\n]*+")
# Possessive quantifiers only: no expression of a client can make the matcher backtrack.
_TOKEN: Final = re.compile(
    r"""(?P<text>"(?:\\.|""|[^"\\])*+"|'(?:\\.|''|[^'\\])*+')"""
    r"|(?P<name>[A-Za-z0-9_]++)"
    r"|(?P<sign>!=|<>|>=|<=|[=<>(),+*/%-])",
    re.DOTALL,
)
_ESCAPED: Final = re.compile(r"""\\(["'])|""|''""")


class CesqlError(ValueError):
    """What is wrong with an expression (ParseError), and at which column, counted from 1."""

    def __init__(self, column: int, text: str) -> None:
        super().__init__(f"column {column}: {text}")
        self.column = column
        self.text = text


@final
class CesqlToken:
    """One token.

    kind     NAME, KEYWORD, TEXT, INTEGER, SIGN or END
    text     a keyword in upper case, a string without quotes and escapes of quotes, any other token as written
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


def tokens(expression: str) -> list[CesqlToken]:
    """An expression -> its tokens, the last one of kind END. Raises CesqlError."""
    out: list[CesqlToken] = []
    at = 0
    while True:
        space = _SPACE.match(expression, at)
        at = space.end() if space is not None else at
        if at == len(expression):
            out.append(CesqlToken(END, "", at + 1))
            return out
        found = _TOKEN.match(expression, at)
        if found is None:
            what = "a string is not closed" if expression[at] in "\"'" else f"{expression[at]!a} is not part of CESQL"
            raise CesqlError(at + 1, what)
        out.append(_token(str(found.lastgroup), found.group(), at + 1))
        at = found.end()


def _token(kind: str, text: str, column: int) -> CesqlToken:
    if kind == TEXT:
        quote = text[0]
        inner = _ESCAPED.sub(
            lambda found: found.group(1) or (quote if found.group() == quote * 2 else found.group()), text[1:-1]
        )
        return CesqlToken(TEXT, inner, column)
    if kind == NAME:
        if text.isdigit():
            return CesqlToken(INTEGER, text, column)
        if text.upper() in KEYWORDS:
            return CesqlToken(KEYWORD, text.upper(), column)
    return CesqlToken(kind, text, column)
