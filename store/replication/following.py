"""A follower of a store group: it truncates its log to the history common with its leader's, and appends the leader's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from domain.replication.message import (
    ERAS_MAX,
    STRANGE,
    Follow,
    FollowAccepted,
    FollowRefusal,
    FollowRefused,
    LogBytes,
    LogHeld,
)
from domain.replication.ports import BatchMark, ReceivedLog, ReplicaDataError, UnknownFormatError
from store.replication.ports import LeaderConnection
from store.replication.progress import WINDOW_BYTES
from store.replication.replica_log.eras import is_another

POLL_NS: Final = 250 * MILLISECOND_NS
UNTOLD_BYTES: Final = 2 * 1024 * 1024
"""Bytes that a follower far behind writes between two reports and syncs: no confirmation waits for them."""
UPGRADE_MS: Final = 30_000
"""Pause before a new connection to a leader that has sent batches of an unknown format version."""
SIGN_NS: Final = 150 * MILLISECOND_NS
"""Time after a report at which the next word of the leader is answered with another one, though nothing has changed."""
STRANGE_MS: Final = 5_000
"""Pause before a new connection to a leader of another store group or history."""
SILENCE_NS: Final = 1_000 * MILLISECOND_NS
"""Silence of the leader after which the connection is closed."""


class FollowerPlace(NamedTuple):
    """The fields of Follow that are about a follower, not about its log."""

    serves: str = ""
    run: str = ""
    gates: str = ""
    identity: str = ""


@final
class Following:
    """One replica behind one leader, over successive connections.

    follows   True while the leader accepts this replica
    confirmed newest confirmed position that the leader has sent; this log may be shorter
    word_ns   when it has sent it, monotonic
    refuses   error of this version of the program with the format of the leader's batches; "": none known
    strange   reason why this log and the leader's are not of one store group or history; "": none known
    """

    def __init__(
        self,
        log: ReceivedLog,
        own_id: int,
        group: str,
        epoch: int,
        clock: Clock,
        anew: Callable[[int, bool], None],
        place: FollowerPlace,
    ) -> None:
        """`epoch`: epoch of the leader. The callback gets (first, behind) when the leader cannot continue the log: this object
        is then closed, and the log must restart empty at `first`. `behind`: the leader had all of the log, and has deleted it
        by retention."""
        self.follows = False
        self.refuses = ""
        self.strange = ""
        self.confirmed = 0
        self._log = log
        self._own = own_id
        self._group = group
        self._epoch = epoch
        self._clock = clock
        self._place = place
        self._anew = anew
        self._connection: LeaderConnection | None = None
        self._cutting = False
        self._wants = False
        self._early: list[LogBytes] = []
        self._early_bytes = 0
        self._syncing = False
        self._marked = False
        self._said = (-1, -1, False)
        self._said_ns = clock.monotonic_ns()
        self._asked = self._answered = 0
        self._behind = False
        self.heard_ns = clock.monotonic_ns()
        self._looked_ns = self.word_ns = self.heard_ns
        self._closed = False
        self._timer: Timer | None = None
        self._poll()

    def close(self) -> None:
        """Stop following. A running cut or sync of the log ends by itself."""
        self._closed = True
        self._connection = None
        self.follows = False
        if self._timer is not None:
            self._timer.cancel()

    @property
    def settled(self) -> bool:
        """True while no cut of the log is running."""
        return not self._cutting

    def connected(self, connection: LeaderConnection) -> None:
        """Ask to follow over a new connection to the leader."""
        self._connection = connection
        self.heard_ns = self._clock.monotonic_ns()
        if self._cutting:
            self._wants = True
        else:
            self._ask()

    def _ask(self) -> None:
        self._wants = False
        log = self._log
        if self._connection is not None and log.broken is None and log.full is None:
            self._connection.send(
                Follow(
                    None, self._group, self._own, log.incarnation, self._epoch, tuple(log.eras()[-ERAS_MAX:]), log.first,
                    log.behind, *self._place,
                )
            )  # fmt: skip

    def lost(self) -> None:
        """Reset the state of a connection that has ended."""
        self._connection = None
        self.follows = False
        self._wants = False
        self._early.clear()
        self._early_bytes = 0
        self._said = (-1, -1, False)
        self._asked = self._answered = 0
        self._behind = False

    def _end(self, reason: str, rest_ms: int = 0) -> None:
        connection, self._connection = self._connection, None
        self.follows = False
        if connection is not None:
            connection.close(reason, rest_ms)

    def refused(self, event: FollowRefused) -> None:
        """Close the connection, since the leader refuses this replica; another connection asks again."""
        if event.reason in STRANGE:
            self._is_strange(event.reason)
            return
        self._end(f"{event.reason.value} (epoch {event.epoch})")

    def accepted(self, event: FollowAccepted) -> None:
        """Truncate the log where the leader continues it, or restart it if the leader cannot."""
        self.heard_ns = self._clock.monotonic_ns()
        log, cut = self._log, event.cut
        if self._closed or self._cutting or event.epoch != self._epoch or cut > log.written:
            self._end("the leader's answer is not about this log")
        elif event.last >= log.first and is_another(
            log.batch_before(event.last + 1), BatchMark(event.last, cut, event.checksum)
        ):
            self._is_strange(FollowRefusal.OTHER_HISTORY)
        elif cut < max(log.applied, log.first):
            self._end("the log begins anew")
            self.close()
            self._anew(event.first, event.common >= log.behind > log.first)
        else:
            self._cutting = True
            try:
                log.cut(cut, self._cut)
            except ReplicaDataError as error:
                self._cutting = False
                self._end(str(error))

    def _is_strange(self, reason: FollowRefusal) -> None:
        """Leave the log as it is: a person has to look. A later connection asks again, since the leader may be another one."""
        self.strange = reason.value
        self._end(reason.value, STRANGE_MS)

    def _cut(self) -> None:
        self._cutting = False
        if self._closed:
            return
        if self._wants:
            self._ask()  # another connection waits for its turn
            return
        if self._connection is None:
            return
        self.follows = True
        self.strange = ""
        early, self._early, self._early_bytes = self._early, [], 0
        for event in early:
            self.bytes(event)
        self._mark()

    def bytes(self, event: LogBytes) -> None:
        """Append a part of the log, and apply the confirmed position and the first position of the leader."""
        self.heard_ns = self.word_ns = self._clock.monotonic_ns()
        if self._closed:
            return
        if not self.follows:
            self._keep(event)
            return
        log = self._log
        if event.epoch != self._epoch or event.position != log.written:
            self._end("the leader's log does not go on where this one ends")
            return
        if event.data:
            try:
                log.append(event.position, event.data)
                self.refuses = ""
            except UnknownFormatError as error:
                self.refuses = str(error)
                self._end(self.refuses, UPGRADE_MS)
                return
            except ReplicaDataError as error:
                self._end(str(error))
                return
        if log.broken is not None:
            self._end(log.broken.text)
            return
        self._asked = event.question or self._asked
        self._behind = event.confirmed > log.written
        self.confirmed = event.confirmed
        log.confirm(min(event.confirmed, log.written))
        log.drop_before(event.first)
        self._mark()

    def _keep(self, event: LogBytes) -> None:
        self._early_bytes += len(event.data)
        if self._cutting and not self._wants and self._early_bytes <= 2 * WINDOW_BYTES:
            self._early.append(event)
        else:
            self._end("the leader sends before it was asked")

    def _mark(self) -> None:
        if not self._marked:
            self._marked = True
            self._clock.call_soon(self._turn)

    def _turn(self) -> None:
        self._marked = False
        log = self._log
        if self._closed or not self.follows or self._connection is None:
            return
        now, found = self._clock.monotonic_ns(), (log.written, log.synced, log.has_room)
        waits = self._behind and log.written - max(self._said[0], log.synced) < UNTOLD_BYTES
        is_asked = self._asked != self._answered
        if is_asked or now - self._said_ns >= SIGN_NS or (found != self._said and not waits):
            self._said, self._said_ns, self._answered = found, now, self._asked
            self._connection.send(LogHeld(self._epoch, *found, self._asked if is_asked else 0))
        if waits:
            return
        if not self._syncing and log.synced < log.written and log.broken is None:
            self._syncing = True
            log.sync(self._synced)

    def _synced(self) -> None:
        self._syncing = False
        self._mark()

    def _poll(self) -> None:
        """Close a silent connection. A pause of this process itself does not count as silence."""
        now = self._clock.monotonic_ns()
        self._timer = self._clock.call_at(now + POLL_NS, self._poll)
        if now - self._looked_ns > 2 * POLL_NS:
            self.heard_ns = max(self.heard_ns, now)
        self._looked_ns = now
        if self._connection is not None and not self._cutting and now - self.heard_ns > SILENCE_NS:
            self._end("the leader says nothing")
        elif self._log.has_room != self._said[2]:
            self._mark()
