"""Sending of datagrams: order, retransmission (RFC 7252, section 4.2), one confirmable message per peer at a time (4.7)."""

from __future__ import annotations

import heapq
from typing import Final, final

from domain.ports import Entropy
from protocols.coap.exchange.exchange import ACK_RANDOM_FACTOR, ACK_TIMEOUT_NS, MAX_RETRANSMIT, Outbound, Remote, Transmission

WAITING_MAX: Final = 2_048
UNSETTLED_MAX: Final = 262_144
RESENT_MAX: Final = 512
"""Heap entries that one call of `expire` handles."""


@final
class Transmitter:
    """Datagrams to send now, and confirmable messages that may be retransmitted.

    entropy   randomness of the initial timeout (ACK_RANDOM_FACTOR)
    limited   True: an unverified address gets no more bytes than its credit
    out       (datagram, address) pairs to send, in order
    heap      (due, serial, entry): a Transmission that waits for its ACK, or a Remote without an unused message id.
              An obsolete entry stays until it is due, and is then skipped
    serial    number of the last heap entry; it orders entries of the same due time
    resent    number of retransmissions
    withheld  confirmable messages not sent when due, since the address is unverified and has no credit
    """

    __slots__ = ("entropy", "heap", "limited", "out", "resent", "serial", "withheld")

    def __init__(self, entropy: Entropy, limited: bool) -> None:
        self.entropy = entropy
        self.limited = limited
        self.out: list[tuple[bytes, tuple[str, int]]] = []
        self.heap: list[tuple[int, int, Transmission | Remote]] = []
        self.serial = 0
        self.resent = 0
        self.withheld = 0

    def send(self, remote: Remote, data: bytes) -> None:
        """Queue one datagram and reduce the credit of the remote. It is not retransmitted."""
        left = remote.credit - len(data)
        remote.credit = left if left > 0 else 0
        self.out.append((data, remote.address))

    def confirm(self, remote: Remote, owner: Outbound, now: int) -> bool:
        """Queue `owner`, unless it is queued, to send its next confirmable message to `remote`.

        False: WAITING_MAX sources wait for this peer, or UNSETTLED_MAX entries are in the heap; `owner` is not queued.
        """
        if owner not in remote.waiting:
            if len(remote.waiting) >= WAITING_MAX or len(self.heap) >= UNSETTLED_MAX:
                return False
            remote.waiting[owner] = None
        if remote.outstanding is None:
            self._next(remote, now)
        return True

    def acknowledged(self, remote: Remote, now: int) -> None:
        """Send the next message to this peer, after the ACK or RST of the outstanding one."""
        remote.outstanding = None
        self._next(remote, now)

    def forget(self, remote: Remote, owner: Outbound, now: int) -> None:
        """Remove `owner` from the queue, and stop the retransmission of its outstanding message."""
        remote.waiting.pop(owner, None)
        if remote.outstanding is not None and remote.outstanding.owner is owner:
            remote.outstanding = None
            self._next(remote, now)

    def drop(self, remote: Remote) -> None:
        """Drop all messages to a remote that has left."""
        remote.waiting.clear()
        remote.outstanding = None

    def deadline(self) -> int | None:
        """Monotonic ns of the earliest heap entry; None without entries."""
        return self.heap[0][0] if self.heap else None

    def expire(self, now: int) -> list[tuple[Remote, Outbound]]:
        """Retransmit due messages. Returns (remote, owner) of those unacknowledged after MAX_RETRANSMIT attempts.

        Handles at most RESENT_MAX entries; `deadline` is then in the past, and the next call continues.
        """
        failed: list[tuple[Remote, Outbound]] = []
        for _ in range(RESENT_MAX):
            if not self.heap or self.heap[0][0] > now:
                break
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
            if self._transmit(what, now):
                self.resent += 1
            self._push(now + what.timeout_ns, what)
        return failed

    def _next(self, remote: Remote, now: int) -> None:
        while remote.waiting:
            mid = remote.next_mid(now)
            if mid < 0:
                self._push(remote.mid_due(), remote)
                return
            owner = next(iter(remote.waiting))
            del remote.waiting[owner]
            data = owner.datagram(mid, now)
            if data is None:
                continue
            timeout_ns = int(ACK_TIMEOUT_NS * (1.0 + (ACK_RANDOM_FACTOR - 1.0) * self.entropy.random()))
            remote.outstanding = Transmission(remote, mid, data, owner, timeout_ns)
            self._transmit(remote.outstanding, now)
            self._push(now + timeout_ns, remote.outstanding)
            return

    def _transmit(self, what: Transmission, now: int) -> bool:
        """Send a confirmable message. False: it was withheld, since the address is unverified and has no credit left."""
        remote = what.remote
        if self.limited and not what.owner.proven and remote.verified_ns <= now and remote.credit < len(what.data):
            self.withheld += 1
            return False
        self.send(remote, what.data)
        return True

    def _push(self, due: int, what: Transmission | Remote) -> None:
        self.serial += 1
        heapq.heappush(self.heap, (due, self.serial, what))
