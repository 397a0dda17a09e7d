"""The transport half of a remoting connection: frames of any split, their deadlines, room for them, and unwritten bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from domain.command import Command, Disconnected
from domain.limits import SECOND_NS
from protocols.adapter import Peer
from protocols.host_shares import UNCOUNTED_BYTES_MAX, HostShare, HostShares
from protocols.remoting.settings import RemotingSettings
from protocols.remoting.wire.frame import FrameBuffer
from protocols.upload import Upload

END_OF_STREAM: Final = "end-of-stream"
IDLE: Final = "idle"
FRAME_TIMEOUT: Final = "frame-timeout"
REASONS_CLOSED: Final = (END_OF_STREAM, IDLE, FRAME_TIMEOUT, "frame-length", "frame-header")
"""All values of Disconnected.reason in this protocol."""

AnyFrame = TypeVar("AnyFrame")


class FramedTransport(ABC, Generic[AnyFrame]):
    """`protocols.adapter.Connection`, except the meaning of frames.

    reading          False: stop reading the socket
    _frame_began_ns  when the incomplete frame began, or reading went on within it
    _active_ns       when bytes were last received or sent
    _upload          room for the incomplete frame
    _out             encoded frames that are not written yet
    _unwritten       bytes in `_out`
    _answers         the part of `_unwritten` in the bound that all connections share
    """

    def __init__(
        self,
        frames: FrameBuffer[AnyFrame],
        config: RemotingSettings,
        uploads: HostShares,
        unread: HostShares,
        peer: Peer,
        now: int,
    ) -> None:
        self._frames = frames
        self._config = config
        self._upload = Upload(uploads, peer.host)
        self._answers = HostShare(unread, peer.host)
        self._out: list[bytes] = []
        self._unwritten = 0
        self._active_ns = now
        self._frame_began_ns = now
        self.reading = True
        self.closed = False

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """Frames -> commands."""
        if self.closed:
            return ()
        if not data:
            return self._close(END_OF_STREAM)
        buffer = self._frames
        self._active_ns = now
        begun = buffer.held == 0
        frames = buffer.feed(data)
        if begun or frames:
            self._frame_began_ns = now
        if self._upload.size or buffer.unfinished > UNCOUNTED_BYTES_MAX:
            self._await_room(now)
        commands = self._take(frames)
        if buffer.fault:
            commands.extend(self._close(buffer.fault))
        return commands

    @abstractmethod
    def _take(self, frames: list[AnyFrame]) -> list[Command]:
        """The commands of whole frames; there may be none."""

    @abstractmethod
    def _may_read(self) -> bool:
        """False while no more frames are taken from this client."""

    def _await_room(self, now: int) -> None:
        """Count the incomplete frame with the unfinished requests. Nothing is read while there is no room for it."""
        waited = self._upload.retry_ns > 0
        if not self._upload.begin(self._frames.unfinished, now):
            self.reading = False
        elif waited:
            self._active_ns = now
            self._read_on(now)

    def _read_on(self, now: int) -> None:
        """Read again, if there is room and `_may_read`. The time without reading does not count for the frame's time limit."""
        if not self.reading and not self.closed and not self._upload.retry_ns and self._may_read():
            self.reading = True
            self._frame_began_ns = now

    def _queue(self, data: bytes) -> None:
        self._unwritten += len(data)
        if self._unwritten > UNCOUNTED_BYTES_MAX:
            self._answers.hold(self._unwritten)
        self._out.append(data)

    def outgoing(self) -> Sequence[bytes]:
        """Encoded frames, in order."""
        out = self._out
        if out:
            self._out = []
            self._unwritten = 0
            self._answers.release()
        return out

    def deadline(self) -> int | None:
        """The time at which an incomplete frame or an idle connection times out, or the frame may have room, monotonic ns."""
        if self.closed:
            return None
        if self._upload.retry_ns:
            return self._upload.retry_ns
        idle = self._active_ns + self._config.idle_seconds * SECOND_NS
        if self._frames.held and self.reading:
            return min(idle, self._frame_began_ns + self._config.frame_seconds * SECOND_NS)
        return idle

    def expire(self, now: int) -> Sequence[Command]:
        """Disconnected when a deadline has passed."""
        due = self.deadline()
        if due is None or now < due:
            return ()
        if self._upload.retry_ns:
            self._await_room(now)
            return ()
        return self._close(FRAME_TIMEOUT if self._frames.held and self.reading else IDLE)

    def _close(self, reason: str) -> Sequence[Command]:
        self.closed = True
        self.reading = False
        self._upload.end()
        return (Disconnected(reason),)
