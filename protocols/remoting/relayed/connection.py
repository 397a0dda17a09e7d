"""One relayed connection: its frames become commands undecoded, and what servers answer is written as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.access import Authority
from domain.command import Command, Disconnected
from domain.errors import Failure
from domain.event import Event
from domain.limits import SECOND_NS
from protocols.adapter import Peer
from protocols.host_shares import UNCOUNTED_BYTES_MAX, HostShare
from protocols.remoting.access import identify
from protocols.remoting.config import RemotingConfig
from protocols.remoting.connection import END_OF_STREAM, FRAME_TIMEOUT, IDLE
from protocols.remoting.relayed.exchange import RelayFrames, RelayOutput, RelayReading
from protocols.remoting.relayed.frame_slice import FrameSlice, FrameSplitter
from protocols.remoting.status import response_code
from protocols.remoting.wire.frame import FrameDecoder, encode
from protocols.remoting.wire.header import FLAG_RESPONSE
from protocols.setting import Setting
from protocols.upload import Upload


@final
class RelayConnection:
    """The connection of a client.

    reading          False: stop reading the socket, because the relay wants it or there is no room for the incomplete frame
    closed           True: the connection ends
    _frame_began_ns  when the incomplete frame began
    _active_ns       when bytes last came or went
    _upload          room for the incomplete frame
    _wanted          False: the relay takes no frames for now
    _answers         what `_unwritten` counts of such a bound
    _unwritten       bytes in `_out`
    """

    __slots__ = (
        "_active_ns", "_answers", "_authority", "_config", "_frame_began_ns", "_local_port", "_out", "_peer", "_refused",
        "_splitter", "_unwritten", "_upload", "_wanted", "closed", "reading",
    )  # fmt: skip

    def __init__(self, setting: Setting, config: RemotingConfig, authority: Authority | None, peer: Peer, now: int) -> None:
        """`authority` checks the signature of each request here too; None: only the servers check it."""
        self._config = config
        self._authority = authority
        self._refused = setting.refused
        self._peer = peer
        self._local_port = peer.local_port
        self._splitter = FrameSplitter(config.frame_bytes_max)
        self._upload = Upload(setting.uploads, peer.host)
        self._answers = HostShare(setting.unread, peer.host)
        self._out: list[bytes] = []
        self._unwritten = 0
        self._active_ns = now
        self._frame_began_ns = now
        self._wanted = True
        self.reading = True
        self.closed = False

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """Frames -> RelayFrames."""
        if self.closed:
            return ()
        if not data:
            return self._close(END_OF_STREAM)
        splitter = self._splitter
        self._active_ns = now
        begun = splitter.held == 0
        frames = splitter.feed(data)
        if begun or frames:
            self._frame_began_ns = now
        if self._authority is not None and frames:
            frames = [frame for frame in frames if frame.response or self._known(self._authority, frame)]
        commands: list[Command] = [RelayFrames(self._local_port, frames)] if frames else []
        if splitter.fault:
            commands.extend(self._close(splitter.fault))
        elif self._upload.size or splitter.unfinished > UNCOUNTED_BYTES_MAX:
            self._await_room(now)
        return commands

    def _await_room(self, now: int) -> None:
        """Count the incomplete frame with the unfinished requests. Nothing is read while there is no room for it."""
        waited = self._upload.retry_ns > 0
        if not self._upload.begin(self._splitter.unfinished, now):
            self.reading = False
        elif waited:  # its silence was not the client's
            self._active_ns = self._frame_began_ns = now
            self.reading = self._wanted

    def _known(self, authority: Authority, frame: FrameSlice) -> bool:
        """True when the user who signed a request is known here; else the request is answered."""
        [whole] = FrameDecoder().feed(frame.whole)
        found = identify(authority, whole, self._peer)
        if not isinstance(found, Failure):
            return True
        self._refused("remoting", found.code.value)
        if not frame.oneway:
            code = response_code(found, frame.code)
            self._queue(encode(code, frame.opaque, flag=FLAG_RESPONSE, remark=found.text, serialize=frame.serialize))
        return False

    def answer(self, event: Event, now: int) -> None:
        """RelayOutput: queue its frames for the client. RelayReading: read from the client from now on, or stop."""
        if self.closed:
            return
        if type(event) is RelayOutput:
            self._active_ns = now
            for piece in event.pieces:
                self._queue(piece)
        elif type(event) is RelayReading:
            self._wanted = event.reading
            self.reading = self._wanted and self._upload.retry_ns == 0

    def _queue(self, data: bytes) -> None:
        self._out.append(data)
        self._unwritten += len(data)
        if self._unwritten > UNCOUNTED_BYTES_MAX:
            self._answers.hold(self._unwritten)

    def outgoing(self) -> Sequence[bytes]:
        """Bytes to write, in order."""
        out = self._out
        if out:
            self._out = []
            self._unwritten = 0
            if self._answers.held:
                self._answers.release()
        return out

    def deadline(self) -> int | None:
        """When an incomplete frame or an idle connection times out, or there may be room for the frame, monotonic ns."""
        if self.closed:
            return None
        if self._upload.retry_ns:
            return self._upload.retry_ns
        idle = self._active_ns + self._config.idle_seconds * SECOND_NS
        if self._splitter.held and self.reading:
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
        return self._close(FRAME_TIMEOUT if self._splitter.held and self.reading else IDLE)

    def _close(self, reason: str) -> Sequence[Command]:
        self.closed = True
        self.reading = False
        self._upload.end()
        return (Disconnected(reason),)


REASONS_CLOSED: Final = (END_OF_STREAM, IDLE, FRAME_TIMEOUT, "frame-length", "frame-header")
"""All values of Disconnected.reason of a relayed connection."""
