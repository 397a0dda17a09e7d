"""Sending of datagrams: order, retransmission (RFC 7252, section 4.2), one confirmable message at a time to each peer (4.7)."""

from __future__ import annotations

import heapq
from typing import Final, final

from domain.ports import Entropy
from protocols.coap.exchange import (
    ACK_RANDOM_FACTOR,
    ACK_TIMEOUT_NS,
    MAX_RETRANSMIT,
    Outbound,
    Remote,
    Transmission,
)

WAITING_MAX: Final = 2_048
UNSETTLED_MAX: Final = 262_144


@final
class Transmitter:
    """Datagrams to be sent now, and confirmable messages that may have to be sent again.

    entropy   randomness of the initial timeout (ACK_RANDOM_FACTOR)
    out       (datagram, address) pairs to be sent, in order
    heap      (due, serial, what): a Transmission that waits for its ACK, or a Remote without an unused message id.
              Entries that are no longer needed stay until they are due, and are skipped then
    serial    number of the last heap entry; entries with the same due time are ordered by it
    resent    number of retransmissions
    """

    __slots__ = ("entropy", "heap", "out", "resent", "serial")

    def __init__(self, entropy: Entropy) -> None:
        self.entropy = entropy
        self.out: list[tuple[bytes, tuple[str, int]]] = []
        self.heap: list[tuple[int, int, Transmission | Remote]] = []
        self.serial = 0
        self.resent = 0

    def send(self, remote: Remote, data: bytes) -> None:
        """Queue one datagram and reduce the credit of the remote. It is not retransmitted."""
        left = remote.credit - len(data)
        remote.credit = left if left > 0 else 0
        self.out.append((data, remote.address))

    def confirm(self, remote: Remote, owner: Outbound, now: int) -> bool:
        """Queue `owner` to send its next confirmable message to `remote`. Does nothing when it is queued already.

        False: WAITING_MAX sources wait for this peer, or UNSETTLED_MAX entries are in the heap; nothing will be sent.
        """
        if owner not in remote.waiting:
            if len(remote.waiting) >= WAITING_MAX or len(self.heap) >= UNSETTLED_MAX:
                return False
            remote.waiting.append(owner)
        if remote.outstanding is None:
            self._next(remote, now)
        return True

    def acknowledged(self, remote: Remote, now: int) -> None:
        """The ACK or RST of the outstanding message has come: send the next message to this peer."""
        remote.outstanding = None
        self._next(remote, now)

    def forget(self, remote: Remote, owner: Outbound, now: int) -> None:
        """Remove `owner` from the queue, and stop the retransmission of its outstanding message."""
        if owner in remote.waiting:
            remote.waiting.remove(owner)
        if remote.outstanding is not None and remote.outstanding.owner is owner:
            remote.outstanding = None
            self._next(remote, now)

    def deadline(self) -> int | None:
        """Monotonic ns of the earliest heap entry; None without entries."""
        return self.heap[0][0] if self.heap else None

    def expire(self, now: int) -> list[tuple[Remote, Outbound]]:
        """Retransmit messages that are due. Returns (remote, owner) of those unacknowledged after MAX_RETRANSMIT attempts."""
        failed: list[tuple[Remote, Outbound]] = []
        while self.heap and self.heap[0][0] <= now:
            what = heapq.heappop(self.heap)[2]
            if isinstance(what, Remote):
                if what.outstanding is None:
                    self._next(what, now)
                continue
            remote = what.remote
            if remote.outstanding is not what:
                continue
            if what.attempts >= MAX_RETRANSMIT:
                remote.outstanding = None
                failed.append((remote, what.owner))
                self._next(remote, now)
                continue
            what.attempts += 1
            what.timeout_ns *= 2
            self.resent += 1
            self.send(remote, what.data)
            self._push(now + what.timeout_ns, what)
        return failed

    def _next(self, remote: Remote, now: int) -> None:
        while remote.waiting:
            mid = remote.next_mid(now)
            if mid < 0:
                self._push(remote.mid_due(), remote)
                return
            owner = remote.waiting.pop(0)
            data = owner.datagram(mid, now)
            if data is None:
                continue
            timeout_ns = int(ACK_TIMEOUT_NS * (1.0 + (ACK_RANDOM_FACTOR - 1.0) * self.entropy.random()))
            remote.outstanding = Transmission(remote, mid, data, owner, timeout_ns)
            self.send(remote, data)
            self._push(now + timeout_ns, remote.outstanding)
            return

    def _push(self, due: int, what: Transmission | Remote) -> None:
        self.serial += 1
        heapq.heappush(self.heap, (due, self.serial, what))
