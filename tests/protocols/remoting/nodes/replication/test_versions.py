"""A replica of a later version: who cannot understand it says so, and nothing of the log is misread."""

from __future__ import annotations

import pytest

from domain.replication.message import Era, Follow, FollowAccepted
from protocols.remoting import codes
from protocols.remoting.nodes.replication import form
from protocols.remoting.ticket import RequestError
from protocols.remoting.wire.frame import Frame, FrameDecoder, encode

FOLLOW = Follow(None, "broker-a", 2, 7, 3, (Era(1, 0),), 0, 100)


def _frame(code: int, fields: dict[str, str], body: bytes = b"") -> Frame:
    (frame,) = FrameDecoder().feed(encode(code, 1, fields=fields, body=body))
    return frame


def test_a_follower_that_knows_a_later_version_besides_ours_is_taken() -> None:
    fields = {**form.follow_fields(FOLLOW), "version": "9"}
    assert form.follow_of(None, _frame(codes.FOLLOW, fields, form.eras_body(FOLLOW.eras))) == FOLLOW


def test_a_follower_that_says_no_version_has_the_first_one() -> None:
    fields = {name: value for name, value in form.follow_fields(FOLLOW).items() if name not in ("version", "least")}
    assert form.follow_of(None, _frame(codes.FOLLOW, fields, form.eras_body(FOLLOW.eras))) == FOLLOW


def test_a_follower_that_knows_only_a_later_version_is_refused_with_words() -> None:
    fields = {**form.follow_fields(FOLLOW), "version": "9", "least": "2"}
    with pytest.raises(RequestError, match="speaks version 1 of replication, and version 2 is wanted: upgrade it"):
        form.follow_of(None, _frame(codes.FOLLOW, fields, form.eras_body(FOLLOW.eras)))


def test_a_leader_that_answers_with_a_later_version_is_left_with_words() -> None:
    fields = {**form.accepted_fields(FollowAccepted(None, 3, 100, 0)), "version": "2"}
    with pytest.raises(RequestError, match="the leader speaks version 2 of replication, and this replica 1: upgrade this one"):
        form.answer_of(_frame(codes.SUCCESS, fields))
