"""Tokens of CESQL -> a tree, by recursive descent (CESQL 1.0, sections 2 and 3.6).

logic        comparison ((AND | OR | XOR) comparison)*
comparison   sum ((= | != | <> | < | <= | > | >=) sum)*
sum          product ((+ | -) product)*
product      member ((* | / | %) member)*
member       matched ([NOT] IN (logic, …))*
matched      unary ([NOT] LIKE 'text')*
unary        NOT unary | - unary | EXISTS name | call | literal | name | ( logic )
"""

from __future__ import annotations

import re
from typing import Final, TypeVar, final

from domain.cesql.functions import find
from domain.cesql.term import (
    COMPARISONS,
    PRODUCTS,
    SUMS,
    CesqlArithmetic,
    CesqlAttribute,
    CesqlCall,
    CesqlComparison,
    CesqlExists,
    CesqlIn,
    CesqlLike,
    CesqlLiteral,
    CesqlLogic,
    CesqlOpposite,
    CesqlTerm,
)
from domain.cesql.value import INTEGER_MAX
from domain.lexicon import END, KEYWORD, NAME, SIGN, TEXT, WHOLE, ExpressionError, Token

DEPTH_MAX: Final = 64
TERMS_MAX: Final = 1_024
_LOGIC: Final = ("AND", "OR", "XOR")
_ATTRIBUTE: Final = re.compile(r"[A-Za-z0-9]+")
_FUNCTION: Final = re.compile(r"[A-Za-z][A-Za-z_]*")
Made = TypeVar("Made", bound=CesqlTerm)


