"""Words of a SQL92 filter -> its expression tree, by recursive descent (RocketMQ's SelectorParser).

    or          and (OR and)*
    and         equality (AND equality)*
    equality    comparison (= comparison | <> comparison | IS [NOT] NULL)*
    comparison  unary (> unary | >= unary | < unary | <= unary | [NOT] BETWEEN unary AND unary
                | [NOT] IN ('s', …) | [NOT] CONTAINS 's' | [NOT] STARTSWITH 's' | [NOT] ENDSWITH 's')*
    unary       + unary | - unary | NOT unary | primary
    primary     literal | name | ( or )

NOT binds closer than a comparison does: `NOT (a = 1)` needs its parentheses.
"""

from __future__ import annotations

from typing import Final, TypeVar, final

from domain.filter import term as terms
from domain.filter.number import WHOLE_MAX, real
from domain.filter.term import Condition, Constant, Property, Term
from domain.lexicon import END, KEYWORD, NAME, REAL, SIGN, TEXT, WHOLE, ExpressionError, Token

DEPTH_MAX: Final = 64
TERMS_MAX: Final = 1_024

_ORDERS: Final = (terms.GREATER, terms.GREATER_EQUAL, terms.LESS, terms.LESS_EQUAL)
_PLACES: Final = (terms.CONTAINS, terms.STARTSWITH, terms.ENDSWITH)
_NEGATABLE: Final = ("BETWEEN", "IN", *_PLACES)
_TRUTHS: Final[dict[str, bool | None]] = {"TRUE": True, "FALSE": False, "NULL": None}
Made = TypeVar("Made", bound=Term)


