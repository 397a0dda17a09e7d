"""SQL92 filters: the grammar, every rule about null, and what must never happen (SelectorParser, ComparisonExpression)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.errors import ErrorCode, Failure
from domain.filter.expression import KEPT_CHARS_MAX, KEPT_MAX, Expressions
from domain.filter.sql import EXPRESSION_CHARS_MAX, SqlFilter, parse
from domain.filter.tag import TagFilter
from domain.message import property as properties
from tests.domain.filter import naive

MESSAGE = {
    "color": "red", "weight": "7", "price": "10.50", "big": "3000000000", "flag": "true", "Name": "Zürich", "_a1": "x",
    "$b": "y",
    "quote": "it's", "spaced": " 5 ", "word": "abc", "negative": "-3", "five": "5", "six": "6",
}  # fmt: skip


def compiled(text: str) -> SqlFilter:
    found = parse(text)
    assert isinstance(found, SqlFilter), found
    return found


def matches(text: str, message: dict[str, str] | None = None) -> bool:
    return compiled(text).matches(properties.encode((MESSAGE if message is None else message).items()))


def fault(text: str) -> str:
    found = parse(text)
    assert isinstance(found, Failure), text
    assert found.code is ErrorCode.FILTER_ILLEGAL
    return found.text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # or, and: precedence and grouping
        ("color = 'red' OR color = 'blue' AND weight = 1", True),
        ("(color = 'red' OR color = 'blue') AND weight = 1", False),
        ("color = 'blue' or weight = 7 or price > 100", True),
        ("color = 'red' and weight = 7 AnD price < 11.0", True),
        # equality
        ("color = 'red'", True),
        ("color <> 'red'", False),
        ("'red' = color", True),
        ("color = word", False),
        ("color <> word", True),
        ("Name = 'Zürich'", True),
        ("name = 'Zürich'", False),
        ("quote = 'it''s'", True),
        ("weight = 7", True),
        ("weight = 7L", True),
        ("weight = 7l", True),
        ("weight = 7.0", True),
        ("weight = 7.", True),
        ("weight = .7e1", True),
        ("weight = 70E-1", True),
        ("7 = weight", True),
        ("weight <> 8", True),
        ("price = 10.5", True),
        ("big = 3000000000", True),
        ("big > 5", True),
        ("weight = +7", True),
        ("negative = -3", True),
        ("negative = - - -3", True),
        ("5 = 5", True),
        ("5 = 5.0", True),
        ("'a' = 'a'", True),
        ("flag = TRUE", True),
        ("flag <> FALSE", True),
        ("color = TRUE", False),
        ("color = FALSE", True),
        ("TRUE = flag", True),
        ("(weight > 5) = TRUE", True),
        ("(weight > 5) = flag", True),
        ("(weight > 5) = 1", False),
        ("(weight > 5) <> 1", True),
        ("weight > 5 = TRUE", True),
        # comparison
        ("weight > 6", True),
        ("weight >= 7", True),
        ("weight < 7", False),
        ("weight <= 7", True),
        ("6 < weight", True),
        ("weight > 6.99", True),
        ("six > five", True),
        ("price < '11'", True),
        ("weight BETWEEN 5 AND 10", True),
        ("weight BETWEEN 7 AND 7", True),
        ("weight between 8 and 10", False),
        ("weight BETWEEN five AND six", False),
        ("6 BETWEEN five AND weight", True),
        ("weight NOT BETWEEN 8 AND 10", True),
        ("weight NOT BETWEEN 5 AND 10", False),
        ("weight NOT BETWEEN 10 AND 5", True),
        ("color IN ('blue', 'red')", True),
        ("color in('blue')", False),
        ("color NOT IN ('blue', 'green')", True),
        ("color NOT IN ('red')", False),
        ("word CONTAINS 'b'", True),
        ("word CONTAINS 'x'", False),
        ("word NOT CONTAINS 'x'", True),
        ("word NOT CONTAINS 'b'", False),
        ("Name CONTAINS 'ü'", True),
        ("word STARTSWITH 'ab'", True),
        ("word STARTSWITH 'bc'", False),
        ("word NOT STARTSWITH 'bc'", True),
        ("word ENDSWITH 'bc'", True),
        ("word endswith 'ab'", False),
        ("word NOT ENDSWITH 'ab'", True),
        ("'abc' CONTAINS 'b'", True),
        # unary, primary
        ("NOT (color = 'blue')", True),
        ("NOT NOT (color = 'red')", True),
        ("not color IN ('red')", None),
        ("NOT FALSE", True),
        ("((((color = 'red'))))", True),
        ("TRUE", True),
        ("FALSE", False),
        ("TRUE AND NOT FALSE", True),
        ("_a1 = 'x' AND $b = 'y'", True),
        # a property alone is no condition that is TRUE; NOT makes FALSE of it TRUE
        ("flag", False),
        ("NOT flag", True),
        ("NOT flag = TRUE", True),
        ("NOT flag = FALSE", False),
        # spaces and comments
        (" \t\r\n\f color\n=\n'red' ", True),
        ("color = 'red' -- and weight = 1", True),
        ("color = 'red' -- or\n and weight = 1", False),
        ("/* first */ color /* ** / */ = 'red' /**/", True),
        ("weight=7--1", True),
    ],
)
def test_grammar(text: str, wanted: bool | None) -> None:
    if wanted is None:
        assert fault(text)
    else:
        assert matches(text) is wanted


@pytest.mark.parametrize(
    "text",
    [
        # a missing property is null, and a comparison with null is null
        "gone = 'x'", "gone <> 'x'", "'x' <> gone", "gone = 1", "gone <> 1", "1 <> gone", "gone > 1", "gone <= 1", "1 < gone",
        "gone = gone", "gone <> gone", "gone = color", "color <> gone", "gone = TRUE", "gone <> TRUE", "gone < weight",
        "gone BETWEEN 1 AND 2", "gone NOT BETWEEN 1 AND 2", "weight BETWEEN gone AND 10", "gone IN ('x')", "gone NOT IN ('x')",
        # and stays so
        "NOT (gone = 'x')", "NOT (gone <> 'x')", "NOT (gone IN ('x'))", "gone", "NOT gone", "NULL", "NOT NULL",
        "NULL OR FALSE", "NULL AND TRUE", "gone = 1 OR color = 'blue'", "gone = 1 AND color = 'red'", "-color = -3",
        # search: FALSE for what is missing or no text, and for the empty search, negated or not
        "gone CONTAINS 'x'", "gone NOT CONTAINS 'x'", "gone STARTSWITH 'x'", "gone NOT STARTSWITH 'x'", "gone ENDSWITH 'x'",
        "gone NOT ENDSWITH 'x'", "word CONTAINS ''", "word NOT CONTAINS ''", "word STARTSWITH ''", "word NOT STARTSWITH ''",
        "word ENDSWITH ''", "word NOT ENDSWITH ''", "5 CONTAINS '5'", "5 NOT CONTAINS '5'", "gone IS NOT NULL", "color IS NULL",
        "5 IS NULL",
        # what cannot be computed: nothing matches, however it is turned
        "color > 1", "color = 1", "color <> 1", "NOT (color > 1)", "color > weight", "price = 10", "spaced = 5",
        "big > 5 AND color > 1",
        "color > 1 OR color = 'red'", "color BETWEEN 1 AND 2", "color NOT BETWEEN 1 AND 2", "(color > 1) IS NULL",
        "(color > 1) IS NOT NULL", "(color > 1) <> TRUE",
    ],
)  # fmt: skip
def test_what_does_not_match(text: str) -> None:
    assert not matches(text)


@pytest.mark.parametrize(
    "text",
    [
        "gone IS NULL", "color IS NOT NULL", "(gone = 1) IS NULL", "(gone > 1) IS NULL", "NULL IS NULL", "(NOT gone) IS NULL",
        "NOT (gone CONTAINS 'x')", "NOT (gone NOT CONTAINS 'x')", "NOT (word CONTAINS '')", "NULL OR TRUE",
        "NOT (NULL AND FALSE)",
        "gone = 1 OR color = 'red'", "NOT (gone = 1 AND color = 'blue')", "color = 'red' OR color > 1", "spaced = 5.0",
        "NOT (color = 'blue' AND color > 1)", "empty IS NULL",
    ],
)  # fmt: skip
def test_what_matches_in_spite_of_nulls_and_faults(text: str) -> None:
    assert matches(text)


@pytest.mark.parametrize(
    ("value", "literal", "wanted"),
    [
        ("+7", "7", True), ("007", "7", True), ("0" * 40 + "7", "7", True), ("7 ", "7", False), ("7.0", "7", False),
        ("1e3", "1000", False), ("1e3", "1000.0", True), ("1e3f", "1000.0", True), ("1D", "1.0", True), ("0x10", "16", False),
        ("9223372036854775807", "9223372036854775807", True), ("9223372036854775808", "1", False), ("1" * 5_000, "1", False),
        ("1_000", "1000", False), ("1_000", "1000.0", False), ("NaN", "0.0", False), ("Infinity", "0.0", False),
        ("\u0667", "7", False),
        ("-0", "0", True), ("-9223372036854775808", "-9223372036854775807", False), ("1e999", "1.0", False),
    ],
)  # fmt: skip
def test_numbers_in_properties(value: str, literal: str, wanted: bool) -> None:
    assert matches(f"a = {literal}", {"a": value}) is wanted


@pytest.mark.parametrize(
    ("text", "column", "word"),
    [
        ("", 1, "the end"), ("   ", 4, "the end"), ("color =", 8, "the end"), ("= 1", 1, "="), ("color", 0, ""),
        ("5", 1, "value"),
        ("'x'", 1, "value"), ("color = 'red", 9, "not closed"), ("a = 1 /* b", 7, "comment"), ("a == 1", 4, "="),
        ("a != 1", 3, "<>"),
        ("a = 1 b", 7, "b"), ("a LIKE 'x'", 3, "LIKE"), ("a + 1 > 2", 3, "+"), ("a * 2 = 4", 3, "'*'"), ("a.b = 1", 2, "'.'"),
        ("a-b = 1", 2, "-"), ("(a = 1", 7, ")"), ("a = 1)", 6, ")"), ("a IN ()", 7, ")"), ("a IN (1)", 7, "1"),
        ("a IN ('x',)", 11, ")"),
        ("a IN 'x'", 6, "("), ("5 IN ('x')", 3, "property"), ("a CONTAINS b", 12, "quotes"), ("a CONTAINS", 11, "the end"),
        ("a IS 5", 6, "5"), ("a IS NOT 5", 10, "5"), ("a = NULL", 3, "IS NULL"), ("NULL <> a", 6, "IS NULL"),
        ("a > NULL", 3, "numbers"),
        ("a > TRUE", 3, "numbers"), ("a > 'x'", 3, "numbers"), ("(a = 1) > 1", 9, "numbers"), ("a > 1 > 2", 7, "numbers"),
        ("TRUE = 5", 6, "TRUE"), ("a BETWEEN 10 AND 5", 3, "lower"), ("a BETWEEN 1 AND -1", 3, "lower"),
        ("a BETWEEN 'x' AND 'y'", 3, "numbers"),
        ("a BETWEEN NULL AND 1", 3, "numbers"), ("a BETWEEN 1 OR 2", 13, "AND"), ("a = 1 AND 5", 11, "value"),
        ("NOT 5", 5, "value"),
        ("5 OR a = 1", 1, "value"), ("a = 0x1F", 6, "x1F"), ("a = 007", 5, "octal"), ("a = 9223372036854775808", 5, "whole"),
        ("a = 1e999", 5, "floating"), ("a NOT 5", 3, "NOT"), ("AND a = 1", 1, "AND"), ("a = \ud800", 5, "meaning"),
        ("a = 'ü' ü", 9, "meaning"),
        ("in = 1", 1, "IN"), ("-'x' = 1 AND", 13, "the end"),
    ],
)  # fmt: skip
def test_errors_say_what_is_wrong_and_where(text: str, column: int, word: str) -> None:
    if not column:
        assert compiled(text)
        return
    said = fault(text)
    assert f"column {column}:" in said
    assert word in said
    assert said.encode()


def test_bounds() -> None:
    assert "8192" in fault("a" * (EXPRESSION_CHARS_MAX + 1))
    assert "deep" in fault("(" * 65 + "a = 1" + ")" * 65)
    assert "deep" in fault("NOT " * 65 + "a")
    assert "deep" in fault("a" + " = 'x'" * 65)
    assert "deep" in fault("(" * 4_000)
    assert "terms" in fault(" OR ".join(["a=1"] * 1_000))
    assert "terms" in fault("a IN (" + ",".join(["''"] * 2_000) + ")")
    assert matches("(" * 60 + "color = 'red'" + ")" * 60)
    assert matches(" OR ".join(["a=1"] * 300 + ["color='red'"]))
    assert matches("(" * 60 + "NOT FALSE" + ")" * 60)


def test_properties_are_found_where_they_are_not_looked_for() -> None:
    stored = b"xcolor\x01red\x02a\x01color\x02TAGS\x01t\x02color\x01blue\x02last\x01end"
    assert compiled("color = 'blue' AND TAGS = 't' AND last = 'end'").matches(stored)
    assert not compiled("color = 'red'").matches(stored)


def test_compiled_expressions_are_kept_up_to_a_bound() -> None:
    kept = Expressions()
    first = kept.compile("SQL92", "a = 1")
    assert isinstance(first, SqlFilter)
    assert kept.compile("SQL92", "a = 1") is first
    wrong = kept.compile("SQL92", "a =")
    assert isinstance(wrong, Failure)
    assert kept.compile("SQL92", "a =") is wrong
    assert isinstance(kept.compile("TAG", "a"), TagFilter)
    assert kept.compile("", "*") is None
    assert isinstance(kept.compile("GROOVY", "a"), Failure)
    for at in range(KEPT_MAX):
        kept.compile("SQL92", f"a = {at}")
    assert kept.compile("SQL92", "a = 1") is not first


def test_long_expressions_are_kept_too_and_their_characters_are_bounded() -> None:
    kept = Expressions()
    long = "b = 1 AND " * 300 + "a = 1"
    first = kept.compile("SQL92", long)
    assert isinstance(first, SqlFilter)
    for at in range(KEPT_CHARS_MAX // len(long) - 1):
        kept.compile("SQL92", f"{at:05} = a AND " + long[14:])
    assert kept.compile("SQL92", long) is first, "equal expressions share a filter"
    kept.compile("SQL92", "c = 2 AND " * 300 + "a = 1")
    assert kept.compile("SQL92", long) is not first
    assert isinstance(kept.compile("SQL92", "d" * (EXPRESSION_CHARS_MAX + 1)), Failure)
    again = kept.compile("SQL92", "b = 2")
    kept.compile("SQL92", "d" * 2 * KEPT_CHARS_MAX)
    assert kept.compile("SQL92", "b = 2") is again, "a text that is refused takes no room"


NAMES = st.sampled_from(["a", "b", "c", "missing"])
TEXTS = st.sampled_from(["", "x", "red", "it's", "ü", "5", "1.5", "-3", "true", "abc"])
NUMBERS = st.one_of(st.integers(0, 10), st.sampled_from([0.5, 1.5, 5.0]))
NAME = NAMES.map(lambda name: ("name", name))
NUMBER = NUMBERS.map(lambda number: ("literal", number))
COMPARED = st.one_of(NAME, NUMBER)
NEGATED = st.booleans()
LEAF = st.one_of(
    st.tuples(st.sampled_from(["=", "<>"]), NAME, st.one_of(NAME, NUMBER, TEXTS.map(lambda text: ("literal", text)))),
    st.tuples(st.sampled_from(["<", "<=", ">", ">="]), COMPARED, COMPARED),
    st.tuples(st.just("null"), COMPARED, NEGATED),
    st.tuples(st.just("in"), NAME, st.lists(TEXTS, min_size=1, max_size=3), NEGATED),
    st.tuples(st.sampled_from(["contains", "startswith", "endswith"]), NAME, TEXTS, NEGATED),
    st.tuples(st.just("between"), COMPARED, NUMBER, NAME, NEGATED),
)
TREES = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=4)),
        st.tuples(st.just("not"), inner),
        st.tuples(st.just("null"), inner, NEGATED),
    ),
    max_leaves=12,
)
MESSAGES = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.one_of(TEXTS.filter(bool), st.integers(-5, 10).map(str), st.just("2.5")), max_size=3
)


@settings(max_examples=100, deadline=None)
@given(TREES, st.lists(MESSAGES, min_size=1, max_size=8))
def test_fast_and_naive_evaluation_agree(tree: naive.Tree, messages: list[dict[str, str]]) -> None:
    wanted = compiled(naive.text(tree))
    for message in messages:
        stored = properties.encode(message.items())
        assert wanted.matches(stored) is (naive.value(tree, message) is True), (naive.text(tree), message)


WORDS = ["a", "=", "<>", "<", ">=", "(", ")", ",", "'x'", "'", "5", ".5", "1e9", "-", "+", "NOT", "AND", "OR", "IS",
         "NULL", "IN",
         "BETWEEN", "CONTAINS", "STARTSWITH", "TRUE", "/*", "*/", "--", "\n", "\x00", "ü", "\ud83d"]  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(st.text(max_size=60), st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)),
    st.one_of(st.binary(max_size=80), st.lists(st.sampled_from([b"a\x01", b"\x02", b"5", b"\xff", b"\x01"])).map(b"".join)),
)
def test_no_text_and_no_bytes_ever_raise(text: str, stored: bytes) -> None:
    found = parse(text)
    if isinstance(found, Failure):
        assert found.text.encode()
    else:
        assert found.matches(stored) in (True, False)
    whole = compiled("a = 5 OR a > 1.5 OR a CONTAINS 'x' OR a IN ('y') OR a BETWEEN 1 AND 2 OR NOT a OR a IS NULL")
    assert whole.matches(stored) in (True, False)
