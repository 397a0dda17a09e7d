"""Offset JSON: canonical, with a version, and readable from options that a person writes."""

from __future__ import annotations

import json

import pytest

from gateway.client.answer import QueueRoute
from gateway.connectors.spark import offset
from gateway.connectors.spark.failure import OptionError

A0, A1, B0 = QueueRoute("a", "orders", 0), QueueRoute("a", "orders", 1), QueueRoute("b", "orders", 0)
BOUNDS = {A0: (5, 50), A1: (0, 10), B0: (2, 20)}


def test_equal_positions_are_equal_text() -> None:
    assert json.dumps(offset.document({A1: 2, B0: 3, A0: 1})) == json.dumps(offset.document({A0: 1, A1: 2, B0: 3}))
    assert offset.document({A0: 1, B0: 3}) == {"v": 1, "q": {"a/orders": {"0": 1}, "b/orders": {"0": 3}}}


def test_reading_gives_back_what_was_written() -> None:
    position = {A0: 1, A1: 2, QueueRoute("a/b", "t", 7): 0}
    assert offset.read(json.loads(json.dumps(offset.document(position)))) == position


def test_ten_thousand_queues_stay_below_300_kib() -> None:
    position = {QueueRoute("broker-a", "orders", number): 123_456_789 for number in range(10_000)}
    assert len(json.dumps(offset.document(position))) < 300 * 1024


def test_another_version_is_refused() -> None:
    with pytest.raises(OptionError, match="offsets of version 2, this connector writes and reads version 1"):
        offset.read({"v": 2, "q": {}})


def test_the_first_batch_starts_where_the_checkpoint_says() -> None:
    end = offset.first_end({A0: 9}, offset.initial({A0: 4}))
    assert offset.start_of(offset.initial({A0: 7}), end) == {A0: 4}
    assert offset.start_of(offset.document({A0: 7}), offset.document({A0: 9})) == {A0: 7}


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ('{"orders":{"0":17}}', {A0: 17, A1: 0, B0: 17}),
        ('{"a/orders":{"0":17}}', {A0: 17, A1: 0, B0: 2}),
        ('{"orders":{"1":-1,"0":-2}}', {A0: 5, A1: 10, B0: 2}),
        ('{"v":1,"q":{"b/orders":{"0":3}}}', {A0: 5, A1: 0, B0: 3}),
        ("{}", {A0: 5, A1: 0, B0: 2}),
    ],
)
def test_starting_offsets_of_a_person(text: str, position: dict[QueueRoute, int]) -> None:
    assert offset.resolve("startingOffsets", text, BOUNDS) == position


def test_queues_that_are_not_named_end_at_their_end() -> None:
    assert offset.resolve("endingOffsets", '{"a/orders":{"0":17}}', BOUNDS) == {A0: 17, A1: 10, B0: 20}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is no JSON"),
        ("[]", "is an object such as"),
        ('{"orders":5}', "are an object of queue numbers, not 5"),
        ('{"orders":{"x":5}}', "whole numbers"),
        ('{"orders":{"0":1.5}}', "whole numbers"),
        ('{"orders":{"0":true}}', "whole numbers"),
        ('{"orders":{"0":-3}}', "whole numbers"),
        ('{"orders":{"9":3}}', "names queue 9 of 'orders'; the query does not read it"),
        ('{"v":7,"q":{}}', "version 7"),
    ],
)
def test_wrong_offsets_are_named(text: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        offset.resolve("startingOffsets", text, BOUNDS)
