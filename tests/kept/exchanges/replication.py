"""Frames between replicas: those of a follower and its leader, and parts of a log that one replica asks another for."""

from __future__ import annotations

from functools import partial
from typing import Any

from domain.replication.message import (
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
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.nodes.replication import form
from protocols.remoting.nodes.replication.dialog import FollowDialog
from protocols.remoting.nodes.replication.dispatch import READERS
from tests.kept.exchanges.exchange import Exchange, Exchanges, answer, request

FOLLOW = Follow(None, "broker-a", 2, 77, 5, (Era(3, 0), Era(5, 700)), 100, 900, "10.0.0.2:10913")
BARE = Follow(None, "broker-a", 3, 78, 0, (), 0, 0)
BYTES = LogBytes(None, 5, 900, 700, 100, b"batches of a log")
LIFE = LogBytes(None, 5, 916, 900, 100, b"")


def follow(command: Follow) -> bytes:
    """The frame by which a replica asks to follow."""
    return FollowDialog().follow(command)


def held(command: LogHeld) -> bytes:
    """The frame by which it says what it has."""
    return FollowDialog().held(command)


def log_bytes(event: LogBytes) -> bytes:
    """The frame with a part of the leader's log."""
    return b"".join(form.bytes_parts(event, 4))


def followed(data: bytes) -> Any:
    """What a follower takes for the answer, or for a part of the log."""
    dialog = FollowDialog()
    dialog.follow(FOLLOW)
    if data[8:10] == codes.LOG_BYTES.to_bytes(2, "big"):
        dialog.receive(ACCEPTED.made())
    return dialog.receive(data)


def answered(event: FollowAccepted | FollowRefused) -> Exchange:
    """The answer to FOLLOW."""
    made = answer(READERS, partial(follow, FOLLOW), event, form.answer_of).made
    return Exchange(made, followed)


ACCEPTED = answered(FollowAccepted(None, 5, 800, 100))
READ = partial(Request(codes.READ_LOG, form.read_fields(ReadLog(None, "broker-a", 100, 900))).encoded, 7, None)

REPLICATION: Exchanges = {
    "follow": request(READERS, partial(follow, FOLLOW)),
    "follow with an empty log": request(READERS, partial(follow, BARE)),
    "accepted": ACCEPTED,
    "accepted, with nothing in common": answered(FollowAccepted(None, 5, -1, 100)),
    **{f"refused: {each.name}": answered(FollowRefused(None, each, 6)) for each in FollowRefusal},
    "log": Exchange(partial(log_bytes, BYTES), followed),
    "sign of life": Exchange(partial(log_bytes, LIFE), followed),
    "held": request(READERS, partial(held, LogHeld(5, 900, 800))),
    "held, without room": request(READERS, partial(held, LogHeld(5, 900, 900, False))),
    "read": request(READERS, READ),
    "part": answer(READERS, READ, LogPart(None, b"batches of a log"), form.part_of),
    **{f"part refused: {each.name}": answer(READERS, READ, LogPartRefused(None, each), form.part_of) for each in PartRefusal},
}
