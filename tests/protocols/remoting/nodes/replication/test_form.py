"""The wire form of replication: what one side writes, the other reads, in any split; what is malformed is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.replication.message import ERAS_MAX, Era, Follow, FollowAccepted, FollowRefusal, FollowRefused, LogBytes, LogHeld
from protocols.remoting import codes
from protocols.remoting.nodes.replication import dispatch, form
from protocols.remoting.nodes.replication.dialog import FollowDialog
from protocols.remoting.ticket import RequestError, Ticket
from protocols.remoting.wire.frame import Frame, FrameDecoder, encode
from protocols.remoting.wire.header import BINARY, FLAG_ONEWAY, FLAG_RESPONSE

NUMBERS = st.integers(0, (1 << 63) - 1)
IDENTITIES = st.integers(1, (1 << 63) - 1)


@st.composite
def follows(draw: st.DrawFn) -> Follow:
    epochs = sorted(draw(st.sets(NUMBERS, max_size=5)))
    first, end = sorted((draw(NUMBERS), draw(NUMBERS)))
    begins = sorted(draw(st.lists(st.integers(0, end), min_size=len(epochs), max_size=len(epochs))))
    eras = tuple(Era(*each) for each in zip(epochs, begins, strict=True))
    group, replica, incarnation = draw(st.text(min_size=1, max_size=20)), draw(IDENTITIES), draw(IDENTITIES)
    return Follow(None, group, replica, incarnation, draw(NUMBERS), eras, first, end)


def one(data: bytes) -> Frame:
    (frame,) = FrameDecoder().feed(data)
    return frame


def _answered(dialog: FollowDialog, event: FollowAccepted | FollowRefused) -> object:
    """What a dialog reads of an answer to its Follow."""
    asked = one(dialog.follow(Follow(None, "g", 1, 2, 3, (), 0, 0)))
    ticket = Ticket(asked, dispatch._followed)
    return dialog.receive(bytes(ticket.render(None, ticket, event)))  # type: ignore[arg-type]


@given(follows())
def test_a_follow_is_read_as_it_was_written(command: Follow) -> None:
    (found,) = dispatch.follow(None, one(FollowDialog().follow(command)))  # type: ignore[arg-type]
    assert isinstance(found, Follow)
    found.ticket = None
    assert found == command


@given(NUMBERS, NUMBERS, NUMBERS, st.booleans())
def test_what_a_log_has_is_read_as_it_was_written(epoch: int, one_position: int, other: int, has_room: bool) -> None:
    command = LogHeld(epoch, max(one_position, other), min(one_position, other), has_room)
    assert list(dispatch.held(None, one(FollowDialog().held(command)))) == [command]  # type: ignore[arg-type]


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.binary(max_size=40)), max_size=4), st.data())
def test_parts_of_a_log_are_read_in_any_split(parts: list[tuple[int, int, int, int, bytes]], data: st.DataObject) -> None:
    events = [LogBytes(None, *part) for part in parts]
    stream = b"".join(part for event in events for part in form.bytes_parts(event, 7))
    dialog = FollowDialog()
    _answered(dialog, FollowAccepted(None, 3, 100, 50))
    found = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += dialog.receive(stream[:size])
        stream = stream[size:]
    assert found == events


@pytest.mark.parametrize(
    "event", [FollowAccepted(None, 3, 100, 50), FollowAccepted(None, 3, -1, 50), FollowRefused(None, FollowRefusal.TOO_MANY, 9)]
)
def test_an_answer_is_read_as_it_was_written(event: FollowAccepted | FollowRefused) -> None:
    assert _answered(FollowDialog(), event) == [event]


def follow_frame(body: bytes = b"", **changed: str) -> Frame:
    fields = {"group": "g", "replica": "1", "incarnation": "2", "epoch": "3", "first": "0", "end": "10", **changed}
    return one(encode(codes.FOLLOW, 1, fields=fields, body=body, serialize=BINARY))


@pytest.mark.parametrize(
    "frame",
    [
        follow_frame(end="-1"), follow_frame(first="11"), follow_frame(epoch="-1"), follow_frame(replica="x"),
        follow_frame(group=""), follow_frame(b"x"), follow_frame(bytes(16 * (ERAS_MAX + 1))),
        follow_frame(form.eras_body([Era(2, 0), Era(1, 5)])), follow_frame(form.eras_body([Era(1, 5), Era(2, 4)])),
    ],
)  # fmt: skip
def test_a_malformed_follow_is_refused(frame: Frame) -> None:
    with pytest.raises(RequestError):
        dispatch.follow(None, frame)  # type: ignore[arg-type]


def test_a_malformed_word_of_a_follower_is_refused() -> None:
    for body in (b"", bytes(23), form.held_body(LogHeld(1, 5, 6)), form.held_body(LogHeld(-1, 5, 5))):
        with pytest.raises(RequestError):
            dispatch.held(None, one(encode(codes.LOG_HELD, 0, fields={}, body=body, flag=FLAG_ONEWAY)))  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="oneway"):
        dispatch.held(None, one(encode(codes.LOG_HELD, 0, fields={}, body=bytes(24))))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        encode(codes.LOG_BYTES, 1, fields={}, body=bytes(31), flag=FLAG_ONEWAY),
        b"".join(form.bytes_parts(LogBytes(None, 1, 2, 3, -4, b""), 1)),
        encode(codes.PULL, 1, fields={}),
        encode(codes.SYSTEM_ERROR, 1, fields={}, flag=FLAG_RESPONSE, remark="no"),
        encode(codes.NOT_FOLLOWED, 1, fields={"refusal": "NONSENSE", "epoch": "1"}, flag=FLAG_RESPONSE),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_what_no_leader_says_is_refused(data: bytes) -> None:
    with pytest.raises(RequestError):
        FollowDialog().receive(data)
