"""The follower's side: what the leader sends becomes events, however its bytes are cut; what is no word of it raises."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.limits import REMOTING_FRAME_BYTES_MAX
from domain.replication.message import FollowAccepted, FollowRefusal, FollowRefused, LogBytes, LogHeld
from protocols.remoting import codes
from protocols.remoting.nodes.replication import form
from protocols.remoting.nodes.replication.dialog import FollowDialog
from protocols.remoting.ticket import RequestError
from protocols.remoting.wire.frame import FrameDecoder, encode
from protocols.remoting.wire.header import BINARY, FLAG_ONEWAY, FLAG_RESPONSE, JSON
from tests.protocols.remoting.frames import request
from tests.protocols.remoting.nodes.replication.wire import ACCEPTED, BYTES, FOLLOW, REFUSED, asked, followed, leader

FRONT = struct.pack(">qqqq", 5, 900, 700, 100)
YES = {"epoch": "5", "cut": "900", "first": "0"}
NO = {"refusal": "NOT_LEADING", "epoch": "5"}


def answer(fields: Mapping[str, str], code: int = codes.SUCCESS, opaque: int = 1) -> bytes:
    """A reply to a Follow."""
    return request(code, fields, serialize=BINARY, opaque=opaque, flag=FLAG_RESPONSE)


@given(st.one_of(ACCEPTED, REFUSED))
def test_an_answer_arrives_as_it_was_given(event: FollowAccepted | FollowRefused) -> None:
    conn, dialog = leader(), FollowDialog()
    event.ticket = asked(conn, dialog).ticket
    conn.answer(event, 1)
    found = dialog.receive(b"".join(conn.outgoing()))
    event.ticket = None
    assert found == [event]


def test_a_refusal_says_why_to_people_too() -> None:
    conn, dialog = leader(), FollowDialog()
    conn.answer(FollowRefused(asked(conn, dialog).ticket, FollowRefusal.OTHER_EPOCH, 9), 1)
    (frame,) = FrameDecoder().feed(b"".join(conn.outgoing()))
    assert (frame.code, frame.remark) == (codes.NOT_FOLLOWED, FollowRefusal.OTHER_EPOCH.value)
    assert frame.fields() == {"refusal": "OTHER_EPOCH", "epoch": "9"}


@given(st.lists(BYTES, max_size=6), st.lists(st.integers(1, 120), max_size=40))
def test_any_split_gives_the_same_events(parts: list[LogBytes], cuts: list[int]) -> None:
    conn, dialog = leader(), FollowDialog()
    accepted = FollowAccepted(asked(conn, dialog).ticket, 5, 900, 0)
    conn.answer(accepted, 1)
    for part in parts:
        conn.answer(part, 1)
    stream = b"".join(conn.outgoing())
    found: list[object] = []
    at = 0
    for size in [*cuts, len(stream)]:
        found += dialog.receive(stream[at : at + size])
        at += size
    assert found == [FollowAccepted(None, 5, 900, 0), *parts]


def test_every_split_in_two_gives_the_same_events() -> None:
    conn, dialog = leader(), FollowDialog()
    conn.answer(FollowAccepted(asked(conn, dialog).ticket, 5, -1, 0), 1)
    conn.answer(LogBytes(None, 5, 900, 700, 100, b"data"), 1)
    stream = b"".join(conn.outgoing())
    for at in range(len(stream) + 1):
        dialog = FollowDialog()
        dialog.follow(FOLLOW)
        found = [*dialog.receive(stream[:at]), *dialog.receive(stream[at:])]
        assert found == [FollowAccepted(None, 5, -1, 0), LogBytes(None, 5, 900, 700, 100, b"data")]


def test_the_largest_frame_is_joined_once() -> None:
    """Joining it again with each of its 30,000 chunks would copy 250 GB."""
    conn, dialog = followed()
    data = bytes(REMOTING_FRAME_BYTES_MAX - 256)
    conn.answer(LogBytes(None, 5, 900, 700, 100, data), 1)
    stream = b"".join(conn.outgoing())
    found: list[object] = []
    begun = time.perf_counter()
    for at in range(0, len(stream), 512):
        found += dialog.receive(stream[at : at + 512])
    assert time.perf_counter() - begun < 10
    assert found == [LogBytes(None, 5, 900, 700, 100, data)]


@pytest.mark.parametrize("text", ["-1", "1.5", "x", "9" * 19, "\u0663"])
def test_a_question_is_a_number(text: str) -> None:
    conn, dialog = leader(), FollowDialog()
    conn.answer(FollowAccepted(asked(conn, dialog).ticket, 5, 900, 0), 1)
    dialog.receive(b"".join(conn.outgoing()))
    data = encode(codes.LOG_BYTES, 1, fields={"question": text}, body=bytes(32), flag=FLAG_ONEWAY, serialize=BINARY)
    with pytest.raises(RequestError, match="number of a question"):
        dialog.receive(data)
    held = encode(codes.LOG_HELD, 1, fields={"answers": text}, body=bytes(24), flag=FLAG_ONEWAY)
    (frame,) = FrameDecoder().feed(held)
    with pytest.raises(RequestError, match="number of a question"):
        form.held_of(frame)


def test_what_is_sent_is_signed() -> None:
    def sign(fields: Mapping[str, str], body: bytes) -> dict[str, str]:
        return {**fields, "AccessKey": "replica", "Signature": str(len(body))}

    dialog = FollowDialog(sign)
    frames = FrameDecoder().feed(dialog.follow(FOLLOW) + dialog.held(LogHeld(5, 900, 800)))
    told = [frame.fields() or {} for frame in frames]
    assert [(each["AccessKey"], each["Signature"]) for each in told] == [("replica", "32"), ("replica", "24")]
    assert told[0]["group"] == "broker-a"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\x16\x03\x01", "remoting protocol"),
        (answer({}), "<epoch> is null"),
        (answer({**YES, "epoch": "-1"}), "below 0"),
        (answer({**YES, "first": "-1"}), "below 0"),
        (answer({**YES, "cut": "-2"}), "below 0"),
        (answer({**YES, "cut": "far"}), "no number"),
        (answer(YES, opaque=2), "waits for no answer"),
        (answer(YES) + answer(YES), "waits for no answer"),
        (answer({"epoch": "5"}, codes.NOT_FOLLOWED), "<refusal> is null"),
        (answer({"refusal": "NOT_LEADING"}, codes.NOT_FOLLOWED), "<epoch> is null"),
        (answer({**NO, "epoch": "-1"}, codes.NOT_FOLLOWED), "below 0"),
        (answer({**NO, "refusal": "TIRED"}, codes.NOT_FOLLOWED), "TIRED"),
        (answer({}, codes.NOT_SUPPORTED), "response code 3"),
        (request(30026, None, FRONT, flag=FLAG_ONEWAY), "not accepted"),
        (answer(NO, codes.NOT_FOLLOWED) + request(30026, None, FRONT, flag=FLAG_ONEWAY), "not accepted"),
        (request(30011, None, FRONT, flag=FLAG_ONEWAY), "30011 not supported"),
    ],
)
def test_what_is_no_answer_to_a_follow_raises(data: bytes, told: str) -> None:
    dialog = FollowDialog()
    dialog.follow(FOLLOW)
    with pytest.raises(RequestError, match=told):
        dialog.receive(data)


@pytest.mark.parametrize(
    "data",
    [
        request(30026, None, FRONT[:-1], flag=FLAG_ONEWAY),
        request(30026, None, b"", flag=FLAG_ONEWAY),
        request(30026, None, FRONT),
        *(request(30026, None, FRONT[:at] + b"\xff" * 8 + FRONT[at + 8 :], flag=FLAG_ONEWAY) for at in range(0, 32, 8)),
    ],
    ids=["short", "empty", "wants an answer", "epoch", "position", "confirmed", "first"],
)
def test_what_is_no_part_of_a_log_raises(data: bytes) -> None:
    _, dialog = followed()
    with pytest.raises(RequestError):
        dialog.receive(data)


def test_nobody_is_answered_who_did_not_ask() -> None:
    with pytest.raises(RequestError, match="waits for no answer"):
        FollowDialog().receive(answer(YES))


def test_another_refusal_says_what_the_leader_says() -> None:
    conn, dialog = leader(), FollowDialog()
    conn.answer(Refused(asked(conn, dialog).ticket, Failure(ErrorCode.STORE_UNAVAILABLE, "the disk is full")), 1)
    with pytest.raises(RequestError, match="the disk is full"):
        dialog.receive(b"".join(conn.outgoing()))


@given(
    st.sampled_from([30026, 0, 30050, 3]), st.sampled_from([0, FLAG_ONEWAY, FLAG_RESPONSE]), st.binary(max_size=60),
    st.sampled_from([JSON, BINARY]), st.booleans(),
)  # fmt: skip
def test_no_frame_raises_anything_else(code: int, flag: int, body: bytes, serialize: int, accepted: bool) -> None:
    dialog = FollowDialog()
    dialog.follow(FOLLOW)
    if accepted:
        dialog.receive(answer(YES))
    with suppress(RequestError):
        dialog.receive(request(code, YES, body, opaque=1, flag=flag, serialize=serialize))


@given(st.binary(max_size=100))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    dialog = FollowDialog()
    dialog.follow(FOLLOW)
    with suppress(RequestError):
        dialog.receive(data)
