"""Flows as the content of responses on the streams of one HTTP/2 connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain.command import Command
from domain.event import Event
from protocols.http.flow import PART_BYTES_MAX, Flow
from protocols.http2.application import StreamReply

GONE_MAX: Final = 128
"""Streams that have ended while a command of theirs is in flight, and whose answers are undone."""


@final
class FlowStreams:
    """The flows of one connection, by stream.

    _paused    streams whose window is not returned, since their flow is not reading
    _gone      flows that have ended, and may still get events that have to be undone
    """

    def __init__(self, reply: StreamReply, refused: Callable[[str, str], None]) -> None:
        self._reply = reply
        self._refused = refused
        self._flows: dict[int, Flow] = {}
        self._paused: set[int] = set()
        self._gone: dict[int, Flow] = {}

    def __len__(self) -> int:
        return len(self._flows)

    def add(self, stream_id: int, flow: Flow) -> None:
        """A flow begins: the head of its response is sent."""
        self._flows[stream_id] = flow
        self._write(stream_id, flow)

    def has(self, stream_id: int) -> bool:
        """True for a stream with a flow, also one that has ended."""
        return stream_id in self._flows or stream_id in self._gone

    def feed(self, stream_id: int, data: bytes, now: int) -> Sequence[Command]:
        """A part of the request's content."""
        flow = self._flows.get(stream_id)
        if flow is None:
            return ()
        flow.feed(data, now)
        if not flow.reading and stream_id not in self._paused:
            self._paused.add(stream_id)
            self._reply.pause(stream_id)
        return self._go_on(stream_id, flow, now)

    def ended(self, stream_id: int, now: int) -> Sequence[Command]:
        """The request's content is complete."""
        flow = self._flows.get(stream_id)
        if flow is None:
            return ()
        if flow.uploads:
            flow.fed_all(now)
        return self._go_on(stream_id, flow, now)

    def answer(self, stream_id: int, event: Event, now: int) -> Sequence[Command]:
        """The event of a command. Returns the commands that undo it for a client that has gone."""
        flow = self._flows.get(stream_id)
        if flow is not None:
            flow.answer(event, now)
            self._write(stream_id, flow)
            return ()
        gone = self._gone.get(stream_id)
        if gone is None:
            return ()
        gone.answer(event, now)
        return gone.expire(now)

    def cancelled(self, stream_id: int, now: int) -> Sequence[Command]:
        """The client has reset the stream."""
        flow = self._flows.pop(stream_id, None)
        if flow is None:
            return ()
        self._forget(stream_id, flow)
        return flow.gone(now)

    def deadline(self) -> int | None:
        """The earliest deadline of the flows; 0 when one can write, or read again."""
        earliest: int | None = None
        for stream_id, flow in self._flows.items():
            if self._has_room(stream_id, flow) or (stream_id in self._paused and flow.reading):
                return 0
            at = flow.deadline()
            if at is not None and (earliest is None or at < earliest):
                earliest = at
        return earliest

    def expire(self, now: int) -> list[Command]:
        """Write parts as there is room; take the commands of flows that are due."""
        commands: list[Command] = []
        for stream_id, flow in list(self._flows.items()):
            if stream_id in self._paused and flow.reading:
                self._paused.discard(stream_id)
                self._reply.resume(stream_id)
            at = flow.deadline()
            if at is not None and at <= now:
                commands += flow.expire(now)
            self._write(stream_id, flow)
        return commands

    def drain(self) -> None:
        """The node stops: end all."""
        for stream_id, flow in list(self._flows.items()):
            flow.drain()
            while stream_id in self._flows and self._has_room(stream_id, flow):
                self._write(stream_id, flow)

    def _has_room(self, stream_id: int, flow: Flow) -> bool:
        return (flow.wants_room or flow.over) and self._reply.pending(stream_id) < PART_BYTES_MAX

    def _go_on(self, stream_id: int, flow: Flow, now: int) -> Sequence[Command]:
        commands = flow.expire(now)
        self._write(stream_id, flow)
        return commands

    def _write(self, stream_id: int, flow: Flow) -> None:
        """Write a part, when the client has read the ones before; end the stream behind the last."""
        if self._reply.pending(stream_id) >= PART_BYTES_MAX:
            return
        part = flow.take()
        if part:
            self._reply.send(stream_id, part, False)
        elif flow.over and self._flows.pop(stream_id, None) is not None:
            self._forget(stream_id, flow)
            self._reply.send(stream_id, b"", True)
            if flow.refusal:
                self._refused("http", flow.refusal)

    def _forget(self, stream_id: int, flow: Flow) -> None:
        self._paused.discard(stream_id)
        if len(self._gone) >= GONE_MAX:
            del self._gone[next(iter(self._gone))]
        self._gone[stream_id] = flow
