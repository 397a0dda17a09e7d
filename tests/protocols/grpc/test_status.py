"""The Status code of every ErrorCode."""

from __future__ import annotations

import pytest

from domain.errors import ErrorCode, Failure
from protocols.grpc import status
from protocols.grpc.messages import messaging_pb2 as pb


@pytest.mark.parametrize("code", list(ErrorCode), ids=lambda code: code.value)
def test_every_outcome_has_a_code_of_the_protocol(code: ErrorCode) -> None:
    number, text = status.of(Failure(code))
    assert number in pb.Code.values()
    assert number not in (pb.CODE_UNSPECIFIED, pb.OK, pb.MULTIPLE_RESULTS)
    assert text == code.value


def test_status_is_field_one_and_never_without_a_text() -> None:
    told = pb.SendMessageResponse.FromString(status.status(pb.TOO_MANY_REQUESTS))
    assert (told.status.code, told.status.message) == (42900, "TOO_MANY_REQUESTS")
    assert status.STATUS_OK == b"\x0a\x08\x08\xa0\x9c\x01\x12\x02OK"
