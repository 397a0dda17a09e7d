"""Failures between nodes come back whole, and an earlier version reads what it does not know as something to be repeated."""

from __future__ import annotations

import pytest

from domain.errors import ErrorCode, Failure, RetryHint
from protocols.remoting.nodes.calls.octets import Reader, put_text
from protocols.remoting.nodes.calls.values import FAILURE


@pytest.mark.parametrize(
    "failure",
    [
        Failure(ErrorCode.FLUSH_TIMEOUT, "the disk is slow"),
        Failure(ErrorCode.FLUSH_TIMEOUT, "a replica is slow", copies=True),
        Failure(ErrorCode.NOT_ALLOWED, "no", 135, denied=True),
    ],
)
def test_a_failure_comes_back(failure: Failure) -> None:
    out: list[bytes] = []
    FAILURE.put(out, failure)
    assert FAILURE.get(Reader(b"".join(out))) == failure


def test_a_code_of_a_later_version_may_be_repeated() -> None:
    out: list[bytes] = []
    put_text(out, "something-new")
    put_text(out, "why")
    out.append(bytes(5))
    found = FAILURE.get(Reader(b"".join(out)))
    assert (found.code, found.text, found.retry) == (ErrorCode.INTERNAL, "something-new: why", RetryHint.LATER)
