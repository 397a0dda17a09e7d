"""A CESQL expression, ready to be evaluated."""

from __future__ import annotations

from typing import Final, final

from domain.cesql.grammar import CesqlGrammar
from domain.cesql.term import Attributes
from domain.cesql.token import CESQL
from domain.cesql.value import CesqlFault, CesqlMissing, Known
from domain.lexicon import ExpressionError

EXPRESSION_CHARS_MAX: Final = 4_096


@final
class Cesql:
    """One expression. Raises ExpressionError, with the column, for text that is not CESQL."""

    __slots__ = ("_tree", "text")

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
