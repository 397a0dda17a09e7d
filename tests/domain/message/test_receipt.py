"""Receipts in Apache RocketMQ's form of eight or nine fields."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.message import receipt

numbers = st.integers(0, 2**62)


@settings(max_examples=100)
@given(
    numbers,
    numbers,
    numbers,
    st.sampled_from((0, 7, 999)),
    st.sampled_from((0, 1, 2)),
    numbers,
    numbers,
    st.integers(-1, 2**62),
)
def test_text_and_back(start: int, pop: int, invisible: int, revive: int, retry: int, queue: int, offset: int, at: int) -> None:
    one = receipt.Receipt(start, pop, invisible, revive, retry, "broker-a", queue, offset, at)
    other = receipt.parse(one.text())
    assert other is not None
    assert other.text() == one.text()
    assert len(one.text().split(" ")) == (8 if at < 0 else 9)


@settings(max_examples=100)
@given(st.text(max_size=60))
def test_any_text_is_a_receipt_or_nothing(text: str) -> None:
    found = receipt.parse(text)
    assert found is None or receipt.parse(found.text()) is not None


def test_numbers_are_ascii_and_bounded() -> None:
    assert receipt.parse("1 2 3 4 0 b 5 ٦") is None
    assert receipt.parse("1 2 3 4 0 b 5 " + "9" * 20) is None
    assert receipt.parse("1 2 3 4 0 b 5") is None
