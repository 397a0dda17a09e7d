"""Fan-out of a request to several servers, with one answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from gateway.apache.relay.uplink import Uplink
from protocols.remoting import codes
from protocols.remoting.relayed.frame_slice import FrameSlice


@final
class Fan:
    """The replies of several servers to one request, of which the client gets one.

    answer   that one, a whole frame; right once `complete` is True
    """

    def __init__(self, all_must: bool) -> None:
        """`all_must` True: the client gets a failure when there is one, as for a change at name servers; False: a success."""
        self.answer = b""
        self._all_must = all_must
        self._settled = False
        self._waiting: set[Uplink] = set()

    @property
    def complete(self) -> bool:
        """True when no reply is outstanding."""
        return not self._waiting

    def wait_for(self, uplink: Uplink) -> None:
        """Count a server that was sent the request."""
        self._waiting.add(uplink)

    def answered(self, uplink: Uplink, frame: FrameSlice) -> None:
        """Take the reply of a server."""
        self._waiting.discard(uplink)
        self._take(frame.code == codes.SUCCESS, frame.whole)

    def lost(self, uplink: Uplink, refusal: bytes) -> None:
        """Count a server that will not answer."""
        self._waiting.discard(uplink)
        self.failed(refusal)

    def failed(self, refusal: bytes) -> None:
        """Take the failure of a server that cannot be reached."""
        self._take(False, refusal)

    def _take(self, success: bool, reply: bytes) -> None:
        decides = success is not self._all_must
        if not self.answer or (decides and not self._settled):
            self.answer = reply
            self._settled = decides


@final
class Fans:
    """The requests of one client that several servers have to answer, by their numbers."""

    def __init__(self) -> None:
        self._fans: dict[int, Fan] = {}

    def __contains__(self, opaque: int) -> bool:
        """True while replies to a request are outstanding."""
        return opaque in self._fans

    def add(self, opaque: int, fan: Fan) -> None:
        """Wait for the replies to a request."""
        self._fans[opaque] = fan

    def answered(self, uplink: Uplink, frame: FrameSlice) -> Sequence[bytes]:
        """Take the reply of a server. Returns the answer for the client, if it was the last one."""
        fan = self._fans.get(frame.opaque)
        if fan is not None:
            fan.answered(uplink, frame)
        return self.settled(frame.opaque)

    def lost(self, uplink: Uplink, opaque: int, refusal: bytes) -> Sequence[bytes]:
        """Count a server that will not answer a request. Returns as `answered`."""
        self._fans[opaque].lost(uplink, refusal)
        return self.settled(opaque)

    def settled(self, opaque: int) -> Sequence[bytes]:
        """Remove a request without outstanding replies. Returns its answer for the client, if there is one."""
        fan = self._fans.get(opaque)
        if fan is None or not fan.complete:
            return ()
        del self._fans[opaque]
        return (fan.answer,)

    def clear(self) -> None:
        """Drop all, since the client is disconnected."""
        self._fans.clear()
