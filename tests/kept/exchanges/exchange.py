"""One frame of an exchange between nodes, and the means to make and to read frames of the remoting protocol."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

from domain.event import Event
from protocols.remoting.ticket import Reader, Ticket
from protocols.remoting.wire.frame import Frame, FrameDecoder
from tests.protocols.remoting.controller.wire import CLIENT


class Exchange(NamedTuple):
    """One frame, or a part of one.

    made   writes it
    read   its bytes -> what the other node takes them for
    """

    made: Callable[[], bytes]
    read: Callable[[bytes], Any]


Exchanges = dict[str, Exchange]


def frame_of(data: bytes) -> Frame:
    """The only frame of these bytes."""
    decoder = FrameDecoder()
    (frame,) = decoder.feed(data)
    assert not decoder.held
    return frame


def head_of(frame: Frame) -> list[Any]:
    """What a header says: code, opaque, response, oneway, remark, ext fields."""
    return [frame.code, frame.opaque, frame.response, frame.oneway, frame.remark, frame.fields()]


def commands_of(readers: Mapping[int, Reader], data: bytes) -> Any:
    """The commands of a request."""
    frame = frame_of(data)
    outcome: Any = readers[frame.code](CLIENT, frame)
    if isinstance(outcome, Generator):
        outcome = _ended(outcome)
    return outcome


def _ended(steps: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def request(readers: Mapping[int, Reader], made: Callable[[], bytes]) -> Exchange:
    """A request that becomes commands."""
    return Exchange(made, lambda data: [frame_of(data).opaque, frame_of(data).oneway, list(commands_of(readers, data))])


def answer(readers: Mapping[int, Reader], asked: Callable[[], bytes], event: Event, read: Callable[[Frame], Any]) -> Exchange:
    """The answer to a request, when its command is answered with `event`."""

    def made() -> bytes:
        (command,) = commands_of(readers, asked())
        ticket = command.ticket
        assert isinstance(ticket, Ticket)
        found = ticket.render(CLIENT, ticket, event)
        assert isinstance(found, bytes)
        return found

    return Exchange(made, lambda data: [*head_of(frame_of(data))[:5], read(frame_of(data))])
