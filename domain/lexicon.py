"""The words of an expression language, SQL92 filters (`domain/filter`) and CESQL (`domain/cesql`): a text -> its tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

NAME: Final = "name"
KEYWORD: Final = "keyword"
TEXT: Final = "text"
WHOLE: Final = "whole"
REAL: Final = "real"
SIGN: Final = "sign"
END: Final = "end"


class ExpressionError(ValueError):
    """Error in an expression, with its column, counted from 1."""

    def __init__(self, column: int, text: str) -> None:
        super().__init__(f"column {column}: {text}")
        self.column = column
        self.text = text


@final
@dataclass(slots=True, eq=False)
class Token:
    """One token.

    kind     NAME, KEYWORD, TEXT, WHOLE, REAL, SIGN or END
    text     a keyword in upper case, a string without its quotes, any other token as written
    column   where it begins, counted from 1
    """

    kind: str
    text: str
    column: int

    def said(self) -> str:
        """The token as an error text names it."""
        if self.kind == END:
            return "the end"
        return f"the string '{self.text[:40]}'" if self.kind == TEXT else self.text[:40]


@final
class Lexicon:
    """Lexical rules of one language."""

    def __init__(
        self,
        space: str,
        token: str,
        keywords: frozenset[str],
        unquoted: Callable[[str], str],
        strange: Callable[[str, int], str],
    ) -> None:
        """What the language has.

        space      pattern of what may stand between tokens
        token      pattern of a token, with a group for each kind that has the kind's name
        keywords   names that are keywords, in upper case; a text may have them in any case
        unquoted   a string literal with its quotes -> its text
        strange    (expression, place where no token begins) -> what is wrong there
        """
        self._space = re.compile(space, re.DOTALL)
        self._token = re.compile(token, re.DOTALL)
        self._keywords = keywords
        self._unquoted = unquoted
        self._strange = strange

    def tokens(self, expression: str) -> list[Token]:
        """An expression -> its tokens, the last one of kind END. Raises ExpressionError."""
        out: list[Token] = []
        at = 0
        while True:
            space = self._space.match(expression, at)
            if space is not None:
                at = space.end()
            if at == len(expression):
                out.append(Token(END, "", at + 1))
                return out
            found = self._token.match(expression, at)
            if found is None:
                raise ExpressionError(at + 1, self._strange(expression, at))
            kind, text = str(found.lastgroup), found.group()
            if kind == TEXT:
                text = self._unquoted(text)
            elif kind == NAME and text.upper() in self._keywords:
                kind, text = KEYWORD, text.upper()
            out.append(Token(kind, text, at + 1))
            at = found.end()
