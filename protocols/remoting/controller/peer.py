"""Requests between the controllers of one group: codes 30020 and 30021 (docs/protocols/remoting-extensions.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from domain.address import endpoint_of
from domain.controller.peer import ControllerGreeted, GreetController, TellController
from domain.limits import CONTROLLERS_MAX
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.ticket import Arguments, Outcome, RequestError, Ticket, int64
from protocols.remoting.wire.frame import Frame

FOUNDERS_MAX: Final = 64


def fields(node: int, founders: tuple[int, ...], book: Sequence[str], level: int) -> dict[str, str]:
    """The fields of a greeting and of its answer."""
    return {"node": str(node), "founders": ",".join(map(str, founders)), "book": ",".join(book), "level": str(level)}


def read(found: Mapping[str, str]) -> tuple[int, tuple[int, ...], tuple[str, ...], int]:
    """(node, founders, book, level) of these fields. Raises RequestError."""
    node = int64("node", found.get("node", ""))
    named = [each for each in found.get("founders", "").split(",") if each]
    if len(named) > FOUNDERS_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"{len(named)} founders, at most {FOUNDERS_MAX} are possible")
    founders = tuple(int64("founders", each) for each in named)
    if node < 1 or any(each < 1 for each in founders):
        raise RequestError(codes.INVALID_PARAMETER, "identities of controllers are above 0")
    book = tuple(each for each in found.get("book", "").split(",") if each)
    if len(book) > CONTROLLERS_MAX or any(endpoint_of(each) is None for each in book):
        raise RequestError(codes.INVALID_PARAMETER, "the book has addresses of controllers, HOST:PORT")
    return node, founders, book, max(int64("level", found.get("level", "0")), 0)


def greet(_client: Client, frame: Frame) -> Outcome:
    """Request code 30020 -> GreetController."""
    args = Arguments(frame)
    given = {
        "node": args.text("node"), "founders": args.text("founders", ""), "book": args.text("book", ""),
        "level": args.text("level", "0"),
    }  # fmt: skip
    return (GreetController(Ticket(frame, _greeted), *read(given)),)


def _greeted(_client: Client, ticket: Ticket, event: ControllerGreeted) -> bytes:
    return ticket.reply(codes.SUCCESS, fields(event.node, event.founders, event.book, event.level))


def notify(_client: Client, frame: Frame) -> Outcome:
    """Request code 30021, oneway -> TellController. One that wants an answer gets none of use."""
    if not frame.oneway:
        raise RequestError(codes.INVALID_PARAMETER, "a message of raft is oneway")
    return (TellController(frame.body),)
