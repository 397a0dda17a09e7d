"""Every refusal has a response code."""

from __future__ import annotations

from domain.errors import ErrorCode, Failure
from protocols.remoting import codes, status


def test_every_error_code_has_a_row() -> None:
    assert set(status.TABLE) == set(ErrorCode)


def test_no_refusal_looks_like_success() -> None:
    assert codes.SUCCESS not in status.TABLE.values()


def test_an_unknown_offset_is_never_a_hard_error() -> None:
    assert status.response_code(Failure(ErrorCode.OFFSET_NOT_FOUND), codes.QUERY_OFFSET) == 22


def test_deleting_a_missing_topic_or_group_succeeds() -> None:
    assert status.response_code(Failure(ErrorCode.TOPIC_NOT_FOUND), codes.DELETE_TOPIC) == codes.SUCCESS
    assert status.response_code(Failure(ErrorCode.GROUP_NOT_FOUND), codes.DELETE_GROUP) == codes.SUCCESS
    assert status.response_code(Failure(ErrorCode.TOPIC_NOT_FOUND), codes.GET_TOPIC) == codes.TOPIC_NOT_EXIST
