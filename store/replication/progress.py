"""One follower, as its leader sees it."""

from __future__ import annotations

from typing import Final, final

from domain.limits import MILLISECOND_NS
from store.replication.ports import FollowerConnection

WINDOW_BYTES: Final = 8 * 1024 * 1024
"""Bytes that a follower was sent and has not written, at most."""
RATE_BEGIN: Final = 16 * 1024 * 1024
"""Bytes a second that a follower that has connected is sent from the leader's disk, until its pace is set."""
AWAY_NS: Final = 1_000 * MILLISECOND_NS
"""Time without a connection after which a follower may begin to catch up without being taken for stuck."""


@final
class ReplicaProgress:
    """What a follower has said, and what it was sent.

    id           replica
    incarnation  identity of its log
    connection   None: it is not connected
    sent         position up to which it was sent the log
    written      position up to which its log is written, as last said
    synced       position up to which it is durable, as last said
    moved_ns     when it last said more than before, or had everything; monotonic. A new connection is no progress: a
                 follower that connects again and again, and takes nothing, must not keep its place
    lost_ns      when its connection ended; monotonic
    sent_ns      when it was last sent something; monotonic
    confirmed    confirmed position that it was last sent
    proven       position from which on only the follower computes the checksums of what it is sent
    has_room     True: it has said that its volume takes messages
    serves       `host:port` at which it serves readers; "": nowhere
    rate         bytes a second that it may be sent from the leader's disk
    due_ns       when it may be sent the next part from there; monotonic
    """

    __slots__ = (
        "confirmed", "connection", "due_ns", "has_room", "id", "incarnation", "lost_ns", "moved_ns", "proven", "rate", "sent",
        "sent_ns",
        "serves", "synced", "written",
    )  # fmt: skip

    def __init__(self, replica: int, incarnation: int, now_ns: int) -> None:
        self.id = replica
        self.incarnation = incarnation
        self.connection: FollowerConnection | None = None
        self.sent = 0
        self.written = 0
        self.synced = 0
        self.moved_ns = now_ns
        self.lost_ns = now_ns
        self.sent_ns = now_ns
        self.confirmed = -1
        self.proven = 0
        self.has_room = False
        self.serves = ""
        self.rate = RATE_BEGIN
        self.due_ns = now_ns

    def connected(self, connection: FollowerConnection, position: int, now_ns: int, proven: int) -> None:
        """It follows from `position` on: what it has before is the leader's log. Up to `proven` the checksums are computed here
        too: a follower that has ended its connection because of a damaged batch asks for that one again."""
        if self.connection is not None:
            self.connection.close("this replica has connected again")
        self.connection = connection
        if position > self.written or now_ns - self.lost_ns >= AWAY_NS:
            self.moved_ns = now_ns
        self.sent = self.written = position
        self.synced = min(self.synced, position)
        self.sent_ns = now_ns
        self.confirmed = -1
        self.has_room = False
        self.proven = proven

    def says(self, written: int, synced: int, now_ns: int) -> bool:
        """Note what it has; False when that cannot be."""
        if written < self.written or synced < self.synced or not synced <= written <= self.sent:
            return False
        if written > self.written or synced > self.synced:
            self.moved_ns = now_ns
        self.written = written
        self.synced = synced
        return True

    def lost(self, now_ns: int) -> None:
        """Its connection has ended."""
        self.connection = None
        self.lost_ns = now_ns

    def forgive(self, now_ns: int) -> None:
        """The leader itself has stood still: nothing that was not heard meanwhile counts."""
        self.moved_ns = max(self.moved_ns, now_ns)
        self.lost_ns = max(self.lost_ns, now_ns)
