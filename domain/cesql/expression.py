"""A CESQL expression, ready to be evaluated, and its tokens (CESQL 1.0, section 2.3)."""

from __future__ import annotations

import re
from typing import Final, final

from domain.cesql.grammar import CesqlGrammar
from domain.cesql.term import Attributes
from domain.cesql.value import CesqlFault, CesqlMissing, Known
from domain.lexicon import ExpressionError, Lexicon

EXPRESSION_CHARS_MAX: Final = 4_096
KEYWORDS: Final = frozenset({"AND", "EXISTS", "FALSE", "IN", "LIKE", "NOT", "OR", "TRUE", "XOR"})
_ESCAPED: Final = re.compile(r"""\\(["'])|""|''""")


def _unquoted(text: str) -> str:
    """Without quotes and escapes of quotes."""
    quote = text[0]
    return _ESCAPED.sub(lambda found: found.group(1) or (quote if found.group() == quote * 2 else found.group()), text[1:-1])


def _strange(expression: str, at: int) -> str:
    return "a string is not closed" if expression[at] in "\"'" else f"{expression[at]!a} is not part of CESQL"


# Possessive quantifiers only: no expression of a client can make the matcher backtrack.
CESQL: Final = Lexicon(
    r"[ \t\r\n]*+",
    r"""(?P<text>"(?:\\.|""|[^"\\])*+"|'(?:\\.|''|[^'\\])*+')"""
    r"|(?P<whole>[0-9]++(?![A-Za-z_]))"
    r"|(?P<name>[A-Za-z0-9_]++)"
    r"|(?P<sign>!=|<>|>=|<=|[=<>(),+*/%-])",
    KEYWORDS,
    _unquoted,
    _strange,
)


@final
class Cesql:
    """One expression. Raises ExpressionError, with the column, for text that is not CESQL."""

    def __init__(self, text: str) -> None:
        if len(text) > EXPRESSION_CHARS_MAX:
            raise ExpressionError(EXPRESSION_CHARS_MAX, f"an expression has at most {EXPRESSION_CHARS_MAX} characters")
        self.text = text
        self._tree = CesqlGrammar(CESQL.tokens(text)).whole()

    def evaluate(self, event: Attributes) -> tuple[Known, list[CesqlFault]]:
        """The value and the errors; False for an attribute that the event does not have. Never raises."""
        faults: list[CesqlFault] = []
        value = self._tree.evaluate(event, faults)
        return (False if isinstance(value, CesqlMissing) else value), faults

    def holds(self, event: Attributes) -> bool:
        """True when the value is true and there are no errors: a filter that fails is false (Subscriptions API, 3.2.4)."""
        value, faults = self.evaluate(event)
        return value is True and not faults
