"""Configurations: their bytes, and which of a log holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.raft.configuration import NOBODY, Configuration, decode
from controller.raft.configurations import Configurations
from controller.raft.entry import EntryKind, LogEntry

NODES = st.frozensets(st.integers(1, 2**64 - 1), max_size=5)


def change(index: int, *voters: int) -> LogEntry:
    """An entry that makes `voters` the voters."""
    return LogEntry(1, index, EntryKind.CONFIGURATION, Configuration(frozenset(voters)).encode())


@given(st.builds(Configuration, NODES, NODES, NODES))
def test_what_is_encoded_is_decoded(configuration: Configuration) -> None:
    assert decode(configuration.encode()) == configuration


@given(st.binary(max_size=40))
def test_other_bytes_are_refused(data: bytes) -> None:
    try:
        configuration = decode(data)
    except ValueError:
        return
    assert configuration.encode() == data


def test_the_newest_holds_and_goes_with_its_entry() -> None:
    known = Configurations(0, NOBODY, [change(1, 1), LogEntry(1, 2, EntryKind.EMPTY), change(3, 1, 2)])
    assert known.latest.voters == {1, 2}
    assert known.at(2).voters == {1}
    known.truncate(3)
    assert (known.latest.voters, known.latest_index) == (frozenset({1}), 1)
    known.truncate(1)
    assert (known.latest, known.latest_index) == (NOBODY, 0)


def test_a_snapshot_keeps_the_one_at_its_end() -> None:
    known = Configurations(0, NOBODY, [change(1, 1), change(4, 1, 2)])
    known.compact(3)
    known.truncate(4)
    assert (known.latest.voters, known.latest_index) == (frozenset({1}), 3)


def test_a_node_that_is_removed_may_lead_until_the_change_is_committed() -> None:
    known = Configurations(1, Configuration(frozenset({1, 2})), [change(4, 2), change(6, 3)])
    assert [known.may_lead(1, committed) for committed in (1, 3, 4, 6)] == [True, True, False, False]
    assert [known.may_lead(2, committed) for committed in (1, 4, 5, 6)] == [True, True, True, False]
    assert known.may_lead(3, 1)


def test_an_entry_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ValueError, match="configuration"):
        Configurations(0, NOBODY).append(LogEntry(1, 1, EntryKind.CONFIGURATION, b"x"))