@final
class CesqlGrammar:
    """The parser of one expression. Every method raises ExpressionError."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._terms = 0

    def whole(self) -> CesqlTerm:
        """The tree of the whole expression."""
        found = self._logic()
        token = self._tokens[self._at]
        if token.kind != END:
            raise ExpressionError(token.column, f"{token.said()} cannot stand here")
        return found

    def _logic(self) -> CesqlTerm:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ExpressionError(self._tokens[self._at].column, f"more than {DEPTH_MAX} levels of parentheses and operators")
        first = self._comparison()
        rest: list[tuple[str, CesqlTerm]] = []
        while (sign := self._accept(KEYWORD, _LOGIC)) is not None:
            rest.append((sign, self._comparison()))
        self._depth -= 1
        return self._made(CesqlLogic(first, rest)) if rest else first

    def _comparison(self) -> CesqlTerm:
        left = self._sum()
        while (sign := self._accept(SIGN, COMPARISONS)) is not None:
            left = self._made(CesqlComparison(sign, left, self._sum()))
        return left

    def _sum(self) -> CesqlTerm:
        left = self._product()
        while (sign := self._accept(SIGN, SUMS)) is not None:
            left = self._made(CesqlArithmetic(sign, left, self._product()))
        return left

    def _product(self) -> CesqlTerm:
        left = self._member()
        while (sign := self._accept(SIGN, PRODUCTS)) is not None:
            left = self._made(CesqlArithmetic(sign, left, self._member()))
        return left

    def _member(self) -> CesqlTerm:
        left = self._matched()
        while (negated := self._operator("IN")) is not None:
            self._expect("(")
            members = [self._logic()]
            while self._accept(SIGN, (",",)) is not None:
                members.append(self._logic())
            self._expect(")")
            left = self._made(CesqlIn(left, members, negated))
        return left

    def _matched(self) -> CesqlTerm:
        left = self._unary()
        while (negated := self._operator("LIKE")) is not None:
            token = self._next()
            if token.kind != TEXT:
                raise ExpressionError(token.column, f"behind LIKE stands a string, not {token.said()}")
            left = self._made(CesqlLike(left, token.text, negated))
        return left

    def _operator(self, keyword: str) -> bool | None:
        """`keyword` or NOT `keyword`: whether it is negated; None: neither stands here."""
        token = self._tokens[self._at]
        if token.kind != KEYWORD:
            return None
        if token.text == keyword:
            self._at += 1
            return False
        after = self._tokens[self._at + 1]
        if token.text == "NOT" and after.kind == KEYWORD and after.text == keyword:
            self._at += 2
            return True
        return None

    def _unary(self) -> CesqlTerm:
        token = self._next()
        if token.kind == KEYWORD:
            return self._keyword(token)
        if token.kind == SIGN:
            return self._sign(token)
        if token.kind == TEXT:
            return self._made(CesqlLiteral(token.text))
        if token.kind == WHOLE:
            return self._integer(token, 1)
        if token.kind == NAME and self._accept(SIGN, ("(",)) is not None:
            return self._call(token)
        return self._made(CesqlAttribute(self._name(token)))

    def _keyword(self, token: Token) -> CesqlTerm:
        if token.text == "NOT":
            return self._opposite(bool)
        if token.text == "EXISTS":
            return self._made(CesqlExists(self._name(self._next())))
        if token.text in ("TRUE", "FALSE"):
            return self._made(CesqlLiteral(token.text == "TRUE"))
        raise ExpressionError(token.column, f"{token.text} cannot stand here")

    def _sign(self, token: Token) -> CesqlTerm:
        after = self._tokens[self._at]
        if token.text in SUMS and after.kind == WHOLE:
            self._at += 1
            return self._integer(after, -1 if token.text == "-" else 1)
        if token.text == "-":
            return self._opposite(int)
        if token.text == "(":
            found = self._logic()
            self._expect(")")
            return found
        raise ExpressionError(token.column, f"{token.text} cannot stand here")

    def _opposite(self, kind: type[bool] | type[int]) -> CesqlTerm:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ExpressionError(self._tokens[self._at].column, f"more than {DEPTH_MAX} levels of parentheses and operators")
        inner = self._unary()
        self._depth -= 1
        return self._made(CesqlOpposite(inner, kind))

    def _integer(self, token: Token, factor: int) -> CesqlTerm:
        if len(token.text) > 20 or int(token.text) > INTEGER_MAX + (factor < 0):
            raise ExpressionError(token.column, "an integer has 32 bits")
        return self._made(CesqlLiteral(factor * int(token.text)))

    def _call(self, token: Token) -> CesqlTerm:
        if _FUNCTION.fullmatch(token.text) is None:
            raise ExpressionError(token.column, f"{token.said()} is no name of a function: letters and _")
        arguments: list[CesqlTerm] = []
        if self._accept(SIGN, (")",)) is None:
            arguments.append(self._logic())
            while self._accept(SIGN, (",",)) is not None:
                arguments.append(self._logic())
            self._expect(")")
        return self._made(CesqlCall(find(token.text, len(arguments)), arguments))

    def _name(self, token: Token) -> str:
        if token.kind not in (NAME, WHOLE) or _ATTRIBUTE.fullmatch(token.text) is None:
            raise ExpressionError(token.column, f"{token.said()} is no attribute: letters and digits")
        return token.text.lower()

    def _next(self) -> Token:
        token = self._tokens[self._at]
        if token.kind == END:
            raise ExpressionError(token.column, "the expression ends too early")
        self._at += 1
        return token

    def _accept(self, kind: str, texts: tuple[str, ...]) -> str | None:
        token = self._tokens[self._at]
        if token.kind != kind or token.text not in texts:
            return None
        self._at += 1
        return token.text

    def _expect(self, sign: str) -> None:
        token = self._tokens[self._at]
        if self._accept(SIGN, (sign,)) is None:
            raise ExpressionError(token.column, f"{sign} is expected, not {token.said()}")

    def _made(self, term: Made) -> Made:
        self._terms += 1
        if self._terms > TERMS_MAX or term.depth > DEPTH_MAX * 8:
            raise ExpressionError(1, f"the expression has more than {TERMS_MAX} parts")
        return term