@final
class Grammar:
    """The parser of one expression. Every method raises ExpressionError."""

    __slots__ = ("_at", "_depth", "_tokens", "terms")

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self.terms = 0

    def whole(self) -> Term:
        """The tree of the whole expression, a condition."""
        found = self._condition(self._or(), self._tokens[0])
        token = self._tokens[self._at]
        if token.kind != END:
            raise ExpressionError(token.column, f"{token.said()} cannot stand here; the expression should go on with AND or OR")
        return found

    def _or(self) -> Term:
        return self._chain("OR")

    def _chain(self, keyword: str) -> Term:
        """`OR` of `AND`s, or `AND` of equalities: one term with many operands, however long the chain."""
        begin = self._tokens[self._at]
        first = self._chain("AND") if keyword == "OR" else self._equality()
        if not self._accept(KEYWORD, keyword):
            return first
        parts = [self._condition(first, begin)]
        while True:
            begin = self._tokens[self._at]
            parts.append(self._condition(self._chain("AND") if keyword == "OR" else self._equality(), begin))
            if not self._accept(KEYWORD, keyword):
                return self._made(terms.Or(parts) if keyword == "OR" else terms.And(parts))

    def _equality(self) -> Term:
        left = self._comparison()
        while True:
            token = self._tokens[self._at]
            if token.kind == SIGN and token.text in ("=", "<>"):
                self._at += 1
                right = self._comparison()
                _check_equal(left, right, token)
                left = self._made(terms.Equality(left, right, token.text == "<>"))
            elif self._accept(KEYWORD, "IS"):
                negated = self._accept(KEYWORD, "NOT")
                self._expect(KEYWORD, "NULL", "NULL")
                left = self._made(terms.IsNull(left, negated))
            else:
                return left

    def _comparison(self) -> Term:
        left = self._unary()
        while True:
            token = self._tokens[self._at]
            if token.kind == SIGN and token.text in _ORDERS:
                self._at += 1
                left = self._made(self._order(left, token, token.text, self._unary()))
                continue
            negated = token.kind == KEYWORD and token.text == "NOT"
            if negated:
                token = self._tokens[self._at + 1]
            if token.kind != KEYWORD or token.text not in _NEGATABLE:
                return left
            self._at += 2 if negated else 1
            left = self._made(self._keyword(left, token, negated))

    def _keyword(self, left: Term, token: Token, negated: bool) -> Term:
        if token.text == "BETWEEN":
            return self._between(left, token, negated)
        if token.text == "IN":
            return self._in(left, token, negated)
        return terms.TextSearch(left, token.text, self._text(), negated)

    def _between(self, left: Term, token: Token, negated: bool) -> Term:
        low = self._unary()
        self._expect(KEYWORD, "AND", "AND")
        high = self._unary()
        if negated:
            below = self._order(left, token, terms.LESS, low)
            return terms.Or([below, self._order(left, token, terms.GREATER, high)])
        above = self._order(left, token, terms.GREATER_EQUAL, low)
        found = terms.And([above, self._order(left, token, terms.LESS_EQUAL, high)])
        least, most = _number(low), _number(high)
        if least is not None and most is not None and least > most:
            raise ExpressionError(token.column, "the lower bound of BETWEEN is above the upper one")
        return found

    def _in(self, left: Term, token: Token, negated: bool) -> Term:
        if not isinstance(left, Property):
            raise ExpressionError(token.column, "IN needs the name of a property before it")
        self._expect(SIGN, "(", "(")
        texts = {self._text()}
        while self._accept(SIGN, ","):
            self.terms += 1
            texts.add(self._text())
        self._expect(SIGN, ")", ") or a comma")
        return terms.OneOf(left, frozenset(texts), negated)

    def _unary(self) -> Term:
        token = self._tokens[self._at]
        sign = token.kind == SIGN and token.text in ("+", "-")
        negation = token.kind == KEYWORD and token.text == "NOT"
        if not sign and not negation:
            return self._primary()
        self._at += 1
        self._enter(token)
        begin = self._tokens[self._at]
        inner = self._unary()
        self._depth -= 1
        if negation:
            return self._made(terms.Not(self._condition(inner, begin)))
        if token.text == "+":
            return inner
        number = _number(inner)
        return terms.AlwaysNull() if number is None else Constant(-number)

    def _primary(self) -> Term:
        token = self._tokens[self._at]
        self._at += 1
        if token.kind == NAME:
            return self._made(Property(token.text))
        if token.kind == TEXT:
            return self._made(Constant(_encoded(token.text)))
        if token.kind in (WHOLE, REAL):
            return self._made(Constant(_literal(token)))
        if token.kind == KEYWORD and token.text in _TRUTHS:
            return self._made(Constant(_TRUTHS[token.text]))
        if token.kind == SIGN and token.text == "(":
            self._enter(token)
            inner = self._or()
            self._expect(SIGN, ")", ")")
            self._depth -= 1
            return inner
        raise ExpressionError(token.column, f"a property, a literal or ( is expected, not {token.said()}")

    def _text(self) -> bytes:
        token = self._tokens[self._at]
        if token.kind != TEXT:
            raise ExpressionError(token.column, f"a string in single quotes is expected, not {token.said()}")
        self._at += 1
        return _encoded(token.text)

    def _order(self, left: Term, token: Token, sign: str, right: Term) -> Condition:
        for operand in (left, right):
            if not _is_ordered(operand):
                raise ExpressionError(token.column, f"{token.text} compares numbers: properties and number literals")
        return self._made(terms.Comparison(left, sign, right))

    def _condition(self, found: Term, begin: Token) -> Term:
        """The term where a condition is needed: TRUE, FALSE, NULL and property names will do."""
        if isinstance(found, Condition):
            return found
        if isinstance(found, Constant) and (found.value is None or isinstance(found.value, bool)):
            return found
        if isinstance(found, Property):
            return terms.PropertyCondition(found)
        raise ExpressionError(begin.column, "this is a value where a condition is needed; compare it with something")

    def _made(self, found: Made) -> Made:
        self.terms += 1
        token = self._tokens[min(self._at, len(self._tokens) - 1)]
        if self.terms > TERMS_MAX:
            raise ExpressionError(token.column, f"an expression has at most {TERMS_MAX} terms")
        if found.depth > DEPTH_MAX:
            raise ExpressionError(token.column, f"terms stand inside each other more than {DEPTH_MAX} deep")
        return found

    def _enter(self, token: Token) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ExpressionError(token.column, f"terms stand inside each other more than {DEPTH_MAX} deep")

    def _accept(self, kind: str, text: str) -> bool:
        token = self._tokens[self._at]
        if token.kind != kind or token.text != text:
            return False
        self._at += 1
        return True

    def _expect(self, kind: str, text: str, said: str) -> None:
        if not self._accept(kind, text):
            token = self._tokens[self._at]
            raise ExpressionError(token.column, f"{said} is expected, not {token.said()}")


def _check_equal(left: Term, right: Term, token: Token) -> None:
    """Refuse what can never hold because of how it is written."""
    for operand in (left, right):
        if isinstance(operand, Constant) and operand.value is None:
            raise ExpressionError(token.column, "nothing equals NULL; write IS NULL or IS NOT NULL")
    truths = [isinstance(operand.value, bool) for operand in (left, right) if isinstance(operand, Constant)]
    if truths in ([True, False], [False, True]):
        raise ExpressionError(token.column, "TRUE and FALSE cannot be compared with a number or a string")


def _is_ordered(term: Term) -> bool:
    """False for what can never be a number."""
    value = term.value if isinstance(term, Constant) else 0
    if isinstance(value, bytes):
        return real(value) is not None
    return value is not None and not isinstance(value, bool) and not isinstance(term, Condition)


def _number(term: Term) -> int | float | None:
    """The value of a number literal; None for all other terms."""
    value = term.value if isinstance(term, Constant) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _literal(token: Token) -> int | float:
    if token.kind == REAL:
        value = float(token.text)
        if value - value != 0:
            raise ExpressionError(token.column, "this number is larger than a floating-point number can be")
        return value
    digits = token.text.rstrip("lL")
    if len(digits) > 1 and digits[0] == "0":
        raise ExpressionError(token.column, "a whole number does not begin with 0; octal and hexadecimal are not known")
    if len(digits) > 19 or int(digits) > WHOLE_MAX:
        raise ExpressionError(token.column, f"a whole number is at most {WHOLE_MAX}")
    return int(digits)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
