"""Attributes of topics and groups: which values are legal, and what a change makes of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import ErrorCode, Failure
from domain.topic import attribute
from domain.topic.attribute import AttributeType

LONG_MAX = (1 << 63) - 1


@given(st.integers(-30, 30), st.integers(-30, 30), st.integers(-40, 40))
def test_a_number_is_legal_within_its_bounds(low: int, width: int, value: int) -> None:
    kind = AttributeType(low, low + abs(width))
    assert (kind.fault(str(value)) == "") == (low <= value <= low + abs(width))


@pytest.mark.parametrize("value", ["", "-", "--1", "1.0", " 1", "1 ", "+1", "0x1", "\u0661", "1" * 20, "one"])
def test_other_text_is_no_number(value: str) -> None:
    assert AttributeType(-1, LONG_MAX).fault(value) == f"is no whole number from -1 to {LONG_MAX}"


def test_the_largest_number_is_legal() -> None:
    assert AttributeType(-1, LONG_MAX).fault(str(LONG_MAX)) == ""
    assert AttributeType(-1, LONG_MAX).fault(str(LONG_MAX + 1)) != ""


def test_a_word_is_legal_as_it_is_written() -> None:
    kind = AttributeType(words=("Shared", "Exclusive"))
    assert [kind.fault(value) for value in ("Shared", "Exclusive")] == ["", ""]
    assert kind.fault("shared") == "is none of Shared, Exclusive"


@pytest.mark.parametrize(("length", "is_legal"), [(0, False), (1, True), (256, True), (257, False)])
def test_a_text_has_a_bounded_length(length: int, is_legal: bool) -> None:
    assert (AttributeType().fault("x" * length) == "") == is_legal


def test_a_change_sets_and_drops_attributes_and_keeps_the_others() -> None:
    known = {"a": "1", "b": "2", "c": "3"}
    assert attribute.altered(known, {"+a": "10", "b": "20", "-c": "", "-missing": "", "+d": "4"}) == {
        "a": "10",
        "b": "20",
        "d": "4",
    }
    assert known == {"a": "1", "b": "2", "c": "3"}


@pytest.mark.parametrize("sign", ["", "+"])
def test_a_change_to_an_illegal_value_is_refused(sign: str) -> None:
    found = attribute.altered({}, {f"{sign}priority.factor": "101"})
    assert isinstance(found, Failure)
    assert (found.code, found.text) == (
        ErrorCode.ARGUMENT_ILLEGAL, "attribute priority.factor: '101' is no whole number from 0 to 100",
    )  # fmt: skip


def test_an_attribute_can_be_dropped_whatever_its_value_was() -> None:
    assert attribute.altered({"priority.factor": "broken"}, {"-priority.factor": "broken"}) == {}


def test_topics_have_only_attributes_that_are_known() -> None:
    assert attribute.unknown(attribute.TOPIC) is None
    found = attribute.unknown(["cleanup.policy", "colour", "size"])
    assert found is not None
    assert (found.code, found.text.partition(";")[0]) == (ErrorCode.ARGUMENT_ILLEGAL, "unsupported key: colour")


@pytest.mark.parametrize(
    ("attributes", "faulty"),
    [
        ({}, ""),
        ({attribute.EXPIRATION: "-1", "cleanup.policy": "DELETE", "queue.type": "BatchCQ"}, ""),
        ({"colour": "red"}, ""),
        ({"cleanup.policy": "COMPACTION"}, "cleanup.policy"),
        ({attribute.EXPIRATION: "43201"}, attribute.EXPIRATION),
    ],
)
def test_the_values_of_a_topic_are_checked(attributes: dict[str, str], faulty: str) -> None:
    found = attribute.faulty(attributes)
    assert (found.text.split(":")[0] if found is not None else "") == (f"attribute {faulty}" if faulty else "")


def test_an_attribute_is_read_as_a_number_or_as_its_default() -> None:
    stored = {"a": "-1", "b": "7", "c": "", "d": "words"}
    assert [attribute.number(stored, name, 5) for name in "abcde"] == [-1, 7, 5, 5, 5]
