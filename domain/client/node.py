"""A gateway on another node that forwards the commands of its clients (docs/decisions/0038)."""

from __future__ import annotations

from dataclasses import dataclass

from domain.command import Command, TicketedCommand
from domain.event import Event, TicketedEvent


@dataclass(slots=True)
class GreetNode(TicketedCommand):
    """A gateway introduces itself, on a new connection -> NodeGreeted (request code 30010 of Headgate).

    greeting   protocols.remoting.nodes.forwarding.greeting

    Errors: ARGUMENT_ILLEGAL (another cluster, no version that both know, or nonsense).
    """

    greeting: bytes


@dataclass(slots=True)
class NodeGreeted(TicketedEvent):
    """The answer to GreetNode; frames follow."""

    greeting: bytes


@dataclass(slots=True)
class NodeFrame(Command):
    """A frame of a gateway that has been greeted on this connection (request code 30011). No answer.

    body   protocols.remoting.nodes.forwarding.stream
    """

    body: bytes


@dataclass(slots=True)
class NodeFrameOut(Event):
    """A frame for the gateway on this connection; ticket None."""

    ticket: None
    body: bytes
