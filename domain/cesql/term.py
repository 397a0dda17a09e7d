"""The tree of a CESQL expression and its evaluation (CESQL 1.0, section 3). No evaluation raises."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from domain.cesql.value import (
    MISSING,
    CesqlFault,
    CesqlMissing,
    Kind,
    Known,
    Value,
    bounded,
    cast,
    kind_of,
    to_boolean,
    to_integer,
    to_text,
    zero,
)

REQUIRED: Final = frozenset({"id", "source", "specversion", "type"})
Attributes = Mapping[str, Known]
"""Attributes of an event by name."""


class CesqlTerm:
    """A node of the tree.

    depth   number of terms inside each other, this one included
    """

    __slots__ = ("depth",)

    def __init__(self, *inner: CesqlTerm) -> None:
        self.depth: int = 1 + max((term.depth for term in inner), default=0)

    def evaluate(self, event: Attributes, faults: list[CesqlFault]) -> Value:
        """The value, and errors appended to `faults`."""
        raise NotImplementedError


@final
class CesqlLiteral(CesqlTerm):
    """A string, an integer or a boolean."""

    __slots__ = ("value",)

    def __init__(self, value: Known) -> None:
        super().__init__()
        self.value = value

    def evaluate(self, event: Attributes, faults: list[CesqlFault]) -> Value:
        """The literal."""
        return self.value


class CesqlNamed(CesqlTerm):
    """A term about one attribute of the event: `name`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


@final
class CesqlAttribute(CesqlNamed):
    """An attribute of the event; MISSING, with an error, when the event does not have it."""

    __slots__ = ()

    def evaluate(self, event: Attributes, faults: list[CesqlFault]) -> Value:
        """Its value."""
        found = event.get(self.name)
        if found is None:
            faults.append(CesqlFault.MISSING_ATTRIBUTE)
            return MISSING
        return found


@final
class CesqlExists(CesqlNamed):
    """EXISTS."""

    __slots__ = ()

    def evaluate(self, event: Attributes, faults: list[CesqlFault]) -> Value:
        """True for an attribute that the event has; always for the required ones."""
        return self.name in event or self.name in REQUIRED


@final
class CesqlOpposite(CesqlTerm):
    """NOT, whose `kind` is bool, and unary minus, whose kind is int."""

    __slots__ = ("inner", "kind")

    def __init__(self, inner: CesqlTerm, kind: type[bool] | type[int]) -> None:
        super().__init__(inner)
        self.inner = inner
        self.kind = kind

    def evaluate(self, event: Attributes, faults: list[CesqlFault]) -> Value:
        """The opposite; False or 0 for a missing attribute."""
        value = self.inner.evaluate(event, faults)
        if isinstance(value, CesqlMissing):
            return zero(self.kind)
        if self.kind is bool:
            return not to_boolean(value, faults)
        return bounded(-to_integer(value, faults), faults)


@final
class CesqlLogic(CesqlTerm):
    """AND, OR and XOR from left to right. AND and OR do not evaluate a right operand that cannot change the value."""

    __slots__ = ("first", "rest")

    def __init__(self, first: CesqlTerm, rest: Sequence[tuple[str, CesqlTerm]]) -> None:
        super().__init__(first, *(term for _, term in rest))
        self.first = first
        self.rest = tuple(rest)

    def evaluate(self, event: Attributes, faults: list[CesqlFault]) -> Value:
        """The value; False where an operand is a missing attribute."""
        left = self.first.evaluate(event, faults)
        for sign, term in self.rest:
            left = self._step(left, sign, term, event, faults)
        return left

    def _step(self, left: Value, sign: str, term: CesqlTerm, event: Attributes, faults: list[CesqlFault]) -> bool:
        if isinstance(left, CesqlMissing):
            return False
        known = to_boolean(left, faults)
        if (sign == "AND" and not known) or (sign == "OR" and known):
            return known
        value = term.evaluate(event, faults)
        if isinstance(value, CesqlMissing):
            return False
        right = to_boolean(value, faults)
        return known != right if sign == "XOR" else right


class CesqlPair(CesqlTerm):
    """An operator with two operands.

    sign    the operator as written
    """

    __slots__ = ("left", "right", "sign")

    def __init__(self, sign: str, left: CesqlTerm, right: CesqlTerm) -> None:
        super().__init__(left, right)
        self.sign = sign
        self.left = left
        self.right = right


_ORDERS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
COMPARISONS: Final = ("=", "!=", "<>", *_ORDERS)


@final
class CesqlComparison(CesqlPair):
    """`=`, `!=` and `<>` over the type of the right operand; the orders over integers."""

    __slots__ = ()

    def evaluate(self, event: Attributes, faults: list[CesqlFault]) -> Value:
        """True or False; False where an operand is a missing attribute, or has an error."""
        before = len(faults)
        left, right = self.left.evaluate(event, faults), self.right.evaluate(event, faults)
        if isinstance(left, CesqlMissing) or isinstance(right, CesqlMissing):
            return False
        order = _ORDERS.get(self.sign)
        if order is not None:
            one, other = to_integer(left, faults), to_integer(right, faults)
            return len(faults) == before and order(one, other)
        equal = cast(left, kind_of(right), faults) == right
        return len(faults) == before and equal == (self.sign == "=")


SUMS: Final = ("+", "-")
PRODUCTS: Final = ("*", "/", "%")


