"""What controllers of one group say to each other: codes 30020 and 30021 (docs/protocols/remoting-extensions.md)."""

from __future__ import annotations

from typing import Final

from domain.controller.peer import ControllerGreeted, GreetController, TellController
from domain.event import Event
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.frame import Frame
from protocols.remoting.ticket import Arguments, Outcome, RequestError, Ticket, int64

FOUNDERS_MAX: Final = 64


def fields(node: int, founders: tuple[int, ...]) -> dict[str, str]:
    """The fields of a greeting and of its answer."""
    return {"node": str(node), "founders": ",".join(map(str, founders))}


def read(found: dict[str, str]) -> tuple[int, tuple[int, ...]]:
    """(node, founders) of these fields. Raises RequestError."""
    node = int64("node", found.get("node", ""))
    named = [each for each in found.get("founders", "").split(",") if each]
    if len(named) > FOUNDERS_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"{len(named)} founders, at most {FOUNDERS_MAX} are possible")
    founders = tuple(int64("founders", each) for each in named)
    if node < 1 or any(each < 1 for each in founders):
        raise RequestError(codes.INVALID_PARAMETER, "identities of controllers are above 0")
    return node, founders


def greet(_client: Client, frame: Frame) -> Outcome:
    """Request code 30020 -> GreetController."""
    args = Arguments(frame)
    node, founders = read({"node": args.text("node"), "founders": args.text("founders", "")})
    return (GreetController(Ticket(frame, _greeted), node, founders),)


def _greeted(_client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, ControllerGreeted)
    return ticket.reply(codes.SUCCESS, fields(event.node, event.founders))


def tell(_client: Client, frame: Frame) -> Outcome:
    """Request code 30021, oneway -> TellController. One that wants an answer gets none of use."""
    if not frame.oneway:
        raise RequestError(codes.INVALID_PARAMETER, "a message of raft is oneway")
    return (TellController(frame.body),)
