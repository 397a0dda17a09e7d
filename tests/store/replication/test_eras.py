"""How far two logs are the same."""

from __future__ import annotations

import pytest

from domain.replication.message import Era
from store.replication.replica_log.eras import NOTHING, common_end

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
]


@pytest.mark.parametrize(("ours", "our_end", "theirs", "their_end", "common"), CASES)
def test_the_common_part_ends_where_the_newest_common_epoch_ends_first(
    ours: list[Era], our_end: int, theirs: list[Era], their_end: int, common: int
) -> None:
    assert common_end(ours, our_end, theirs, their_end) == common
    assert common_end(theirs, their_end, ours, our_end) == common
