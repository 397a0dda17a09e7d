"""How far two logs are the same."""

from __future__ import annotations

import pytest

from domain.replication.message import Era
from domain.replication.ports import BatchMark
from store.replication.replica_log.eras import NOTHING, common_end, is_another, is_inside, parted_epoch

CASES = [
    # ours, our end, theirs, their end, common end
    ([Era(1, 0)], 100, [], 0, NOTHING),
    ([Era(1, 0)], 100, [Era(1, 0)], 60, 60),
    ([Era(1, 0)], 100, [Era(1, 0)], 100, 100),
    ([Era(1, 0), Era(2, 80)], 120, [Era(1, 0)], 100, 80),
    ([Era(1, 0), Era(2, 80)], 120, [Era(1, 0)], 60, 60),
    ([Era(1, 0), Era(3, 80)], 120, [Era(1, 0), Era(2, 70)], 110, 70),
    ([Era(1, 0), Era(3, 70)], 120, [Era(1, 0), Era(2, 80)], 110, 70),
    ([Era(1, 0), Era(2, 50), Era(3, 80)], 120, [Era(1, 0), Era(3, 80)], 90, 90),
    ([Era(2, 50), Era(3, 80)], 120, [Era(1, 0)], 90, NOTHING),
    ([Era(2, 50), Era(3, 80)], 120, [Era(2, 20)], 90, 80),
    ([Era(0, 0), Era(1, 70)], 120, [Era(0, 0)], 40, 40),
    # Writers: one that is unknown is anybody; epoch 0 may have had several.
    ([Era(1, 0, 7), Era(2, 80, 8)], 120, [Era(1, 0, 7)], 100, 80),
    ([Era(1, 0, 7), Era(2, 80, 8)], 120, [Era(1, 0)], 100, 80),
    ([Era(1, 0, 7)], 120, [Era(1, 0, 9)], 100, NOTHING),
    ([Era(1, 0, 7), Era(2, 80, 8)], 120, [Era(1, 0, 7), Era(2, 80, 9)], 100, NOTHING),
    ([Era(0, 0, 7), Era(1, 70, 8)], 120, [Era(0, 0, 9)], 40, 40),
]


@pytest.mark.parametrize(("ours", "our_end", "theirs", "their_end", "common"), CASES)
def test_the_common_part_ends_where_the_newest_common_epoch_ends_first(
    ours: list[Era], our_end: int, theirs: list[Era], their_end: int, common: int
) -> None:
    assert common_end(ours, our_end, theirs, their_end) == common
    assert common_end(theirs, their_end, ours, our_end) == common


def test_logs_whose_epochs_have_different_writers_are_told_apart() -> None:
    ours = [Era(0, 0, 7), Era(1, 50, 7), Era(2, 80, 8)]
    assert parted_epoch(ours, [Era(0, 0, 9), Era(1, 50, 7), Era(3, 90, 9)]) == 0
    assert parted_epoch(ours, [Era(1, 50), Era(2, 80, 9)]) == 2
    assert parted_epoch([], ours) == parted_epoch(ours, []) == 0


def test_what_proves_another_history_and_what_does_not() -> None:
    last = BatchMark(100, 150, 9)
    assert not is_another(last, last)
    assert not is_another(None, last), "a header that cannot be found proves nothing"
    assert not is_another(BatchMark(50, 100, 3), last), "the header at 100 is damaged"
    assert not is_another(BatchMark(50, 90, 3), last)
    assert is_another(BatchMark(50, 120, 3), last), "another batch has these bytes"
    assert is_another(BatchMark(100, 150, 8), last)
    assert is_another(BatchMark(100, 140, 9), last)
    assert is_inside(BatchMark(50, 120, 3), 110)
    assert not is_inside(BatchMark(50, 120, 3), 120)
    assert not is_inside(BatchMark(50, 90, 3), 110)
    assert not is_inside(None, 110)
