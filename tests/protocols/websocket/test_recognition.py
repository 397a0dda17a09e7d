"""Recognition of a WebSocket by its first bytes: the answer is the same however the bytes arrive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.websocket.adapter import begins_carrying

RULE = begins_carrying(["/mqtt", "/ws"])


@pytest.mark.parametrize("head", [b"GET /mqtt HTTP/1.1", b"GET /mqtt?x=1", b"GET /ws ", b"\r\nGET /ws "])
def test_a_request_for_a_path_of_ours_is_a_websocket(head: bytes) -> None:
    assert RULE(head) is True


@pytest.mark.parametrize(
    "head",
    [
        b"GET /mqtts ",
        b"GET /mqtt/",
        b"get /mqtt ",
        b"POST /mqtt ",
        b"GET /wsx",
        b"GET /mq/t ",
        b"\x10",
        b"\r\n\r",
        b"\nGET /ws ",
    ],
)
def test_any_other_request_is_not(head: bytes) -> None:
    assert RULE(head) is False


@given(
    st.sampled_from((b"GET /mqtt ", b"GET /ws?", b"GET /w/", b"GET /mqtX", b"\r\nGET /ws ", b"\r\nGET /w/"))
    | st.binary(max_size=14)
)
def test_an_answer_once_given_does_not_change_with_more_bytes(head: bytes) -> None:
    answers = [RULE(head[:length]) for length in range(len(head) + 1)]
    decided = [answer for answer in answers if answer is not None]
    assert decided in ([], [True] * len(decided), [False] * len(decided))
    assert answers == [None] * (len(answers) - len(decided)) + decided


def test_without_paths_nothing_is_a_websocket() -> None:
    assert begins_carrying([])(b"GET /mqtt ") is False
