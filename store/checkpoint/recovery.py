"""Recovery: applies the log since the last checkpoint to the state view, the lease tables and the queue index.

promise mark -> checkpoint -> snapshot -> state records up to the checkpoint -> index blocks -> whole batches up to the end
    -> damage of the promised part: refused | an unsynced tail: cut -> copy of the unproven part
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, final

from domain.message.record import Record
from domain.ports import Disk
from domain.store.store_event import RECOVERING_BYTES, StoreEventKind
from store.appends.effects import StateEffects
from store.checkpoint import snapshot
from store.checkpoint.points import Point
from store.checkpoint.replayed_queues import ReplayedQueues
from store.events import StoreEvents
from store.log import batch
from store.log.batch import Header
from store.log.promise import Promise
from store.log.segment import FOLDER, Segments, file_name
from store.log.segment_ends import ends_with_filler, find_gaps, reach, version_of, writer_of
from store.log.survey import DamageError, LogSurvey, Stretch, damage
from store.queue.index import QueueIndex
from store.state import change, rows
from store.state.view import DROPPED, StateView

ABORT: Final = "abort"
"""File that exists from a start to the clean end."""
_TOPIC: Final = b"\x06@topic"
_DROPPED: Final = b"\x08@dropped"
"""With what the changes begin that a batch's messages depend on."""


class Recovered(NamedTuple):
    """Result of recovery.

    cut_bytes     bytes of an unsynced tail that were cut off
    cut_records   upper bound of the records in them
    copied_bytes  bytes that were not proven to be on the disk, and were copied
    state_bytes   bytes of state records that were applied
    """

    cut_bytes: int
    cut_records: int
    copied_bytes: int
    store_ms: int
    batches: int
    state_bytes: int


