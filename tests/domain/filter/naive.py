"""A second evaluation of SQL92 filters, over a dictionary and without regard for speed, to compare the fast one with.

An expression is a nested tuple. `text` writes it as SQL, `value` evaluates it: a string, a number, True, False, None, or FAULT.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

FAULT = "no value: cannot be computed"
ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
Tree = tuple[Any, ...]


def quoted(string: str) -> str:
    return "'" + string.replace("'", "''") + "'"


def text(tree: Tree) -> str:
    """The expression as SQL, with parentheses around every part."""
    kind, *rest = tree
    if kind == "name":
        return str(rest[0])
    if kind == "literal":
        return quoted(rest[0]) if isinstance(rest[0], str) else repr(rest[0])
    if kind in ("and", "or"):
        return "(" + f" {kind.upper()} ".join(text(each) for each in rest[0]) + ")"
    if kind == "not":
        return f"NOT ({text(rest[0])})"
    if kind == "null":
        return f"({text(rest[0])} IS {'NOT ' if rest[1] else ''}NULL)"
    if kind == "between":
        return f"({text(rest[0])} {'NOT ' if rest[3] else ''}BETWEEN {text(rest[1])} AND {text(rest[2])})"
    if kind == "in":
        return f"({text(rest[0])} {'NOT ' if rest[2] else ''}IN ({', '.join(map(quoted, rest[1]))}))"
    if kind in ("contains", "startswith", "endswith"):
        return f"({text(rest[0])} {'NOT ' if rest[2] else ''}{kind.upper()} {quoted(rest[1])})"
    return f"({text(rest[0])} {kind} {text(rest[1])})"


def number(value: Any, like: Any) -> Any:
    """A property's text as the type of `like`; FAULT when it is none."""
    try:
        if not isinstance(value, str):
            return value
        if "_" in value or not value.isascii():
            return FAULT
        return int(value) if isinstance(like, int) and value == value.strip() else float(value.strip())
    except ValueError:
        return FAULT


def compare(sign: str, left: Any, right: Any) -> Any:
    if FAULT in (left, right):
        return FAULT
    if left is None or right is None:
        return None
    if sign in ORDERS:
        left, right = number(left, right), number(right, left)
        return FAULT if FAULT in (left, right) else ORDERS[sign](left, right)
    if not (isinstance(left, str) and isinstance(right, str)):
        left, right = number(left, right), number(right, left)
    if FAULT in (left, right):
        return FAULT
    return (left == right) is (sign == "=")


def value(tree: Tree, properties: Mapping[str, str]) -> Any:
    kind, *rest = tree
    if kind == "name":
        return properties.get(rest[0])
    if kind == "literal":
        return rest[0]
    if kind in ("and", "or"):
        seen = []
        for each in rest[0]:
            seen.append(value(each, properties))
            if seen[-1] == FAULT or seen[-1] is (kind == "or"):
                return seen[-1]
        return None if None in seen else kind == "and"
    inner = value(rest[0], properties)
    if kind == "not":
        return {True: False, False: True, None: None, FAULT: FAULT}[inner]
    if kind == "null":
        return FAULT if inner == FAULT else (inner is None) is not rest[1]
    if kind == "in":
        return None if inner is None else (inner in rest[1]) is not rest[2]
    if kind in ("contains", "startswith", "endswith"):
        if inner is None or not rest[1]:
            return False
        found = {"contains": rest[1] in inner, "startswith": inner.startswith(rest[1]), "endswith": inner.endswith(rest[1])}
        return found[kind] is not rest[2]
    if kind == "between":
        _, low, high, negated = rest
        if negated:
            return value(("or", [("<", rest[0], low), (">", rest[0], high)]), properties)
        return value(("and", [(">=", rest[0], low), ("<=", rest[0], high)]), properties)
    return compare(kind, inner, value(rest[1], properties))
