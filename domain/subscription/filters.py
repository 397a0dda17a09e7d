"""Filters of subscriptions in their dialects (Subscriptions API 0.1-wip, section 3.2.4): JSON values -> a predicate."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from domain.cesql.expression import Cesql
from domain.lexicon import ExpressionError
from domain.subscription.subscription import FILTERS_MAX

DIALECTS: Final = ("exact", "prefix", "suffix", "all", "any", "not", "sql")
DEPTH_MAX: Final = 8
VALUE_CHARS_MAX: Final = 1_024
_NAME: Final = re.compile(r"[a-z0-9]+")

Attributes = Mapping[str, str]
Predicate = Callable[[Attributes], bool]


class SubscriptionError(ValueError):
    """A subscription that is not valid.

    member   the JSON member that is wrong, with the path to it: `filters[0].exact`
    """

    def __init__(self, member: str, text: str) -> None:
        super().__init__(f"{member}: {text}")
        self.member = member
        self.text = text


def predicate(filters: object, types: Sequence[str] = ()) -> Predicate:
    """All `filters` and one of `types` as one predicate. Raises SubscriptionError."""
    if not isinstance(filters, Sequence) or isinstance(filters, str | bytes):
        raise SubscriptionError("filters", "is an array of filters")
    count = [0]
    tests = [_filter(each, f"filters[{number}]", 1, count) for number, each in enumerate(filters)]
    if types:
        wanted = frozenset(types)
        tests.insert(0, lambda event: event.get("type") in wanted)
    if len(tests) == 1:
        return tests[0]
    return lambda event: all(test(event) for test in tests)


def _filter(value: object, member: str, depth: int, count: list[int]) -> Predicate:
    count[0] += 1
    if count[0] > FILTERS_MAX or depth > DEPTH_MAX:
        raise SubscriptionError(member, f"at most {FILTERS_MAX} filters, {DEPTH_MAX} inside each other")
    if not isinstance(value, Mapping) or len(value) != 1:
        raise SubscriptionError(member, 'is an object with one member, the dialect: {"exact": {"type": "x"}}')
    dialect, inner = next(iter(value.items()))
    member = f"{member}.{dialect}"[:200]
    if dialect in ("exact", "prefix", "suffix"):
        return _comparison(dialect, inner, member)
    if dialect in ("all", "any"):
        if not isinstance(inner, Sequence) or isinstance(inner, str | bytes) or not inner:
            raise SubscriptionError(member, "is an array with at least one filter")
        tests = [_filter(each, f"{member}[{number}]", depth + 1, count) for number, each in enumerate(inner)]
        if dialect == "all":
            return lambda event: all(test(event) for test in tests)
        return lambda event: any(test(event) for test in tests)
    if dialect == "not":
        test = _filter(inner, member, depth + 1, count)
        return lambda event: not test(event)
    if dialect == "sql":
        return _sql(inner, member)
    raise SubscriptionError(member, f"this dialect is unknown; known are {', '.join(DIALECTS)}")


def _comparison(dialect: str, inner: object, member: str) -> Predicate:
    if not isinstance(inner, Mapping) or not inner:
        raise SubscriptionError(member, "is an object with at least one attribute and its value")
    wanted: list[tuple[str, str]] = []
    for name, text in inner.items():
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise SubscriptionError(f"{member}.{name}"[:200], "is no name of an attribute: a-z and 0-9")
        if not isinstance(text, str) or not 0 < len(text) <= VALUE_CHARS_MAX:
            raise SubscriptionError(f"{member}.{name}", f"is a string of 1 to {VALUE_CHARS_MAX} characters")
        wanted.append((name, text))
    if dialect == "exact":
        return lambda event: all(event.get(name) == text for name, text in wanted)
    if dialect == "prefix":
        return lambda event: all(event.get(name, "").startswith(text) for name, text in wanted)
    return lambda event: all(event.get(name, "").endswith(text) for name, text in wanted)


def _sql(inner: object, member: str) -> Predicate:
    if not isinstance(inner, str) or not inner.strip():
        raise SubscriptionError(member, "is a CESQL expression")
    try:
        return Cesql(inner).holds
    except ExpressionError as error:
        raise SubscriptionError(member, str(error)) from None
