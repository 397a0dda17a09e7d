"""Names in namespaces: their stored form and the form that clients know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.address import in_namespace, out_of_namespace

SPACES = st.text("abzAZ09_-", min_size=1, max_size=8)
NAMES = st.builds(str.__add__, st.sampled_from(["", "%RETRY%", "%DLQ%"]), st.text("abz09_-", min_size=1, max_size=8))


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("orders", "shop%orders"), ("%RETRY%g", "%RETRY%shop%g"), ("%DLQ%g", "%DLQ%shop%g"), ("shop%orders", "shop%orders"),
        ("%RETRY%shop%g", "%RETRY%shop%g"), ("yard%orders", "shop%yard%orders"), ("TBW102", "TBW102"), ("", ""),
        ("RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC"), ("TOOLS_CONSUMER", "TOOLS_CONSUMER"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"), ("%RETRY%g+orders", "%RETRY%shop%g+shop%orders"),
    ],
)  # fmt: skip
def test_the_stored_form(name: str, stored: str) -> None:
    assert in_namespace("shop", name) == stored


@pytest.mark.parametrize("space", ["", "a%b", "%", "a b", "ä", "x" * 65, "a\n"])
def test_what_is_no_namespace_makes_no_name(space: str) -> None:
    assert in_namespace(space, "orders") == ""


@given(SPACES, NAMES)
def test_out_is_the_other_way(space: str, name: str) -> None:
    assert out_of_namespace(space, in_namespace(space, name)) == name


@given(SPACES, SPACES, NAMES, NAMES)
def test_two_namespaces_never_meet(one: str, other: str, name: str, another: str) -> None:
    if one != other:
        assert in_namespace(one, name) != in_namespace(other, another)


@given(SPACES, SPACES, NAMES)
def test_names_of_others_stay_as_they_are(one: str, other: str, name: str) -> None:
    if one != other:
        assert out_of_namespace(other, in_namespace(one, name)) == in_namespace(one, name)