@final
class CesqlArithmetic(CesqlPair):
    """`+ - * / %` over integers. A quotient is rounded towards 0, and a remainder has the sign of the dividend."""

    __slots__ = ()

    def evaluate(self, event: Attributes, faults: list[CesqlFault]) -> Value:
        """The integer; 0 where an operand is a missing attribute, and for a division by 0, which is an error."""
        left, right = self.left.evaluate(event, faults), self.right.evaluate(event, faults)
        if isinstance(left, CesqlMissing) or isinstance(right, CesqlMissing):
            return 0
        one, other = to_integer(left, faults), to_integer(right, faults)
        if self.sign == "+":
            return bounded(one + other, faults)
        if self.sign == "-":
            return bounded(one - other, faults)
        if self.sign == "*":
            return bounded(one * other, faults)
        if other == 0:
            faults.append(CesqlFault.MATH)
            return 0
        quotient = abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
        return bounded(quotient, faults) if self.sign == "/" else one - quotient * other


@final
class CesqlLike(CesqlTerm):
    """LIKE: `%` is any text, `_` one character, and a backslash makes each of them itself."""

    __slots__ = ("inner", "negated", "pieces")

    def __init__(self, inner: CesqlTerm, pattern: str, negated: bool) -> None:
        super().__init__(inner)
        self.inner = inner
        self.negated = negated
        self.pieces = _pieces(pattern)

    def evaluate(self, event: Attributes, faults: list[CesqlFault]) -> Value:
        """True or False; False for a missing attribute, negated or not."""
        value = self.inner.evaluate(event, faults)
        return False if isinstance(value, CesqlMissing) else _fits(to_text(value), self.pieces) != self.negated


_LIKE: Final = re.compile(r"\\([%_])|([%_])|(.)", re.DOTALL)


def _pieces(pattern: str) -> list[list[str]]:
    """A pattern -> what stands between its `%`: characters, "" for any one of them."""
    pieces: list[list[str]] = [[]]
    for found in _LIKE.finditer(pattern):
        escaped, wild, plain = found.groups()
        if wild == "%":
            pieces.append([])
        else:
            pieces[-1].append("" if wild else escaped or plain)
    return pieces


def _fits(text: str, pieces: list[list[str]]) -> bool:
    """Each piece at the first place where it fits: time is at most the product of both lengths, not more."""
    first, last = pieces[0], pieces[-1]
    if not _at(text, 0, first):
        return False
    if len(pieces) == 1:
        return len(text) == len(first)
    at, end = len(first), len(text) - len(last)
    for piece in pieces[1:-1]:
        while at + len(piece) <= end and not _at(text, at, piece):
            at += 1
        if at + len(piece) > end:
            return False
        at += len(piece)
    return at <= end and _at(text, end, last)


def _at(text: str, at: int, piece: list[str]) -> bool:
    if at + len(piece) > len(text):
        return False
    return all(not char or text[at + number] == char for number, char in enumerate(piece))


@final
class CesqlIn(CesqlTerm):
    """IN: whether the set has a value that is equal, once cast to the type of the left operand."""

    __slots__ = ("inner", "members", "negated")

    def __init__(self, inner: CesqlTerm, members: Sequence[CesqlTerm], negated: bool) -> None:
        super().__init__(inner, *members)
        self.inner = inner
        self.members = tuple(members)
        self.negated = negated

    def evaluate(self, event: Attributes, faults: list[CesqlFault]) -> Value:
        """True or False; False where the left operand is a missing attribute. A member that cannot be cast is not equal."""
        value = self.inner.evaluate(event, faults)
        if isinstance(value, CesqlMissing):
            return False
        kind = kind_of(value)
        found = False
        for member in self.members:
            other = member.evaluate(event, faults)
            if isinstance(other, CesqlMissing):
                continue
            before = len(faults)
            if cast(other, kind, faults) == value and len(faults) == before:
                found = True
        return found != self.negated


Body = Callable[[list[Known], list[CesqlFault]], Known]


@final
class CesqlFunction:
    """A function.

    kind        type of its value
    parameters  types of its first arguments
    more        type of further arguments; None: there are none
    """

    __slots__ = ("body", "kind", "more", "parameters")

    def __init__(self, kind: Kind, parameters: Sequence[Kind], body: Body, more: Kind | None = None) -> None:
        self.kind = kind
        self.parameters = tuple(parameters)
        self.body = body
        self.more = more


@final
class CesqlCall(CesqlTerm):
    """A call of a function; None: there is no such function."""

    __slots__ = ("arguments", "function")

    def __init__(self, function: CesqlFunction | None, arguments: Sequence[CesqlTerm]) -> None:
        super().__init__(*arguments)
        self.function = function
        self.arguments = tuple(arguments)

    def evaluate(self, event: Attributes, faults: list[CesqlFault]) -> Value:
        """Its value; the zero value of its type where an argument is a missing attribute."""
        function = self.function
        if function is None:
            faults.append(CesqlFault.MISSING_FUNCTION)
            return False
        given: list[Known] = []
        for number, term in enumerate(self.arguments):
            value = term.evaluate(event, faults)
            if isinstance(value, CesqlMissing):
                return zero(function.kind)
            kind = function.parameters[number] if number < len(function.parameters) else function.more
            assert kind is not None
            given.append(cast(value, kind, faults))
        return function.body(given, faults)
