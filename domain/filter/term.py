"""The expression tree of a SQL92 filter, and its evaluation over stored properties.

The value of a term is text (UTF-8), a number, TRUE, FALSE, None for null, or FAULT. An absent property is null. FAULT is the
value of what cannot be computed, such as `a > 1` where a is "x": it ends the evaluation, and the message does not match.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.filter.number import real, whole
from domain.message.property import find, start_of


@final
class Fault:
    """The value of what cannot be computed; one object, FAULT."""

    __slots__ = ()


FAULT: Final = Fault()
Value = bytes | int | float | bool | Fault | None


class Term:
    """A node of the tree.

    depth   number of terms inside each other, this one included
    """

    __slots__ = ("depth",)

    def __init__(self, *inner: Term) -> None:
        self.depth: int = 1 + max((term.depth for term in inner), default=0)

    def evaluate(self, stored: bytes) -> Value:
        """The value for a message with these stored properties. Never raises."""
        raise NotImplementedError


@final
class Property(Term):
    """A property of the message: text, null when it is absent.

    start   how its entry begins in the stored form
    """

    __slots__ = ("start",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.start = start_of(name)

    def evaluate(self, stored: bytes) -> Value:
        """Text or null."""
        return find(stored, self.start) or None


@final
class Constant(Term):
    """A literal."""

    __slots__ = ("value",)

    def __init__(self, value: bytes | int | float | bool | None) -> None:
        super().__init__()
        self.value = value

    def evaluate(self, stored: bytes) -> Value:
        """The literal's value."""
        return self.value


@final
class AlwaysNull(Term):
    """Null: the negative of a term that is no number (properties are text)."""

    __slots__ = ()

    def evaluate(self, stored: bytes) -> Value:
        """Null."""
        return None


class Condition(Term):
    """A term whose value is TRUE, FALSE, null or FAULT."""

    __slots__ = ()


@final
class PropertyCondition(Condition):
    """A property in place of a condition: FALSE, since a property is never TRUE; null when it is absent."""

    __slots__ = ("_start",)

    def __init__(self, term: Property) -> None:
        super().__init__(term)
        self._start = term.start

    def evaluate(self, stored: bytes) -> Value:
        """FALSE or null."""
        return False if find(stored, self._start) else None


@final
class Equality(Condition):
    """`=`, and `<>` when negated. Null when an operand is null."""

    __slots__ = ("_left", "_negated", "_right")

    def __init__(self, left: Term, right: Term, negated: bool) -> None:
        super().__init__(left, right)
        self._left = left
        self._right = right
        self._negated = negated

    def evaluate(self, stored: bytes) -> Value:
        """Compare text with text by bytes. Text beside another type is converted to that type; FAULT when it cannot be."""
        left = self._left.evaluate(stored)
        right = self._right.evaluate(stored)
        if left is FAULT or right is FAULT:
            return FAULT
        if left is None or right is None:
            return None
        if isinstance(left, bytes) and not isinstance(right, bytes):
            left = _converted(left, right)
        elif isinstance(right, bytes) and not isinstance(left, bytes):
            right = _converted(right, left)
        if left is None or right is None:
            return FAULT
        same = isinstance(left, bool) == isinstance(right, bool) and left == right
        return same is not self._negated


def _converted(text: bytes, other: Value) -> int | float | bool | None:
    """Text as the type of the other operand, None when it is not of that type."""
    if isinstance(other, bool):
        return text.lower() == b"true"
    return whole(text) if isinstance(other, int) else real(text)


LESS: Final = "<"
LESS_EQUAL: Final = "<="
GREATER: Final = ">"
GREATER_EQUAL: Final = ">="


