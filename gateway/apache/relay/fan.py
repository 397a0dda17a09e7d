"""Fan-out of a request to several servers, with one answer."""

from __future__ import annotations

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
