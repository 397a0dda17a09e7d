"""How much a leader sends to a follower."""

from __future__ import annotations

from controller.raft.entry import EntryKind, LogEntry
from controller.raft.replication import FollowerProgress, Replicating
from controller.raft.settings import RaftSettings

SETTINGS = RaftSettings(inflight_messages_max=2, inflight_bytes_max=1000)


def message(index: int, size: int = 1) -> list[LogEntry]:
    """One entry."""
    return [LogEntry(1, index, EntryKind.COMMAND, bytes(size))]


def pipeline() -> FollowerProgress:
    """A follower whose log is equal up to 4."""
    progress = FollowerProgress(5, SETTINGS)
    progress.accepted(4)
    assert progress.state is Replicating.PIPELINE
    return progress


def test_a_probe_waits_for_its_answer() -> None:
    progress = FollowerProgress(5, SETTINGS)
    assert not progress.paused
    progress.sent(message(5), 0)
    assert progress.paused
    progress.nudge()
    assert not progress.paused


def test_messages_in_flight_are_bounded_by_number() -> None:
    progress = pipeline()
    progress.sent(message(5), 0)
    assert not progress.paused
    progress.sent(message(6), 0)
    assert (progress.paused, progress.next, progress.inflight) == (True, 7, 2)
    progress.accepted(5)
    assert (progress.paused, progress.inflight) == (False, 1)


def test_messages_in_flight_are_bounded_by_bytes() -> None:
    progress = pipeline()
    progress.sent(message(5, 2000), 0)
    assert progress.paused
    progress.accepted(5)
    assert not progress.paused


def test_a_rejection_leads_back_to_a_probe_and_old_ones_do_not() -> None:
    progress = pipeline()
    progress.sent(message(5), 0)
    assert not progress.rejected(3, 2)
    assert progress.rejected(5, 4)
    assert (progress.state, progress.next) == (Replicating.PROBE, 5)
    assert not progress.rejected(9, 2)
    assert progress.rejected(4, 2)
    assert progress.next == 5, "the logs are known to be equal up to 4"


def test_a_probe_goes_back_to_where_the_logs_may_be_equal() -> None:
    progress = FollowerProgress(10, SETTINGS)
    assert progress.rejected(9, 3)
    assert progress.next == 4
    assert progress.rejected(3, 3)
    assert progress.next == 3, "each rejection goes back by one entry at least"


def test_a_snapshot_ends_by_its_answer_or_by_time() -> None:
    progress = FollowerProgress(10, SETTINGS)
    progress.sent_snapshot(20)
    progress.accepted(7)
    assert progress.state is Replicating.SNAPSHOT
    progress.accepted(20)
    assert (progress.state, progress.next) == (Replicating.PIPELINE, 21)
    progress.sent_snapshot(30)
    for _ in range(SETTINGS.election_ticks):
        assert progress.paused
        progress.tick()
    assert (progress.state, progress.next, progress.paused) == (Replicating.PROBE, 21, False)