@final
class Comparison(Condition):
    """`<`, `<=`, `>`, `>=` of numbers. Null when an operand is null. Two texts are compared as floating-point numbers."""

    __slots__ = ("_left", "_right", "_sign")

    def __init__(self, left: Term, sign: str, right: Term) -> None:
        super().__init__(left, right)
        self._left = left
        self._sign = sign
        self._right = right

    def evaluate(self, stored: bytes) -> Value:
        """TRUE, FALSE or null; FAULT when an operand is no number."""
        left = self._left.evaluate(stored)
        right = self._right.evaluate(stored)
        if left is None or right is None:
            return None
        if isinstance(left, bytes):
            left = real(left) if not isinstance(right, int) else whole(left)
        if isinstance(right, bytes):
            right = real(right) if not isinstance(left, int) else whole(right)
        if not isinstance(left, int | float) or not isinstance(right, int | float):
            return FAULT
        sign = self._sign
        if sign == LESS:
            return left < right
        if sign == LESS_EQUAL:
            return left <= right
        return left > right if sign == GREATER else left >= right


@final
class OneOf(Condition):
    """`IN` and `NOT IN`. Null when the property is absent."""

    __slots__ = ("_negated", "_start", "_texts")

    def __init__(self, term: Property, texts: frozenset[bytes], negated: bool) -> None:
        super().__init__(term)
        self._start = term.start
        self._texts = texts
        self._negated = negated

    def evaluate(self, stored: bytes) -> Value:
        """TRUE, FALSE or null."""
        value = find(stored, self._start)
        return (value in self._texts) is not self._negated if value else None


CONTAINS: Final = "CONTAINS"
STARTSWITH: Final = "STARTSWITH"
ENDSWITH: Final = "ENDSWITH"


@final
class TextSearch(Condition):
    """`CONTAINS`, `STARTSWITH`, `ENDSWITH`, or one negated. FALSE when an operand is no text or the search text empty."""

    __slots__ = ("_negated", "_place", "_search", "_term")

    def __init__(self, term: Term, place: str, search: bytes, negated: bool) -> None:
        super().__init__(term)
        self._term = term
        self._place = place
        self._search = search
        self._negated = negated

    def evaluate(self, stored: bytes) -> Value:
        """TRUE or FALSE; never null."""
        value = self._term.evaluate(stored)
        if value is FAULT:
            return FAULT
        search = self._search
        if not isinstance(value, bytes) or not search:
            return False
        if self._place == CONTAINS:
            found = search in value
        else:
            found = value.startswith(search) if self._place == STARTSWITH else value.endswith(search)
        return found is not self._negated


@final
class IsNull(Condition):
    """`IS NULL` and `IS NOT NULL`. Never null."""

    __slots__ = ("_negated", "_term")

    def __init__(self, term: Term, negated: bool) -> None:
        super().__init__(term)
        self._term = term
        self._negated = negated

    def evaluate(self, stored: bytes) -> Value:
        """TRUE or FALSE."""
        value = self._term.evaluate(stored)
        return FAULT if value is FAULT else (value is None) is not self._negated


@final
class Not(Condition):
    """`NOT`. Null stays null."""

    __slots__ = ("_term",)

    def __init__(self, term: Term) -> None:
        super().__init__(term)
        self._term = term

    def evaluate(self, stored: bytes) -> Value:
        """The opposite of TRUE or FALSE."""
        value = self._term.evaluate(stored)
        return not value if isinstance(value, bool) else value


@final
class And(Condition):
    """`AND`: FALSE when a term is FALSE, else null when one is null. Terms behind a FALSE are not evaluated."""

    __slots__ = ("_terms",)

    def __init__(self, terms: Sequence[Term]) -> None:
        super().__init__(*terms)
        self._terms = list(terms)

    def evaluate(self, stored: bytes) -> Value:
        """Kleene's conjunction, from left to right."""
        outcome: Value = True
        for term in self._terms:
            value = term.evaluate(stored)
            if value is False or value is FAULT:
                return value
            if value is None:
                outcome = None
        return outcome


@final
class Or(Condition):
    """`OR`: TRUE when a term is TRUE, else null when one is null. Terms behind a TRUE are not evaluated."""

    __slots__ = ("_terms",)

    def __init__(self, terms: Sequence[Term]) -> None:
        super().__init__(*terms)
        self._terms = list(terms)

    def evaluate(self, stored: bytes) -> Value:
        """Kleene's disjunction, from left to right."""
        outcome: Value = False
        for term in self._terms:
            value = term.evaluate(stored)
            if value is True or value is FAULT:
                return value
            if value is None:
                outcome = None
        return outcome
