"""Relayed connections: their frames become commands undecoded, and answers of servers are written unchanged."""

from __future__ import annotations

from typing import final

from domain.access.access import Authority
from domain.command import Command
from domain.errors import Failure
from domain.event import Event
from protocols.adapter import Peer
from protocols.remoting.access import identify
from protocols.remoting.framed_transport import FramedTransport
from protocols.remoting.relayed.exchange import RelayFrames, RelayOutput, RelayReading
from protocols.remoting.relayed.frame_slice import FrameSlice, FrameSplitter
from protocols.remoting.settings import RemotingSettings
from protocols.remoting.status import response_code
from protocols.remoting.wire.frame import FrameDecoder, encode
from protocols.remoting.wire.header import FLAG_RESPONSE
from protocols.setting import Setting


@final
class RelayConnection(FramedTransport[FrameSlice]):
    """The connection of a client.

    _authority   checks the signature of each request; None: only the servers check it
    _wanted      False: the relay takes no frames for now
    """

    def __init__(self, setting: Setting, config: RemotingSettings, authority: Authority | None, peer: Peer, now: int) -> None:
        super().__init__(FrameSplitter(config.frame_bytes_max), config, setting.uploads, setting.unread, peer, now)
        self._authority = authority
        self._refused = setting.refused
        self._peer = peer
        self._local_port = peer.local_port
        self._wanted = True

    def _take(self, frames: list[FrameSlice]) -> list[Command]:
        if self._authority is not None and frames:
            frames = [frame for frame in frames if frame.response or self._known(self._authority, frame)]
        return [RelayFrames(self._local_port, frames)] if frames else []

    def _may_read(self) -> bool:
        return self._wanted

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
            if not event.reading:
                self.reading = False
            self._read_on(now)


@final
class RelayAdapter:
    """The adapter of remoting in a gateway that relays it, in place of `protocols.remoting.adapter`."""

    def __init__(self, setting: Setting, config: RemotingSettings, checked: bool = False) -> None:
        """`checked`: the signatures of requests are checked here too, where access is controlled."""
        self.name = "remoting"
        self._setting = setting
        self._config = config
        self._authority = setting.authority if checked else None

    def connect(self, peer: Peer, now: int) -> RelayConnection:
        """The state of a new connection. The protocol has no handshake."""
        return RelayConnection(self._setting, self._config, self._authority, peer, now)
