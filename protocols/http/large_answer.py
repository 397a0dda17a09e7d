"""The decision about a large answer: its response, or 429 for a client that does not read the answers that it asked for."""

from __future__ import annotations

from domain import limits
from domain.command import Command
from domain.event import Event
from domain.principal import GATEWAY
from protocols.http.handler import Handler
from protocols.http.problem import unsent_answers
from protocols.http.response import Response


def respond(handler: Handler, event: Event, ticket: object, room: int, unsent: int) -> tuple[Response, list[Command]]:
    """(the response of a repeatable handler to `event`, the commands that undo what the response does not tell).

    room     bytes that a large response may have
    unsent   bytes of earlier responses that the client has not read
    """
    size = handler.content_bytes(event)
    if size > limits.SMALL_ANSWER_BYTES and size > room:  # refused before it is made: base64 of 4 MiB takes 10 ms
        return unsent_answers(unsent), undo(handler, event, ticket)
    response = handler.finish(event)
    size = len(response.body)
    if size > limits.SMALL_ANSWER_BYTES and size > room:
        return unsent_answers(unsent), undo(handler, event, ticket)
    return response, _by_the_gateway(handler.left_out(ticket))


def undo(handler: Handler, event: Event, ticket: object) -> list[Command]:
    """The commands that undo the effect of an answer that is not sent."""
    return _by_the_gateway(handler.undo(event, ticket))


def _by_the_gateway(command: Command | None) -> list[Command]:
    """The command as one of the gateway itself: it needs no right of the client."""
    if command is None:
        return []
    command.principal = GATEWAY
    return [command]
