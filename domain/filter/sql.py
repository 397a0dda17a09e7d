"""SQL92 filters over message properties: `color = 'red' AND weight BETWEEN 5 AND 10` (RocketMQ's SqlFilter).

Properties are text, and a missing one is null; a message is wanted when the whole expression is TRUE, so neither FALSE nor
null nor what cannot be computed. The grammar stands in grammar.py, the meaning of each operator in term.py.
"""

from __future__ import annotations

from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.filter.grammar import Grammar
from domain.filter.term import Term
from domain.filter.token import ExpressionError, tokens

EXPRESSION_CHARS_MAX: Final = 8_192


@final
class SqlFilter:
    """A compiled expression. `hashes` is None: every message's properties have to be looked at."""

    __slots__ = ("_condition", "hashes")

    def __init__(self, condition: Term) -> None:
        self._condition = condition
        self.hashes: frozenset[int] | None = None

    def matches(self, stored_properties: bytes) -> bool:
        """True when the expression is TRUE. Never raises, whatever the bytes are."""
        return self._condition.evaluate(stored_properties) is True


def parse(expression: str) -> SqlFilter | Failure:
    """Compile an expression. FILTER_ILLEGAL, with what is wrong at which column, counted from 1."""
    if len(expression) > EXPRESSION_CHARS_MAX:
        text = f"a SQL92 filter has at most {EXPRESSION_CHARS_MAX} characters, this one has {len(expression)}"
        return Failure(ErrorCode.FILTER_ILLEGAL, text)
    try:
        return SqlFilter(Grammar(tokens(expression)).whole())
    except ExpressionError as fault:
        # Clients can write half of a surrogate pair, which no answer could carry.
        text = fault.text.encode("utf-8", "replace").decode()
        return Failure(ErrorCode.FILTER_ILLEGAL, f"SQL92 filter, column {fault.column}: {text}")
