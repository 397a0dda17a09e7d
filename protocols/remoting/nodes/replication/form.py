"""The messages of `domain/replication/message.py` as ext fields and bodies.

FOLLOW      request and reply with ext fields; body of the request: eras, epoch 8 | begin 8 each; ext field `writers`: those of
            the newest eras, 16 hexadecimal digits each, at most WRITERS_MAX
LOG_BYTES   oneway, body: epoch 8 | position 8 | confirmed 8 | first 8 | data; ext field `question`: its number
LOG_HELD    oneway, body: epoch 8 | written 8 | synced 8; ext fields `room`: `none`, of a follower that has none; `answers`:
            number of the newest question
READ_LOG    request with ext fields; body of the reply: bytes of the log

Numbers of bodies are big-endian and signed; only `cut` of a reply may be below 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from domain.address import endpoint_of
from domain.controller.group import TEXT_BYTES_MAX
from domain.replication.message import (
    ERAS_MAX,
    Era,
    Follow,
    FollowAccepted,
    FollowRefusal,
    FollowRefused,
    LogBytes,
    LogHeld,
    LogPart,
    LogPartRefused,
    PartRefusal,
    ReadLog,
)
from protocols.remoting import codes
from protocols.remoting.ticket import Arguments, RequestError
from protocols.remoting.wire.frame import Frame, head
from protocols.remoting.wire.header import BINARY, FLAG_ONEWAY

VERSION: Final = 1
"""Version of the frames behind FOLLOW. A follower says which it knows, from `least` to `version`; the leader, which it has."""
WRITERS_MAX: Final = 256
"""Writers of eras that a follower says at most. Those of older eras count as unknown."""
_WRITER_DIGITS: Final = 16
QUESTION_DIGITS: Final = 18
"""Digits of the number of a question, at most."""
_ERA: Final = struct.Struct(">qq")
_BYTES: Final = struct.Struct(">qqqq")
_HELD: Final = struct.Struct(">qqq")
_HEX: Final = frozenset("0123456789abcdef")
_NOTHING: Final = -1
"""The cut of a FollowAccepted for logs that have nothing in common."""


def malformed(text: str) -> RequestError:
    """The refusal of a message that is none."""
    return RequestError(codes.INVALID_PARAMETER, text)


def eras_body(eras: Iterable[Era]) -> bytes:
    """Eras as the body of FOLLOW."""
    return b"".join([_ERA.pack(era.epoch, era.begin) for era in eras])


def _writers_field(eras: Sequence[Era]) -> dict[str, str]:
    """The ext field `writers`; none when all are unknown."""
    newest = eras[-WRITERS_MAX:]
    return {"writers": "".join([f"{era.writer:016x}" for era in newest])} if any(era.writer for era in newest) else {}


def _with_writers(eras: tuple[Era, ...], text: str) -> tuple[Era, ...]:
    """Eras with the writers in such a field. Raises RequestError."""
    count, rest = divmod(len(text), _WRITER_DIGITS)
    if rest or count > min(len(eras), WRITERS_MAX) or not set(text) <= _HEX:
        raise malformed(f"writers of eras are {_WRITER_DIGITS} digits each, at most {WRITERS_MAX} and no more than the eras")
    writers = [int(text[at : at + _WRITER_DIGITS], 16) for at in range(0, len(text), _WRITER_DIGITS)]
    older = len(eras) - count
    return (*eras[:older], *(era._replace(writer=writer) for era, writer in zip(eras[older:], writers, strict=True)))


def eras_of(body: bytes) -> tuple[Era, ...]:
    """The eras of such a body, ascending. Raises RequestError."""
    if len(body) % _ERA.size or len(body) > ERAS_MAX * _ERA.size:
        raise malformed(f"{len(body)} bytes are no eras of a log: 16 bytes each, at most {ERAS_MAX}")
    eras = tuple(Era(*found) for found in _ERA.iter_unpack(body))
    for before, era in zip((Era(-1, 0), *eras), eras, strict=False):
        if era.epoch <= before.epoch or era.begin < before.begin:
            raise malformed("eras of a log ascend")
    return eras


def follow_fields(follow: Follow) -> dict[str, str]:
    """Ext fields of FOLLOW."""
    return {
        "group": follow.group,
        "replica": str(follow.replica),
        "incarnation": str(follow.incarnation),
        "epoch": str(follow.epoch),
        "first": str(follow.first),
        "end": str(follow.end),
        "version": str(VERSION),
        "least": str(VERSION),
        **({"serves": follow.serves} if follow.serves else {}),
        **({"run": follow.run} if follow.run else {}),
        **({"gates": follow.gates} if follow.gates else {}),
        **({"groupIdentity": follow.identity} if follow.identity else {}),
        **_writers_field(follow.eras),
    }


def follow_of(ticket: object, frame: Frame) -> Follow:
    """The command of a frame. Raises RequestError."""
    args = Arguments(frame)
    least = args.number("least", VERSION)
    if least > VERSION:
        raise malformed(f"this replica speaks version {VERSION} of replication, and version {least} is wanted: upgrade it")
    replica, incarnation, epoch, first, end = map(args.number, ("replica", "incarnation", "epoch", "first", "end"))
    if min(replica, incarnation) < 1:
        raise malformed("identities of replicas and of logs are above 0")
    if min(epoch, first) < 0 or end < first:
        raise malformed("epochs and positions are not below 0, and a log ends behind its begin")
    eras = _with_writers(eras_of(frame.body), args.text("writers", ""))
    if eras and eras[-1].begin > end:
        raise malformed("an era begins behind the end of the log")
    serves, gates = _where(args, "serves", "serves readers"), _where(args, "gates", "takes gateways")
    run, identity = args.text("run", ""), args.text("groupIdentity", "")
    if max(len(run), len(identity)) > TEXT_BYTES_MAX:
        raise malformed(f"a run or an identity of more than {TEXT_BYTES_MAX} characters")
    return Follow(ticket, args.text("group"), replica, incarnation, epoch, eras, first, end, serves, run, gates, identity)


def _where(args: Arguments, name: str, who: str) -> str:
    """A field with HOST:PORT; "": there is none. Raises RequestError."""
    where = args.text(name, "")
    if where and (len(where) > TEXT_BYTES_MAX or endpoint_of(where) is None):
        raise malformed(f"who {who} says at which HOST:PORT")
    return where


def accepted_fields(event: FollowAccepted) -> dict[str, str]:
    """Ext fields of the reply to FOLLOW."""
    return {
        "epoch": str(event.epoch), "cut": str(event.cut), "first": str(event.first), "version": str(VERSION),
        **({} if event.common == _NOTHING else {"common": str(event.common)}),
        **({} if event.last == _NOTHING else {"last": str(event.last), "checksum": str(event.checksum)}),
        **({"gates": event.gates} if event.gates else {}),
    }  # fmt: skip


def refused_fields(event: FollowRefused) -> dict[str, str]:
    """Ext fields of the reply to FOLLOW that refuses it."""
    return {"refusal": event.reason.name, "epoch": str(event.epoch)}


def answer_of(frame: Frame) -> FollowAccepted | FollowRefused:
    """The event of a reply to FOLLOW. Raises RequestError for a reply that is none."""
    if frame.code not in (codes.SUCCESS, codes.NOT_FOLLOWED):
        raise RequestError(frame.code, frame.remark or f"response code {frame.code}")
    args = Arguments(frame)
    epoch = args.number("epoch")
    if frame.code == codes.SUCCESS:
        version = args.number("version", VERSION)
        if version > VERSION:
            raise malformed(f"the leader speaks version {version} of replication, and this replica {VERSION}: upgrade this one")
        cut, first = args.number("cut"), args.number("first")
        if min(epoch, first) < 0 or cut < _NOTHING:
            raise malformed("epochs and positions are not below 0")
        common, last = (max(args.number(name, _NOTHING), _NOTHING) for name in ("common", "last"))
        gates = _where(args, "gates", "takes gateways")
        return FollowAccepted(None, epoch, cut, first, common, last, args.number("checksum", 0), gates)
    name = args.text("refusal")
    if name not in FollowRefusal.__members__:
        raise RequestError(frame.code, frame.remark or f"refusal {name[:40]!r}, which is not known here")
    if epoch < 0:
        raise malformed("epochs are not below 0")
    return FollowRefused(None, FollowRefusal[name], epoch)


def bytes_parts(event: LogBytes, opaque: int) -> tuple[bytes, bytes]:
    """A frame with a part of the log, in two parts: its bytes are not copied."""
    size = _BYTES.size + len(event.data)
    fields = {"question": str(event.question)} if event.question else None
    front = head(codes.LOG_BYTES, opaque, size, fields, FLAG_ONEWAY, "", BINARY)
    return front + _BYTES.pack(event.epoch, event.position, event.confirmed, event.first), event.data


def bytes_of(data: bytes, at: int, end: int, question: str) -> LogBytes:
    """The event of the body of LOG_BYTES that lies in `data` from `at` to `end`; its bytes are copied once. `question`: text of
    the ext field.

    Raises RequestError.
    """
    if end - at < _BYTES.size:
        raise malformed("a part of a log without its position")
    epoch, position, confirmed, first = _BYTES.unpack_from(data, at)
    if min(epoch, position, confirmed, first) < 0:
        raise malformed("epochs and positions are not below 0")
    return LogBytes(None, epoch, position, confirmed, first, data[at + _BYTES.size : end], _question_of(question))


def _question_of(text: str) -> int:
    """The number of a question; 0 for "". Raises RequestError."""
    if not text:
        return 0
    if len(text) > QUESTION_DIGITS or not (text.isascii() and text.isdecimal()):
        raise malformed("the number of a question is not one")
    return int(text)


def held_body(command: LogHeld) -> bytes:
    """Encode the body of LOG_HELD: the epoch, then the positions up to which a follower has written and synced."""
    return _HELD.pack(command.epoch, command.written, command.synced)


def held_fields(command: LogHeld) -> dict[str, str]:
    """Ext fields of LOG_HELD."""
    return {
        **({} if command.has_room else {"room": "none"}),
        **({"answers": str(command.answers)} if command.answers else {}),
    }


def held_of(frame: Frame) -> LogHeld:
    """The command of a frame LOG_HELD. Raises RequestError."""
    body = frame.body
    if len(body) != _HELD.size:
        raise malformed(f"{len(body)} bytes do not say what a log has")
    epoch, written, synced = _HELD.unpack(body)
    if epoch < 0 or not 0 <= synced <= written:
        raise malformed("epochs and positions are not below 0, and what is durable is written")
    args = Arguments(frame)
    return LogHeld(epoch, written, synced, args.text("room", "") != "none", _question_of(args.text("answers", "")))


def read_fields(command: ReadLog) -> dict[str, str]:
    """Ext fields of READ_LOG."""
    return {"group": command.group, "position": str(command.position), "end": str(command.end)}


def read_of(ticket: object, frame: Frame) -> ReadLog:
    """The command of a frame. Raises RequestError."""
    args = Arguments(frame)
    position, end = args.number("position"), args.number("end")
    if not 0 <= position < end:
        raise malformed("a part of a log begins at a position of at least 0, and ends behind it")
    return ReadLog(ticket, args.text("group"), position, end)


def part_of(frame: Frame) -> LogPart | LogPartRefused:
    """The event of a reply to READ_LOG. Raises RequestError for a reply that is none."""
    if frame.code == codes.SUCCESS:
        if not frame.body:
            raise malformed("a part of a log without bytes")
        return LogPart(None, frame.body)
    name = Arguments(frame).text("refusal", "-") if frame.code == codes.PART_REFUSED else "-"
    if name not in PartRefusal.__members__:
        raise RequestError(frame.code, frame.remark or f"response code {frame.code}")
    return LogPartRefused(None, PartRefusal[name])
