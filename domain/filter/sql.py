"""SQL92 filters over message properties: `color = 'red' AND weight BETWEEN 5 AND 10` (RocketMQ's SqlFilter).

Properties are text, an absent one is null. A message matches when the expression is TRUE: not when it is FALSE, null or cannot
be computed. grammar.py has the grammar, term.py the operators.
"""

from __future__ import annotations

from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.filter.filter import SQL92
from domain.filter.grammar import Grammar
from domain.filter.term import Term
from domain.lexicon import ExpressionError, Lexicon

EXPRESSION_CHARS_MAX: Final = 8_192
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


@final
class SqlFilter:
    """A compiled expression. `hashes` is None: the properties of every message have to be read."""

    __slots__ = ("_condition", "cost", "expression", "hashes")

    def __init__(self, condition: Term, terms: int, text: str) -> None:
        self._condition = condition
        self.expression: tuple[str, str] = (SQL92, text)
        self.hashes: frozenset[int] | None = None
        self.cost: int = 2 + 2 * terms

    def matches(self, stored_properties: bytes) -> bool:
        """True when the expression is TRUE. Never raises, whatever the bytes."""
        return self._condition.evaluate(stored_properties) is True


def parse(expression: str) -> SqlFilter | Failure:
    """Compile an expression. Failure: FILTER_ILLEGAL, with what is wrong and at which column, counted from 1."""
    if len(expression) > EXPRESSION_CHARS_MAX:
        text = f"a SQL92 filter has at most {EXPRESSION_CHARS_MAX} characters, this one has {len(expression)}"
        return Failure(ErrorCode.FILTER_ILLEGAL, text)
    try:
        grammar = Grammar(SQL.tokens(expression))
        return SqlFilter(grammar.whole(), grammar.terms, expression)
    except ExpressionError as fault:
        # Clients can write half of a surrogate pair, which no answer could carry.
        text = fault.text.encode("utf-8", "replace").decode()
        return Failure(ErrorCode.FILTER_ILLEGAL, f"SQL92 filter, column {fault.column}: {text}")