@final
class LogRecovery:
    """One recovery: of a store that opens, or of a replica that follows, which recovers until it is promoted.

    _proven      position below which the log was durable when it was opened
    """

    def __init__(
        self,
        disk: Disk,
        segments: Segments,
        index: QueueIndex,
        state: StateView,
        effects: StateEffects,
        tag_of: Callable[[bytes], int],
        events: StoreEvents,
        promise: Promise | None,
    ) -> None:
        self._events = events
        self._promise = promise
        self._disk = disk
        self._segments = segments
        self._index = index
        self._state = state
        self._effects = effects
        self._queues = ReplayedQueues(segments, index, state, tag_of)
        self.state_bytes = 0
        self.store_ms = 0
        self.applied = 0
        self._loaded = 0
        self._proven = 0

    def run(self, point: Point) -> Recovered:
        """Apply the log, and cut off an unsynced tail. Raises DamageError for damage of the promised part."""
        segments, promise = self._segments, self._promise
        began = reported = self.load(point)
        batches = 0
        for header, data in segments.walk(began, True):
            self.apply(header, data)
            if self.applied - reported >= RECOVERING_BYTES:
                reported = self.applied
                self._events.notify(
                    StoreEventKind.RECOVERING, "", f"{_mib(reported - began)} of {_mib(segments.end - began)} MiB read"
                )
            batches += 1
        cut_bytes, cut_records = self._cut(self.applied)
        incarnation = 0 if promise is None else promise.incarnation
        if writer_of(segments.active) not in (0, incarnation) and not ends_with_filler(segments):
            segments.append(batch.FILLER)  # what an incarnation writes begins with a file
        copied_bytes = self._renew()
        self.finish()
        return Recovered(cut_bytes, cut_records, copied_bytes, self.store_ms, batches, self.state_bytes)

    def load(self, point: Point) -> int:
        """Load the checkpoint; the position of the first batch behind it. Raises DamageError."""
        segments, promise = self._segments, self._promise
        self._loaded = point.position
        proven = self._proven = max(point.position, 0 if promise is None else promise.position)
        self._require_files(proven)
        if point.state:
            self._snapshot(point.snapshot)
            self._index.loaded = {}
        end = max(point.state, segments.first)
        for header, data in segments.walk(end, True):
            if header.position >= point.position:
                break
            if header.state_at:
                body, place, base = self._changes(data[header.state_at :], header.position + header.state_at)
                self._effects.replay(body, place, base, True, True)
            end = header.position + header.size
        end = segments.after(end)
        if end < point.position:
            self._refuse_damage(end, proven)
        self._index.log_start = segments.first
        self._index.lost_ms = {gap.end - 1: gap.ms for gap in segments.gaps}
        self._index.load(point.table if point.state else 0, point.position, self._epoch)
        self.store_ms = self._newest_ms(point)
        self.applied = max(point.position, segments.first)
        return self.applied

    def prove(self) -> Recovered:
        """Read the log behind the checkpoint without applying it, and cut off an unsynced tail, as `run` does: the log of a
        replica that follows. It gets no filler of its own: all its bytes are the leader's. Raises DamageError."""
        end, store_ms, epoch, batches = self.applied, self.store_ms, 0, 0
        for header, _ in self._segments.walk(end, True):
            if header.epoch < epoch:
                break  # bytes of an older log, which a power failure has brought back behind a cut
            end, epoch = header.position + header.size, header.epoch
            store_ms = max(store_ms, header.written_ms)
            batches += 1
        cut_bytes, cut_records = self._cut(end)
        copied_bytes = self._renew()
        return Recovered(cut_bytes, cut_records, copied_bytes, store_ms, batches, self.state_bytes)

    def _cut(self, end: int) -> tuple[int, int]:
        """Cut off an unsynced tail behind `end`: (bytes, records at most). Raises DamageError when it is none."""
        segments = self._segments
        end = segments.after(end)
        cut_records = self._refuse_damage(end, self._proven)
        cut_bytes = segments.end - end
        segments.cut(end)
        return cut_bytes, cut_records

    def _renew(self) -> int:
        """Copy the bytes not proven to be on the disk, and begin a new segment behind a filler; returns their number."""
        segments, proven = self._segments, self._proven
        if self._promise is None and len(segments.all) > 1:
            proven = max(proven, segments.all[-2].base)  # version 1 synced each segment soon after the next one began
        copied_bytes = max(segments.end - proven, 0)
        segments.renew(proven)
        if ends_with_filler(segments):
            segments.roll()
        return copied_bytes

    def finish(self) -> None:
        """Complete the queues after all of the log is applied."""
        self._queues.create_empty()
        self._queues.step_over_gaps(self._loaded)

    def _snapshot(self, serial: int) -> None:
        for kind, base, body in snapshot.frames(self._disk, serial):
            if kind == snapshot.VALUES:
                self._effects.replay(body, -1, base, True, True)
            elif kind == snapshot.ROWS:
                for item in change.decode(body):
                    packed = int.from_bytes(item.value or b"", "big")
                    segment = self._segments.at(rows.unpack(packed)[0])
                    self._state.put_row(item.space, item.key, packed, base if segment is None else segment.base)
            else:
                self._effects.load(kind, body)

    def _newest_ms(self, point: Point) -> int:
        """The newest store time below `point`: of the mark, and of the batches that it does not cover."""
        segments, promise = self._segments, self._promise
        if promise is not None:
            store_ms, position = promise.store_ms, promise.position
        else:
            store_ms, position = 0, next((each.base for each in reversed(segments.all) if each.end > each.base), 0)
        for header, _ in segments.walk(max(position, segments.first), False):
            if header.position >= point.position:
                break
            store_ms = max(store_ms, header.written_ms)
        return store_ms

    def _require_files(self, proven: int) -> None:
        """Raise DamageError when a file of the log is missing, too short, or another one, or when the mark is missing."""
        segments, promise = self._segments, self._promise
        find_gaps(segments)
        if promise is None and any(version_of(segment) == 2 for segment in segments.all):
            text = "promise/0 and promise/1 hold no valid mark, so nothing tells how far the log has to reach"
            raise DamageError(text, "promise/0", [])
        expected = segments.first if promise is None else promise.first
        bad: list[Stretch] = []
        survey = LogSurvey(segments, 0)
        for segment in segments.all:
            if segment.base > expected and expected < proven:
                bad.append(survey.missing(expected, segment.base))
            elif segment.end > segment.base and segment.base < proven and not version_of(segment):
                bad.append(next(found for found in survey.run(segment.base, 0) if isinstance(found, Stretch)))
            expected = reach(segments, segment)
        if expected < proven:
            bad.append(survey.missing(expected, proven))
        if bad:
            raise damage(bad)

    def _refuse_damage(self, end: int, proven: int) -> int:
        """Examine the log behind `end`, the end of the last good batch. Below `proven` it is known to have been durable.

        Raises DamageError for damage of the promised part. Else the rest is an unsynced tail; returns an upper bound of its
        records.
        """
        segments = self._segments
        if end == segments.end and end >= proven:
            return 0
        survey = LogSurvey(segments, 0 if self._promise is None else self._promise.incarnation)
        bad = [found for found in survey.run(end, proven) if isinstance(found, Stretch)]
        bound = max(proven, survey.flushed, survey.last_v1)
        promised = [stretch for stretch in bad if stretch.begin < bound]
        if promised:
            raise damage(promised)
        records = survey.good_records + sum(stretch.records for stretch in bad)
        if segments.end > end:
            cause = f"{segments.end - end:,} bytes were not flushed when the node ended, and are not whole: cut off at {end}"
            file = bad[0].file if bad else file_name(FOLDER, segments.active.base)
            self._events.notify(StoreEventKind.CUT, file, f"{cause}, with at most {records:,} records")
        return records

    def _epoch(self, topic: str) -> int:
        value = self._state.get(DROPPED, topic.encode())
        return 0 if value is None else int(value.split(b" ")[0])

    def _changes(self, data: bytes, position: int) -> tuple[bytes, int, int]:
        """(body, its position, base of the segment) of the state record `data` at `position`."""
        segment = self._segments.at(position)
        assert segment is not None
        self.state_bytes += len(data)
        state = Record(data)
        return state.body, position + state.body_at, segment.base

    def apply(self, header: Header, data: bytes) -> None:
        """Apply the next batch: its topics, its messages, then all other changes.

        A topic may have been deleted and created again between two messages of a batch: the epoch of the deletion separates the
        messages of the two topics.
        """
        body, place, base = b"", 0, 0
        if header.state_at:
            body, place, base = self._changes(data[header.state_at :], header.position + header.state_at)
        if body.find(_TOPIC) >= 0 or body.find(_DROPPED) >= 0:
            self._effects.replay(body, place, base, True, False)
        add = self._queues.add
        at = header.head
        while at < header.size:
            size = int.from_bytes(data[at : at + 4], "big")
            if at != header.state_at:
                add(Record(data[at : at + size]), header.position + at, size)
            at += size
        if body:
            self._effects.replay(body, place, base, False, True)
        self.applied = header.position + header.size
        self.store_ms = max(self.store_ms, header.written_ms)


def running(boot: str) -> bytes:
    """Content of `ABORT` while a store is open in this start of the machine."""
    return f"running {boot}".rstrip().encode() + b"\n"


def lost_power(disk: Disk, boot: str) -> bool:
    """True when the last run ended without a clean close and the machine may have started since: unsynced bytes of that run may
    be lost."""
    found = disk.read_all(ABORT)
    return found is not None and (not boot or found != running(boot))


def _mib(size: int) -> int:
    return size // (1024 * 1024)
