"""Values of JSON bodies by type, and the retry policy of a group as a bean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.delivery.retry import DEFAULT, DELAY_MS_MAX, EXPONENTIAL, STEPS_MAX, RetryPolicy
from protocols.remoting import codes
from protocols.remoting.ticket import RequestError
from protocols.remoting.tools import retry_policy
from protocols.remoting.tools.retry_policy import MULTIPLIER_MAX
from protocols.remoting.wire import bean
from protocols.remoting.wire.bean import ITEMS_MAX, Bean

DELAYS = st.integers(1, DELAY_MS_MAX)
POLICIES = st.builds(
    lambda initial_ms, max_ms, multiplier: RetryPolicy(
        EXPONENTIAL, initial_ms=initial_ms, max_ms=max_ms, multiplier=multiplier
    ),
    DELAYS, DELAYS, st.integers(1, MULTIPLIER_MAX),
) | st.lists(DELAYS, min_size=1, max_size=STEPS_MAX).map(lambda steps_ms: RetryPolicy(steps_ms=tuple(steps_ms)))  # fmt: skip


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"null", b"{", b"\xff"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(RequestError, match=r"^the body is not") as caught:
        bean.read(body)
    assert caught.value.code == codes.INVALID_PARAMETER


def test_a_body_is_read_as_an_object() -> None:
    assert bean.read(b'{"a":1,"b":["x"]}') == {"a": 1, "b": ["x"]}


@pytest.mark.parametrize(("value", "expected"), [("x", "x"), (7, "7"), (True, "-"), (1.5, "-"), (None, "-"), ([], "-")])
def test_a_text_is_a_string_or_a_whole_number(value: object, expected: str) -> None:
    assert bean.text({"a": value}, "a", "-") == expected
    assert bean.text({}, "a", "-") == "-"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5), (-5, -5), ("5", 5), ("-5", -5), ((1 << 63) - 1, (1 << 63) - 1), (1 << 63, 99), (-(1 << 63), -(1 << 63)),
        (str(1 << 63), 99), ("", 99), ("-", 99), ("\u0661", 99), ("5.0", 99), (5.0, 99), (True, 99), ("1" * 5_000, 99),
    ],
)  # fmt: skip
def test_a_number_has_64_bits(value: object, expected: int) -> None:
    assert bean.number({"a": value}, "a", 99) == expected


@pytest.mark.parametrize(("value", "expected"), [(True, True), (False, False), (1, True), ("false", True), (None, True)])
def test_a_flag_is_a_boolean(value: object, expected: bool) -> None:
    assert bean.flag({"a": value}, "a", absent=True) is expected


def test_elements_of_other_types_are_skipped() -> None:
    mixed: Bean = {"a": [{"x": 1}, "text", 5, None, {}], "b": "no list"}
    assert bean.beans(mixed, "a") == [{"x": 1}, {}]
    assert bean.texts(mixed, "a") == ["text"]
    assert (bean.beans(mixed, "b"), bean.texts(mixed, "c"), bean.table(mixed, "a")) == ([], [], {})


def test_a_list_is_bounded() -> None:
    assert len(bean.texts({"a": ["x"] * ITEMS_MAX}, "a")) == ITEMS_MAX
    with pytest.raises(RequestError, match="2048 are allowed"):
        bean.beans({"a": [{}] * (ITEMS_MAX + 1)}, "a")


@given(POLICIES)
def test_a_retry_policy_comes_back_from_its_bean(policy: RetryPolicy) -> None:
    assert retry_policy.read(dict(retry_policy.to_bean(policy))) == policy


def test_the_default_policy_is_written_without_delays() -> None:
    assert retry_policy.to_bean(DEFAULT) == {"type": "CUSTOMIZED"}
    assert retry_policy.read({}) == DEFAULT
    assert retry_policy.read({"type": "CUSTOMIZED"}) == DEFAULT


def test_absent_values_of_an_exponential_policy_have_their_defaults() -> None:
    found = retry_policy.read({"type": EXPONENTIAL, "exponentialRetryPolicy": {"initial": 7}})
    assert (found.initial_ms, found.max_ms, found.multiplier) == (7, DEFAULT.max_ms, DEFAULT.multiplier)


@pytest.mark.parametrize(
    "config",
    [
        {"type": "LINEAR"},
        {"customizedRetryPolicy": {"next": []}},
        {"customizedRetryPolicy": {"next": [1] * (STEPS_MAX + 1)}},
        {"customizedRetryPolicy": {"next": [0]}},
        {"customizedRetryPolicy": {"next": [True]}},
        {"customizedRetryPolicy": {"next": "1"}},
        {"type": EXPONENTIAL, "exponentialRetryPolicy": {"initial": 0}},
        {"type": EXPONENTIAL, "exponentialRetryPolicy": {"max": DELAY_MS_MAX + 1}},
        {"type": EXPONENTIAL, "exponentialRetryPolicy": {"multiplier": 0}},
        {"type": EXPONENTIAL, "exponentialRetryPolicy": {"multiplier": MULTIPLIER_MAX + 1}},
        {"type": EXPONENTIAL, "exponentialRetryPolicy": {"multiplier": 1.5}},
    ],
)
def test_a_policy_out_of_bounds_is_refused(config: Bean) -> None:
    with pytest.raises(RequestError) as caught:
        retry_policy.read(config)
    assert caught.value.code == codes.INVALID_PARAMETER
