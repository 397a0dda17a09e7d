"""A promotion that another election overtakes: what only this replica has is no part of a checkpoint, so that it can be cut."""

from __future__ import annotations

import pytest

from gateway.cluster.replica import promoting_state
from gateway.cluster.replica.promoting_state import PromotingState
from tests.store.replication.replica_log.pair import Leading, Pair, opened


def half_confirmed() -> tuple[Pair, int]:
    """A replica that has a log of which a part is confirmed, and the end of that part."""
    two = Pair(40)
    two.ship()
    confirmed = two.follower.behind
    two.follower.confirm(confirmed)
    two.clock.run_for(3_000)
    two.send(100)
    two.ship()
    assert two.follower.applied == confirmed
    assert two.follower.written > confirmed + 5_000
    return two, confirmed


@pytest.mark.parametrize("at_once", [1 << 20, 100])
def test_no_checkpoint_is_written_while_a_replica_is_promoted(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its disk is slow, so that it takes seconds."""
    monkeypatch.setattr(promoting_state, "APPLY_AT_ONCE_BYTES", at_once)
    two, confirmed = half_confirmed()
    ready: list[str] = []
    PromotingState(two.follower, two.clock).start(lambda: ready.append("ready"), ready.append)
    two.clock.run_for(10_000)
    assert ready == ["ready"]
    disk = two.disk.killed(two.clock)
    again = opened(disk, two.clock)
    assert again.applied <= confirmed
    cut: list[int] = []
    again.cut(confirmed, lambda: cut.append(1))
    two.clock.run_for(1_000)
    assert cut
    assert (again.written, again.first) == (confirmed, 0), "nothing else is given up"


@pytest.mark.parametrize("turns", range(0, 40, 3))
def test_a_checkpoint_under_way_ends_with_the_promotion(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever step it is at: what it would cover later may not be confirmed."""
    monkeypatch.setattr(promoting_state, "APPLY_AT_ONCE_BYTES", 100)
    two, confirmed = half_confirmed()
    two.follower._checkpointer.begin(True)
    for _ in range(turns):
        two.clock.run_for(1)
    PromotingState(two.follower, two.clock).start(lambda: None, lambda _: None)
    two.clock.run_for(100)
    Leading(two.follower, two.disk, two.clock, 2)
    two.clock.run_for(10_000)
    again = opened(two.disk.killed(two.clock), two.clock)
    assert again.applied <= confirmed


def test_a_leader_writes_checkpoints_again() -> None:
    two, confirmed = half_confirmed()
    two.follower._checkpointer.begin(True)
    PromotingState(two.follower, two.clock).start(lambda: None, lambda _: None)
    two.clock.run_for(100)
    Leading(two.follower, two.disk, two.clock, 2).alone()
    two.clock.run_for(10_000)
    assert opened(two.disk.killed(two.clock), two.clock).applied > confirmed
