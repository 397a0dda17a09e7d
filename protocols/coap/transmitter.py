"""Datagrams of ours: order, retransmission (RFC 7252, section 4.2) and one confirmable message at a time to each peer (4.7)."""

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
    """What is to be sent now, and what may have to be sent again.

    `heap` holds (due, serial, what): a Transmission whose ACK may be late, or a Remote that had no message id left. Entries
    whose matter is settled stay until they are due and are then passed over.
    """

    __slots__ = ("entropy", "heap", "out", "resent", "serial")

    def __init__(self, entropy: Entropy) -> None:
        self.entropy = entropy
        self.out: list[tuple[bytes, tuple[str, int]]] = []
        self.heap: list[tuple[int, int, Transmission | Remote]] = []
        self.serial = 0
        self.resent = 0

    def send(self, remote: Remote, data: bytes) -> None:
        """Send once."""
        left = remote.credit - len(data)
        remote.credit = left if left > 0 else 0
        self.out.append((data, remote.address))

    def confirm(self, remote: Remote, owner: Outbound, now: int) -> bool:
        """Send what `owner` has to say as a confirmable message as soon as it is its turn. Asking twice is asking once.

        False: too much is on its way or waiting, to this peer or in all; nothing will be sent.
        """
        if owner not in remote.waiting:
            if len(remote.waiting) >= WAITING_MAX or len(self.heap) >= UNSETTLED_MAX:
                return False
            remote.waiting.append(owner)
        if remote.outstanding is None:
            self._next(remote, now)
        return True

    def acknowledged(self, remote: Remote, now: int) -> None:
        """The ACK or RST of the outstanding message has come: the next one is on its way."""
        remote.outstanding = None
        self._next(remote, now)

    def forget(self, remote: Remote, owner: Outbound, now: int) -> None:
        """`owner` has nothing to say any more: not again, not later."""
        if owner in remote.waiting:
            remote.waiting.remove(owner)
        if remote.outstanding is not None and remote.outstanding.owner is owner:
            remote.outstanding = None
            self._next(remote, now)

    def deadline(self) -> int | None:
        """When `expire` has something to look at."""
        return self.heap[0][0] if self.heap else None

    def expire(self, now: int) -> list[tuple[Remote, Outbound]]:
        """Send again what is due. Returns those whose message was never acknowledged."""
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
