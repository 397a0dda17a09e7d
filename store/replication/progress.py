"""One follower, as its leader sees it."""

from __future__ import annotations

from typing import Final, final

from domain.controller.group import SetMember
from domain.limits import MILLISECOND_NS
from store.replication.ports import FollowerConnection

WINDOW_BYTES: Final = 8 * 1024 * 1024
"""Limit on the bytes sent to a follower that it has not reported as written."""
RATE_BEGIN: Final = 16 * 1024 * 1024
"""Rate of a new connection from the leader's disk until the first `Pace.poll`, in bytes a second."""
AWAY_NS: Final = 1_000 * MILLISECOND_NS
"""Time without a connection after which a new one resets `moved_ns`: the follower gets time to catch up."""


def member_of(replica: int, incarnation: int) -> SetMember:
    """Member with the incarnation of its log, in the form of the controllers."""
    return SetMember(replica, str(incarnation))


@final
class ReplicaProgress:
    """State of one follower: its reports, and the bytes sent to it. Times are monotonic ns.

    connection   None: it is not connected
    written      last reported position up to which its log is written
    synced       last reported position up to which its log is durable
    begun        position from which on the present connection follows
    moved_ns     last progress: a report of higher positions, or of the whole log. A new connection is no progress: a follower
                 that reconnects again and again without progress must not stay a member
    heard_ns     last report over the present connection, or its begin
    signs        True: over this connection it also reports when nothing has changed, so that its silence means something.
                 Versions that say no `gates` do not
    proven       position from which on only the follower checks the checksums
    has_room     last report: True when its volume takes messages
    asked        number of the newest question that was sent to it on this connection; 0: none
    serves       `host:port` at which it serves readers; "": nowhere
    gates        `host:port` at which it takes gateways when it leads; "": it has not said
    rate         bytes a second from the leader's disk
    due_ns       time of the next part from the disk
    """

    def __init__(self, replica: int, incarnation: int, now_ns: int) -> None:
        self.id = replica
        self.incarnation = incarnation
        self.connection: FollowerConnection | None = None
        self.sent = 0
        self.begun = 0
        self.written = 0
        self.synced = 0
        self.moved_ns = now_ns
        self.lost_ns = now_ns
        self.sent_ns = now_ns
        self.heard_ns = now_ns
        self.signs = False
        self._reported: tuple[int, int, bool] | None = None
        self.confirmed = -1
        self.proven = 0
        self.has_room = False
        self.asked = 0
        self.serves = ""
        self.gates = ""
        self.rate = RATE_BEGIN
        self.due_ns = now_ns

    @property
    def member(self) -> SetMember:
        """The follower, with its log, as a member of a SyncStateSet."""
        return member_of(self.id, self.incarnation)

    def connected(self, connection: FollowerConnection, position: int, now_ns: int, proven: int) -> None:
        """Begin a connection that follows from `position` on. The log before counts with the first report, since the follower
        may find out that it is not the leader's. Up to `proven` the leader checks the checksums too: a follower that has closed
        its connection because of a damaged batch asks for it again."""
        if self.connection is not None:
            self.connection.close("this replica has connected again")
        self.connection = connection
        if position > max(self.written, self.begun) or now_ns - self.lost_ns >= AWAY_NS:
            self.moved_ns = now_ns
        self.sent = self.begun = position
        self.written = min(self.written, position)
        self.synced = min(self.synced, position)
        self.sent_ns = now_ns
        self.heard_ns = now_ns
        self.signs = False
        self._reported = None
        self.confirmed = -1
        self.has_room = False
        self.asked = 0
        self.proven = proven

    @property
    def unanswered(self) -> int:
        """Bytes that were sent over this connection and are not reported as written."""
        return self.sent - max(self.written, self.begun)

    def says(self, written: int, synced: int, has_room: bool, now_ns: int) -> bool:
        """Take the reported positions; False when they are impossible."""
        if written < self.written or synced < self.synced or not synced <= written <= self.sent:
            return False
        if written > self.written or synced > self.synced:
            self.moved_ns = now_ns
        self.heard_ns = now_ns
        report = (written, synced, has_room)
        self.signs = self.signs or bool(self.gates) or report == self._reported
        self._reported = report
        self.written, self.synced, self.has_room = report
        return True

    def not_asked_yet(self, question: int) -> int:
        """The number of the newest question for the next message to it; 0: it was sent to it already."""
        if question == self.asked:
            return 0
        self.asked = question
        return question

    def lost(self, now_ns: int) -> None:
        """Note the end of its connection."""
        self.connection = None
        self.lost_ns = now_ns

    def forgive(self, late_ns: int, now_ns: int) -> None:
        """Leave a pause of the leader itself out of the timeouts: for `late_ns` it has received no reports. What a follower had
        used up of them before stays, or a leader that stands still again and again would wait forever."""
        self.moved_ns = min(self.moved_ns + late_ns, now_ns)
        self.heard_ns = min(self.heard_ns + late_ns, now_ns)
        self.lost_ns = min(self.lost_ns + late_ns, now_ns)
