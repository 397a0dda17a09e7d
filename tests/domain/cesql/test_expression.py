"""CESQL: what the specification says, with the sections; its public test kit runs in tests/interop/webhooks."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.cesql.expression import EXPRESSION_CHARS_MAX, Cesql
from domain.cesql.value import CesqlFault
from domain.lexicon import ExpressionError

EVENT = {"id": "1", "source": "/s", "type": "com.example.made", "specversion": "1.0", "n": "10", "flag": "true"}


@pytest.mark.parametrize(
    ("text", "value", "faults"),
    [
        ("type LIKE 'com.%.made'", True, []),
        ("type LIKE 'com._xample.made' AND n > 9", True, []),
        ("NOT type LIKE 'x%'", False, [CesqlFault.CAST]),  # 3.6: NOT binds closer than LIKE
        ("type NOT LIKE 'x%'", True, []),
        ("1 + 2 * 3 = 7", True, []),
        ("true AND false OR true", True, []),  # 3.6: from left to right
        ("absent = ''", False, [CesqlFault.MISSING_ATTRIBUTE]),  # 3.2
        ("1 / absent", 0, [CesqlFault.MISSING_ATTRIBUTE]),
        ("EXISTS id AND NOT EXISTS absent", True, []),
        ("-2147483648", -2147483648, []),
        ("2147483647 + 1", 2147483647, [CesqlFault.MATH]),
        ("-7 / 2", -3, []),  # 3.4.2: towards 0
        ("-7 % 2", -1, []),  # the sign of the dividend
        ("ABS(-2147483648)", 2147483647, [CesqlFault.MATH]),
        ("SUBSTRING('abcdef', -3, 2)", "de", []),
        ("CONCAT_WS('-', 'a', 1, true)", "a-1-true", []),
        ("NOPE(1)", False, [CesqlFault.MISSING_FUNCTION]),
        ("LEFT('abc')", False, [CesqlFault.MISSING_FUNCTION]),
        ("'it''s' = 'it\\'s'", True, []),
        ("flag", "true", []),
    ],
)
def test_values_and_errors(text: str, value: object, faults: list[CesqlFault]) -> None:
    assert Cesql(text).evaluate(EVENT) == (value, faults)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "ABC(", "a =", "'open", "1 = = 2", "a LIKE 1", "IN (1)", "a IN ()", "2147483648", "(" * 65 + "1" + ")" * 65,
        "a-b-", "a_b", "1.5", "a;b", "NOT " * 65 + "true", "x" * (EXPRESSION_CHARS_MAX + 1), "true AND" * 3,
    ],
)  # fmt: skip
def test_what_is_no_cesql_is_refused_with_its_column(text: str) -> None:
    with pytest.raises(ExpressionError) as error:
        Cesql(text)
    assert error.value.column >= 1


def test_a_filter_that_fails_is_false() -> None:
    assert Cesql("flag").holds({"flag": True})
    assert not Cesql("flag").holds({"flag": "true"}), "no boolean"
    assert not Cesql("absent != 'x'").holds(EVENT)


@given(st.text(alphabet="abn01'\"()=<>!,+-*/% ANDORNTLIKEXS_", max_size=60))
def test_no_text_raises_anything_else(text: str) -> None:
    with suppress(ExpressionError):
        Cesql(text).evaluate(EVENT)


@pytest.mark.timeout(20)
def test_patterns_take_no_more_than_the_product_of_both_lengths() -> None:
    pattern = "%a" * 1_000 + "%b"
    assert Cesql(f"x LIKE '{pattern}'").evaluate({"x": "a" * 20_000}) == (False, [])
