"""The log in memory: what is durable, committed and handed out."""

from __future__ import annotations

import pytest

from controller.raft.entry import EntryKind, LogEntry
from controller.raft.log import RaftLog
from controller.raft.persisted import Persisted, RaftSnapshot
from controller.raft.refusal import SafetyError


def entry(term: int, index: int, data: bytes = b"") -> LogEntry:
    """A command."""
    return LogEntry(term, index, EntryKind.COMMAND, data)


def log_of(*terms: int) -> RaftLog:
    """A log that storage has, with entries of these terms from index 1 on."""
    return RaftLog(Persisted(entries=tuple(entry(term, index) for index, term in enumerate(terms, 1))))


def test_what_was_cut_while_it_was_written_is_not_durable() -> None:
    log = log_of(1)
    for index in (2, 3, 4):
        log.append(entry(1, index))
    assert len(log.take_entries()) == 3
    log.truncate(3)
    log.append(entry(2, 3))
    log.persisted()
    assert log.stable == 2
    assert log.take_entries() == (entry(2, 3),)
    log.persisted()
    assert log.stable == 3


def test_what_is_appended_while_others_are_written_is_not_durable() -> None:
    log = log_of()
    log.append(entry(1, 1))
    log.take_entries()
    log.append(entry(1, 2))
    log.persisted()
    assert log.stable == 1


def test_entries_are_applied_once_and_not_before_storage_has_them() -> None:
    log = log_of()
    log.append(entry(1, 1))
    log.commit(1)
    assert log.take_committed() == ()
    log.take_entries()
    assert log.take_committed() == (entry(1, 1),)
    assert log.take_committed() == ()


def test_committed_entries_are_not_cut() -> None:
    log = log_of(1, 1, 1)
    log.commit(2)
    log.truncate(3)
    with pytest.raises(SafetyError):
        log.truncate(2)
    with pytest.raises(SafetyError):
        log.commit(3)


def test_a_hole_is_an_error() -> None:
    with pytest.raises(SafetyError):
        RaftLog(Persisted(entries=(entry(1, 2),)))
    with pytest.raises(SafetyError):
        RaftLog(Persisted(snapshot=RaftSnapshot(3, 1), entries=(entry(1, 5),)))


def test_a_snapshot_of_a_leader_outlives_entries_of_another_history() -> None:
    ours = RaftLog(Persisted(snapshot=RaftSnapshot(2, 1), entries=tuple(entry(1, index) for index in (1, 2, 3))))
    assert (ours.last, ours.behind(2)) == (3, (entry(1, 3),))
    other = RaftLog(Persisted(snapshot=RaftSnapshot(2, 2), entries=tuple(entry(1, index) for index in (1, 2, 3))))
    assert (other.last, other.last_term) == (2, 2)


def test_a_log_is_up_to_date_by_term_first_then_by_length() -> None:
    log = log_of(1, 1, 2)
    assert log.is_up_to_date(3, 2)
    assert log.is_up_to_date(1, 3)
    assert not log.is_up_to_date(2, 2)
    assert not log.is_up_to_date(9, 1)


def test_the_hint_skips_terms_that_the_other_log_cannot_have() -> None:
    log = log_of(1, 1, 4, 4, 5)
    assert log.equal_up_to(5, 3) == 2
    assert log.equal_up_to(9, 4) == 4
    assert log.equal_up_to(1, 0) == 0


def test_a_message_takes_one_entry_at_least() -> None:
    log = log_of()
    for index in (1, 2, 3):
        log.append(entry(1, index, bytes(100)))
    assert [len(log.from_index(1, size)) for size in (1, 131, 264, 10_000)] == [1, 1, 2, 3]
    assert log.from_index(4, 100) == ()


def test_a_snapshot_takes_the_place_of_entries_and_is_written_once() -> None:
    log = log_of(1, 1, 1)
    log.commit(3)
    log.take_committed()
    log.compact(RaftSnapshot(2, 1))
    assert (log.last, log.term_at(2), log.term_at(1), len(log.behind(2))) == (3, 1, -1, 1)
    assert log.take_snapshot() == (RaftSnapshot(2, 1), False)
    assert log.take_snapshot() == (None, False)
    log.restore(RaftSnapshot(9, 3))
    assert log.take_snapshot() == (RaftSnapshot(9, 3), True)
    assert (log.last, log.committed, log.applied, log.stable) == (9, 9, 9, 9)
