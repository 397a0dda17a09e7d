"""A replica asks another one for a part of its log: both sides of request 30030."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.replication.message import LogPart, LogPartRefused, PartRefusal, ReadLog
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.nodes.replication import form
from protocols.remoting.ticket import RequestError
from protocols.remoting.wire.frame import FrameDecoder, encode
from protocols.remoting.wire.header import FLAG_ONEWAY, FLAG_RESPONSE
from tests.protocols.remoting.frames import replies, reply, request
from tests.protocols.remoting.nodes.replication.wire import LARGEST, leader

FIELDS = {"group": "broker-a", "position": "700", "end": "900"}


@st.composite
def reads(draw: st.DrawFn) -> ReadLog:
    position = draw(st.integers(0, LARGEST - 1))
    return ReadLog(None, draw(st.text("abcxyz-_0123", min_size=1)), position, draw(st.integers(position + 1, LARGEST)))


def asked(conn: RemotingConnection, command: ReadLog, split: int = 0) -> ReadLog:
    data = Request(codes.READ_LOG, form.read_fields(command)).encoded(9, None)
    got = [each for part in (data[:split], data[split:]) if part for each in conn.receive(part, 1)]
    (found,) = got
    assert isinstance(found, ReadLog)
    return found


@given(reads())
def test_a_request_arrives_as_it_was_sent(command: ReadLog) -> None:
    assert replace(asked(leader(), command), ticket=None) == command


def test_a_request_arrives_in_any_split() -> None:
    command = ReadLog(None, "broker-a", 700, 900)
    size = len(Request(codes.READ_LOG, form.read_fields(command)).encoded(9, None))
    for split in range(size):
        assert replace(asked(leader(), command, split), ticket=None) == command


@given(st.binary(min_size=1, max_size=300), st.data())
def test_a_part_arrives_as_it_was_sent_in_any_split(data: bytes, draw: st.DataObject) -> None:
    conn = leader()
    conn.answer(LogPart(asked(conn, ReadLog(None, "g", 0, 900)).ticket, data), 1)
    wire = b"".join(conn.outgoing())
    at = draw.draw(st.integers(0, len(wire)))
    decoder = FrameDecoder()
    (frame,) = [*decoder.feed(wire[:at]), *decoder.feed(wire[at:])]
    assert frame.opaque == 9
    assert form.part_of(frame) == LogPart(None, data)


@pytest.mark.parametrize("reason", PartRefusal)
def test_a_refusal_arrives_as_it_was_sent(reason: PartRefusal) -> None:
    conn = leader()
    conn.answer(LogPartRefused(asked(conn, ReadLog(None, "g", 0, 900)).ticket, reason), 1)
    frame = reply(conn)
    assert (frame.code, frame.remark) == (30051, reason.value)
    (whole,) = FrameDecoder().feed(
        encode(30051, 9, fields={"refusal": reason.name}, body=b"", flag=FLAG_RESPONSE, remark=reason.value)
    )
    assert form.part_of(whole) == LogPartRefused(None, reason)


@pytest.mark.parametrize("name", sorted(FIELDS))
@pytest.mark.parametrize("value", ["", "-1", "many", "1.5", str(1 << 63), None])
def test_a_field_that_is_missing_or_no_number_is_refused(name: str, value: str | None) -> None:
    fields = {**FIELDS, name: value} if value is not None else {key: FIELDS[key] for key in FIELDS if key != name}
    conn = leader()
    if name == "group" and value:
        assert len(conn.receive(request(30030, fields), 1)) == 1, "any text may name a group"
        return
    assert conn.receive(request(30030, fields), 1) == []
    assert reply(conn).code == codes.INVALID_PARAMETER


@pytest.mark.parametrize("end", ["700", "699", "0"])
def test_a_part_without_bytes_is_refused(end: str) -> None:
    conn = leader()
    assert conn.receive(request(30030, {**FIELDS, "end": end}), 1) == []
    assert reply(conn).code == codes.INVALID_PARAMETER


def test_who_wants_a_part_waits_for_it() -> None:
    conn = leader()
    assert conn.receive(request(30030, FIELDS, flag=FLAG_ONEWAY), 1) == []
    assert replies(conn) == []


@pytest.mark.parametrize(
    ("code", "fields", "body"),
    [(0, {}, b""), (30051, {}, b""), (30051, {"refusal": "NEVER"}, b""), (3, {"refusal": "GONE"}, b"x"), (16, {}, b"")],
    ids=["no bytes", "no reason", "unknown reason", "not supported", "no right"],
)
def test_an_answer_that_is_none_is_refused(code: int, fields: dict[str, str], body: bytes) -> None:
    (frame,) = FrameDecoder().feed(encode(code, 9, fields=fields, body=body, flag=FLAG_RESPONSE))
    with pytest.raises(RequestError):
        form.part_of(frame)


@given(st.sampled_from([0, 30051, 1, 16]), st.dictionaries(st.text(max_size=9), st.text(max_size=9)), st.binary(max_size=50))
def test_no_answer_raises_anything_else(code: int, fields: dict[str, str], body: bytes) -> None:
    for frame in FrameDecoder().feed(encode(code, 9, fields=fields, body=body, flag=FLAG_RESPONSE)):
        with contextlib.suppress(RequestError):
            form.part_of(frame)
