"""The leader of a store group: it sends its log, and confirms the positions that enough members have reported.

follow --> accepted: cut --> log bytes, at most WINDOW_BYTES unanswered --> held --> confirmed
                              silence, or no progress: left out, after an answer of the controllers
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.controller.group import REPLICAS_MAX, StoreGroup, differ
from domain.errors import StoreError
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from domain.replication.message import Follow, FollowAccepted, FollowRefusal, FollowRefused, LogBytes, LogHeld
from domain.replication.ports import LeaderLog
from store.log.batch import FILLER_BYTES
from store.replication.ack_times import AckTimes, PathTimes
from store.replication.fence import FenceCounts, ReadFence
from store.replication.held import HeldPositions
from store.replication.members import SyncStateSet
from store.replication.pace import Pace, ProcessorTime
from store.replication.ports import FollowerConnection, SetKeeper
from store.replication.progress import WINDOW_BYTES, ReplicaProgress, member_of
from store.replication.replica_log.eras import NOTHING, common_end, is_inside, parted_epoch
from store.replication.set_review import SetReview

PART_BYTES: Final = 1024 * 1024
"""Bytes of one LogBytes, unless a single batch is larger."""
DISK_PART_BYTES: Final = 256 * 1024
"""The same for reads from the disk for a follower that is behind: such a read takes less than a millisecond."""
REST_NS: Final = 4 * MILLISECOND_NS
"""Least pause after a read from the disk: a turn of the loop costs about as much as the copies of a small part."""
CONFIRMED_NS: Final = 4 * MILLISECOND_NS
"""Time after which a confirmed position is sent to followers without log bytes: they apply up to it."""
TICK_NS: Final = 100 * MILLISECOND_NS
LATE_NS: Final = 200 * MILLISECOND_NS
"""Delay of a tick from which on it counts as a pause of the leader itself."""
SIGN_NS: Final = 200 * MILLISECOND_NS
"""Time after the last message to a follower at which it gets an empty part."""


@final
class Leading:
    """One leadership, in one epoch.

    written, synced   confirmed positions
    fence             the fence of the reads of its store
    paths             time from a write to the report of each follower
    """

    def __init__(
        self, log: LeaderLog, group: StoreGroup, own_id: int, keeper: SetKeeper, clock: Clock, step_down: Callable[[str], None],
        busy: Callable[[], ProcessorTime], fence_counts: FenceCounts,
    ) -> None:  # fmt: skip
        """`group`: the group at the election of this replica in the epoch of `log`. `step_down(reason)` is called once, at the
        end of the leadership; nothing is confirmed from then on. `busy`: processor time of this thread, as in Pace."""
        self.written = 0
        self.synced = 0
        self._acks = AckTimes(clock)
        self.paths = PathTimes(clock)
        self._log = log
        self._own = member_of(own_id, log.incarnation)
        self._keeper = keeper
        self._clock = clock
        self._stepped_down = step_down
        self._ticked_ns = clock.monotonic_ns()
        self.followers: dict[int, ReplicaProgress] = {}
        others = [each.id for each in group.replicas if each.id != own_id]
        self.fence = ReadFence(clock, others, self._question, keeper.poll, fence_counts)
        self._set = SyncStateSet(group, own_id, keeper, clock, self._counted, self._step_down)
        self._held = HeldPositions(log, self._own, self.followers)
        self.review = SetReview(log, self._set, self._own, self.followers, self._held, self._ticked_ns)
        self._ended = False
        self._marked = False
        self._pauses: dict[int, Timer] = {}
        self._word: Timer | None = None
        self._pace = Pace(self._ticked_ns, log.written, busy)
        self._timer: Timer | None = None

    @property
    def own_id(self) -> int:
        """Id of this replica."""
        return self._own.id

    @property
    def group(self) -> StoreGroup:
        """The last known state of the store group."""
        return self._set.group

    def start(self) -> None:
        """Begin to lead."""
        self._log.follow_progress(self._mark)
        self._prove_epoch()
        self._counted()
        self._tick()

    def close(self) -> None:
        """End the leadership and the connections of followers."""
        self._ended = True
        self.fence.close()
        self._set.end()
        for timer in (self._timer, self._word, *self._pauses.values()):
            if timer is not None:
                timer.cancel()
        for follower in self.followers.values():
            if follower.connection is not None:
                follower.connection.close("this replica leads no more")
                follower.connection = None

    def _step_down(self, reason: str) -> None:
        if not self._ended:
            self.close()
            self._stepped_down(reason)

    def group_heard(self, group: StoreGroup) -> None:
        """Take the state of the group from a controller."""
        if not self._ended:
            self._set.heard(group)

    # Followers

    def follow(self, connection: FollowerConnection, command: Follow) -> None:
        """Accept or refuse a replica that asks to follow."""
        refusal = self._refusal(command)
        if refusal is not None:
            connection.send(FollowRefused(command.ticket, refusal, self._log.epoch))
            return
        eras = self._log.eras()
        if parted_epoch(eras, command.eras):
            connection.send(FollowRefused(command.ticket, FollowRefusal.OTHER_HISTORY, self._log.epoch))
            return
        cut = common_end(eras, self._log.written, command.eras, command.end)
        if command.end == command.first and cut == NOTHING and command.end == self._log.first:
            cut = command.end  # an empty log with the same first position
        if cut < max(self._log.first, command.first):
            connection.send(FollowAccepted(command.ticket, self._log.epoch, NOTHING, self._log.first, cut))
            return
        last = self._log.batch_before(cut)
        if is_inside(last, cut):
            connection.send(FollowRefused(command.ticket, FollowRefusal.OTHER_HISTORY, self._log.epoch))
            return
        now = self._clock.monotonic_ns()
        follower = self.followers.get(command.replica)
        if follower is None or follower.incarnation != command.incarnation:
            if follower is not None and follower.connection is not None:
                follower.connection.close("this replica has another log")
            follower = self.followers[command.replica] = ReplicaProgress(command.replica, command.incarnation, now)
        follower.connected(connection, cut, now, cut + 2 * PART_BYTES)
        follower.serves = command.serves
        follower.gates = command.gates
        self.paths.follows(follower.id)
        accepted = FollowAccepted(command.ticket, self._log.epoch, cut, self._log.first)
        if last is not None and last.end == cut:
            accepted.last, accepted.checksum = last.begin, last.checksum
        connection.send(accepted)
        self.fence.accepted(follower.id)
        self._mark()

    def _refusal(self, command: Follow) -> FollowRefusal | None:
        if self._ended:
            return FollowRefusal.NOT_LEADING
        if command.epoch != self._log.epoch:
            if command.epoch > self._log.epoch:
                self._keeper.poll()
            return FollowRefusal.OTHER_EPOCH
        known = self.group.replica(command.replica) if command.group == self.group.name else None
        if known is None or known.incarnation != str(command.incarnation) or command.replica == self._own.id:
            self._keeper.poll()
            return FollowRefusal.UNKNOWN_REPLICA
        if differ(self.group.identity, command.identity):
            return FollowRefusal.OTHER_GROUP
        if differ(known.run, command.run):
            self._keeper.poll()
            return FollowRefusal.OTHER_PROCESS
        if command.replica not in self.followers and len(self.followers) >= REPLICAS_MAX:
            return FollowRefusal.TOO_MANY
        return None

    def held(self, connection: FollowerConnection, command: LogHeld) -> None:
        """Take the positions that a follower reports."""
        follower = self._of(connection)
        if follower is None:
            return
        now = self._clock.monotonic_ns()
        if command.epoch != self._log.epoch or not follower.says(command.written, command.synced, command.has_room, now):
            self._lose(follower, now)
            connection.close("what this replica says it has cannot be")
            return
        self.fence.answered(follower.member, command.answers)
        self._acks.held(follower.written)
        self.paths.held(follower.id, follower.written)
        self._mark()

    def lost(self, connection: FollowerConnection) -> None:
        """Note the end of a follower's connection."""
        follower = self._of(connection)
        if follower is not None:
            self._lose(follower, self._clock.monotonic_ns())

    def _lose(self, follower: ReplicaProgress, now_ns: int) -> None:
        follower.lost(now_ns)
        self.paths.lost(follower.id)

    def ack_us(self) -> int:
        """Mean time from a write to the report of the fastest follower since the last call, in microseconds; UNMEASURED."""
        if not any(each.connection is not None for each in self.followers.values()):
            self._acks.forget()
        return self._acks.take_us()

    def _of(self, connection: FollowerConnection) -> ReplicaProgress | None:
        return next((each for each in self.followers.values() if each.connection is connection), None)

    # Confirmed positions

    def _counted(self) -> None:
        if not self._ended:
            self._log.members(len(self.group.members) - self.review.absent, self.group.min_in_sync)
            self.fence.members({each for one in self._set.counted() for each in one.members} - {self._own})
            self._mark()

    def _prove_epoch(self) -> None:
        """Write a record of this epoch, if fewer than all members confirm: none of the others confirms without it."""
        if self.group.electing > 1 and self._log.written <= self._log.begin + FILLER_BYTES:
            self._log.note_epoch()

    def _confirm(self) -> None:
        positions = [self._held.by(each) for each in self._set.counted()]
        written = max(self.written, min(each for each, _ in positions))
        synced = max(self.synced, min(each for _, each in positions))
        if (written, synced) != (self.written, self.synced):
            self.written, self.synced = written, synced
            self._log.confirm(written, synced)

    # Turns

    def _mark(self) -> None:
        if not self._marked and not self._ended:
            self._marked = True
            self._clock.call_soon(self._turn)

    def _turn(self) -> None:
        self._marked = False
        if self._ended:
            return
        self._acks.written(self._log.written)
        self.paths.written(self._log.written)
        self._confirm()
        for follower in list(self.followers.values()):
            if follower.id not in self._pauses:
                self._send(follower)

    def _send(self, follower: ReplicaProgress) -> None:
        """Send the bytes that may be sent now; a follower that has all gets the confirmed position soon."""
        log = self._log
        if follower.connection is None or self._ended:
            return
        if follower.sent >= log.written:
            if follower.confirmed < self.written and self._word is None:
                self._word = self._clock.call_at(self._clock.monotonic_ns() + CONFIRMED_NS, self._notify)
            return
        while follower.sent < log.written and follower.unanswered < WINDOW_BYTES:
            now = self._clock.monotonic_ns()
            behind = follower.sent < log.recent
            if behind and follower.due_ns > now:
                self._pause(follower, max(follower.due_ns, now + REST_NS))
                return
            data = self._read(follower, DISK_PART_BYTES if behind else PART_BYTES)
            if not data or follower.connection is None:
                return
            self._part(follower, follower.connection, data)
            if behind:
                done = self._clock.monotonic_ns()
                self._pace.sent(follower, len(data), done - now, done)
            elif follower.sent < log.written:
                self._pause(follower, now)
                return

    def _read(self, follower: ReplicaProgress, size: int) -> bytes:
        """Next part for a follower; b"" after a read error, which closes its connection."""
        try:
            return self._log.read(follower.sent, size, follower.sent < follower.proven)
        except (StoreError, OSError) as error:
            connection = follower.connection
            self._lose(follower, self._clock.monotonic_ns())
            if connection is not None:
                connection.close(f"the leader cannot read its log: {error}")
            return b""

    def _pause(self, follower: ReplicaProgress, until_ns: int) -> None:
        self._pauses[follower.id] = self._clock.call_at(until_ns, lambda: self._go_on(follower))

    def _notify(self) -> None:
        self._word = None
        for follower in self.followers.values():
            if follower.connection is not None and follower.confirmed < self.written:
                self._part(follower, follower.connection, b"")

    def _go_on(self, follower: ReplicaProgress) -> None:
        self._pauses.pop(follower.id, None)
        self._send(follower)

    def _part(self, follower: ReplicaProgress, connection: FollowerConnection, data: bytes) -> None:
        position = follower.sent
        follower.sent += len(data)
        follower.sent_ns = self._clock.monotonic_ns()
        follower.confirmed = self.written
        question = follower.not_asked_yet(self.fence.number)
        connection.send(LogBytes(None, self._log.epoch, position, self.written, self._log.first, data, question))

    def _question(self) -> None:
        """Ask all followers now whether they still accept this leader's epoch."""
        self.fence.question()
        for follower in self.followers.values():
            if follower.connection is not None:
                self._part(follower, follower.connection, b"")

    def _tick(self) -> None:
        now = self._clock.monotonic_ns()
        if self._log.broken is not None:
            # Only this check ends the leadership: the node is alive, and its followers have all of the log.
            self._step_down(self._log.broken.text)
            return
        self._timer = self._clock.call_at(now + TICK_NS, self._tick)
        late_ns = now - self._ticked_ns - TICK_NS
        if late_ns > LATE_NS:
            self.review.forgive(late_ns, now)
        self._ticked_ns = now
        self.fence.question()
        behind = [each for each in self.followers.values() if each.connection is not None and each.sent < self._log.recent]
        self._pace.poll(now, self._log.written, behind)
        self._prove_epoch()
        for follower in self.followers.values():
            if follower.connection is not None and now - follower.sent_ns >= SIGN_NS:
                self._part(follower, follower.connection, b"")
            if follower.written >= self._log.written and follower.synced >= self._log.synced:
                follower.moved_ns = now
        absent = self.review.absent
        self.review.review(now, self.written, self.synced)
        if self.review.absent != absent:
            self._counted()
