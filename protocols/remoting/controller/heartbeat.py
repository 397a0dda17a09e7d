"""Heartbeats of brokers to a controller: code 904 (RocketMQ's BrokerHeartbeatRequestHeader).

Replicas of Headgate add their measurements (domain/controller/health.py), in the ext fields FIGURES.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from domain.controller.group import (
    NOTHING_SEEN,
    NUMBER_MAX,
    PRIORITY_LAST,
    REPLICAS_MAX,
    TEXT_BYTES_MAX,
    UNKNOWN,
    ReplicaReport,
    StateSeen,
)
from domain.controller.health import UNMEASURED, ReplicaFigures
from domain.controller.left_out import LeftOut, MemberLack
from domain.controller.remote import LOCAL, PLACE_CHARS_MAX, RemoteWord
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import HearReplica
from domain.controller.serving import (
    GATEWAY_CHARS_MAX,
    GATEWAYS_SAID_MAX,
    UNREADY_CHARS_MAX,
    UNSAID,
    GatewayWord,
    ServingWord,
)
from domain.event import Event
from domain.set_aside import NOTHING, KeptAside
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.controller.sync_state import APACHE_INCARNATION
from protocols.remoting.ticket import Arguments, Outcome, RequestError, Ticket
from protocols.remoting.wire.frame import Frame

FIGURES: Final = ("syncMicros", "ackMicros", "turnMicros", "errors", "wallMillis", "clockSkewMaxMillis")
"""Ext fields of the figures, in the order of ReplicaFigures."""
PATHS: Final = "pathMicros"
"""Ext field of the paths, which only a leader says: `replica:microseconds`, separated by commas."""
REMOTE: Final = "remote"
"""Ext field of a remote replica."""
LEFT_OUT: Final = "leftOut"
"""Ext field of replicas that are not in sync, which only a leader says: `replica:lack:bytes`, separated by commas."""
SEEN: Final = "seen"
"""Ext field of ReplicaReport.seen: `leader epoch:set epoch`."""
FENCE: Final = "fence"
"""Ext field of ReplicaReport.fence."""
SERVES: Final = "serves"
"""Ext field of ServingWord.epoch; without it the replica does not say whether it serves clients."""
UNREADY: Final = "unready"
"""Ext field of ServingWord.unready."""
GATEWAYS: Final = "gateways"
"""Ext field of ServingWord.gateways: `life:silent milliseconds:name`, separated by commas."""

_PATH_CHARS_MAX: Final = 40
REFUSES_CHARS_MAX: Final = 1_024
"""Characters of the ext field `refuses` that are kept."""


def beat(_client: Client, frame: Frame) -> Outcome:
    """Request code 904 -> HearReplica. Its values are brought within their limits: an election uses them later."""
    args = Arguments(frame)
    if not args.has("brokerId"):
        raise RequestError(codes.CONTROLLER_INVALID_REQUEST, "Heart beat with empty brokerId")
    incarnation = args.text("incarnation", APACHE_INCARNATION)
    if len(incarnation.encode()) > TEXT_BYTES_MAX:
        raise RequestError(codes.CONTROLLER_INVALID_REQUEST, f"an incarnation of more than {TEXT_BYTES_MAX} bytes")
    report = ReplicaReport(
        args.number("brokerId"),
        incarnation,
        _within(args, "epoch", UNKNOWN),
        _within(args, "maxOffset", UNKNOWN),
        min(_within(args, "electionPriority", PRIORITY_LAST), PRIORITY_LAST),
        _within(args, FENCE, UNKNOWN),
        _seen(args.text(SEEN, "")),
    )
    timeout_ms = _within(args, "heartbeatTimeoutMills", 0)
    figures = _figures(args) if any(args.has(name) for name in FIGURES) else None
    run, refuses, identity = args.text("run", ""), args.text("refuses", ""), args.text("groupIdentity", "")
    if max(len(run.encode()), len(identity.encode())) > TEXT_BYTES_MAX:
        raise RequestError(codes.CONTROLLER_INVALID_REQUEST, f"a run or an identity of more than {TEXT_BYTES_MAX} bytes")
    word = ReplicaWord(
        report, figures, run, refuses[:REFUSES_CHARS_MAX], identity, _aside(args.text("setAside", "")),
        max(_within(args, "parted", 0), 0), _remote(args.text(REMOTE, "")), _left_out(args.text(LEFT_OUT, "")), _serving(args),
    )  # fmt: skip
    return (HearReplica(Ticket(frame, _heard), args.text("brokerName"), word, timeout_ms),)


def _figures(args: Arguments) -> ReplicaFigures:
    sync, ack, turn, errors, wall, skew = (_within(args, name, UNMEASURED) for name in FIGURES)
    return ReplicaFigures(sync, ack, turn, max(errors, 0), wall, skew, _paths(args.text(PATHS, "")))


def paths_text(paths: Sequence[tuple[int, int]]) -> str:
    """The ext field PATHS."""
    return ",".join(f"{replica}:{micros}" for replica, micros in paths)


def _paths(text: str) -> tuple[tuple[int, int], ...]:
    """The paths that `paths_text` wrote. Malformed ones are left out: heartbeats count without their figures, too."""
    found: list[tuple[int, int]] = []
    for each in text.split(",", REPLICAS_MAX)[:REPLICAS_MAX] if text else ():
        replica, _, micros = each.partition(":")
        if len(each) <= _PATH_CHARS_MAX and _is_number(replica) and _is_number(micros):
            found.append((min(int(replica), NUMBER_MAX), min(int(micros), NUMBER_MAX)))
    return tuple(found)


def _aside(text: str) -> KeptAside:
    """What was set aside, `folders:bytes`. A malformed text counts as none, as with figures."""
    folders, _, size = text.partition(":")
    if len(text) > _PATH_CHARS_MAX or not _is_number(folders) or not _is_number(size):
        return NOTHING
    return KeptAside(min(int(folders), NUMBER_MAX), min(int(size), NUMBER_MAX))


def _remote(text: str) -> RemoteWord:
    """Where the replica is, `lag bytes:quiet milliseconds:place`. A malformed text counts as none, as with figures."""
    lag, _, rest = text.partition(":")
    quiet, _, place = rest.partition(":")
    if len(text) > 2 * _PATH_CHARS_MAX or not _is_number(lag) or not _is_number(quiet) or not place:
        return LOCAL
    return RemoteWord(place[:PLACE_CHARS_MAX], min(int(lag), NUMBER_MAX), min(int(quiet), NUMBER_MAX))


def _seen(text: str) -> StateSeen:
    """A malformed text counts as none, as with figures."""
    epoch, _, set_epoch = text.partition(":")
    if len(text) > _PATH_CHARS_MAX or not _is_number(epoch) or not _is_number(set_epoch):
        return NOTHING_SEEN
    return StateSeen(min(int(epoch), NUMBER_MAX), min(int(set_epoch), NUMBER_MAX))


def left_out_text(left_out: Sequence[LeftOut]) -> str:
    """Value of the ext field LEFT_OUT: the replicas that are not in sync, with what they lack."""
    return ",".join(f"{each.replica}:{each.lack.name}:{each.lacks_bytes}" for each in left_out)


def _left_out(text: str) -> tuple[LeftOut, ...]:
    """The words that `left_out_text` wrote. Malformed ones, and those of a later version, are left out, as with figures."""
    found: list[LeftOut] = []
    for each in text.split(",", REPLICAS_MAX)[:REPLICAS_MAX] if text else ():
        replica, _, rest = each.partition(":")
        name, _, lacks = rest.partition(":")
        if len(each) <= 2 * _PATH_CHARS_MAX and _is_number(replica) and _is_number(lacks) and name in MemberLack.__members__:
            found.append(LeftOut(min(int(replica), NUMBER_MAX), MemberLack[name], min(int(lacks), NUMBER_MAX)))
    return tuple(found)


def serving_fields(word: ServingWord) -> dict[str, str]:
    """The ext fields of a ServingWord; none of one that says nothing."""
    if word.epoch == UNKNOWN:
        return {}
    return {
        SERVES: str(word.epoch),
        **({UNREADY: word.unready[:UNREADY_CHARS_MAX]} if word.unready else {}),
        **({GATEWAYS: gateways_text(word.gateways)} if word.gateways else {}),
    }


def gateways_text(gateways: Sequence[GatewayWord]) -> str:
    """The ext field GATEWAYS. A comma in a name is left out."""
    found = gateways[:GATEWAYS_SAID_MAX]
    return ",".join(f"{each.life}:{each.silent_ms}:{each.name.replace(',', ' ')}" for each in found)


def _serving(args: Arguments) -> ServingWord:
    if not args.has(SERVES):
        return UNSAID
    listed = args.text(GATEWAYS, "").split(",", GATEWAYS_SAID_MAX)[:GATEWAYS_SAID_MAX]
    gateways = tuple(each for text in listed if (each := _gateway(text)) is not None)
    return ServingWord(max(_within(args, SERVES, 0), 0), args.text(UNREADY, "")[:UNREADY_CHARS_MAX], gateways)


def _gateway(text: str) -> GatewayWord | None:
    """One of GATEWAYS; None for a malformed text."""
    life, _, rest = text.partition(":")
    silent, _, name = rest.partition(":")
    if not life or not name or len(text) > GATEWAY_CHARS_MAX or not _is_number(silent):
        return None
    return GatewayWord(life, name, min(int(silent), NUMBER_MAX))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _within(args: Arguments, name: str, absent: int) -> int:
    return max(UNKNOWN, min(args.number(name, absent), NUMBER_MAX))


def _heard(_client: Client, ticket: Ticket, _event: Event) -> bytes:
    return ticket.reply(codes.SUCCESS, remark="Heart beat success")
