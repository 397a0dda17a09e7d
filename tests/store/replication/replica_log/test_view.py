"""What a follower serves: what is confirmed, and nothing else."""

from __future__ import annotations

from domain.errors import ErrorCode, Failure
from domain.message.record import Record
from domain.replication.reads import FollowerReads
from domain.store.store_ports import ReadResult, StateChange
from domain.store.store_request import ReadRequest
from tests.store.driver import code_of
from tests.store.replication.replica_log.pair import Leading, Pair, anew, apply_all


def end_of(reads: FollowerReads) -> int:
    """The end of queue 0 of `orders`."""
    found: list[tuple[int, int] | Failure] = []
    reads.log.bounds("orders", 0, found.append)
    assert not isinstance(found[0], Failure)
    return found[0][1]


def read(reads: FollowerReads, offset: int = 0) -> ReadResult | Failure:
    """Records of queue 0 of `orders`."""
    found: list[ReadResult | Failure] = []
    reads.log.read(ReadRequest("orders", 0, offset, 1_000, 1 << 20), found.append)
    return found[0]


def bodies(reads: FollowerReads) -> list[bytes]:
    """All messages of queue 0 of `orders`."""
    found: list[bytes] = []
    while len(found) < end_of(reads):
        result = read(reads, len(found))
        assert isinstance(result, ReadResult)
        assert result.status == "FOUND"
        found += [Record(each).body for each in result.records]
    return found


def test_a_follower_serves_what_is_confirmed_and_nothing_above() -> None:
    two = Pair(120)
    expected = two.bodies()
    two.ship()
    reads = two.follower.reads
    assert end_of(reads) == 0
    assert reads.metadata.topic("orders") is None
    served = 0
    for confirmed in range(0, two.follower.written + 1, two.follower.written // 8):
        apply_all(two.follower, two.clock, confirmed)
        found = bodies(reads)
        assert found == expected[: len(found)]
        assert len(found) >= served
        served = len(found)
        for each in found:
            assert each in expected
        result = read(reads, 0)
        if served:
            assert isinstance(result, ReadResult)
            ends = [Record(data).physical_offset + len(data) for data in result.records]
            assert max(ends) <= confirmed
    apply_all(two.follower, two.clock, two.follower.written)
    assert bodies(reads) == expected
    assert reads.metadata.topic("orders") is not None


def test_records_are_found_by_position_up_to_the_confirmed_one() -> None:
    two = Pair(40)
    two.catch_up()
    first = read(two.follower.reads)
    assert isinstance(first, ReadResult)
    two.send(1)
    two.ship()
    place = Record(first.records[-1]).physical_offset
    found: list[bytes | Failure] = []
    two.follower.reads.log.record_at(place, found.append)
    assert found == [first.records[-1]]
    unconfirmed = next(at for at in range(two.follower.applied, two.follower.written) if _begins(two, at))
    two.follower.reads.log.record_at(unconfirmed, found.append)
    assert isinstance(found[-1], Failure)
    assert found[-1].code is ErrorCode.MESSAGE_NOT_FOUND


def _begins(two: Pair, position: int) -> bool:
    """True when a message of the leader begins at a position."""
    found: list[bytes | Failure] = []
    two.leader.driver.store.log.record_at(position, found.append)
    return isinstance(found[0], bytes)


def test_a_follower_serves_behind_a_segment_that_was_deleted() -> None:
    two = Pair(120)
    two.catch_up()
    two.follower.drop_before(two.follower.written)
    two.clock.run_for(10_000)
    assert two.follower.first > 0
    result = read(two.follower.reads, 0)
    assert isinstance(result, ReadResult)
    assert result.status == "TOO_SMALL"
    again = read(two.follower.reads, result.next_offset)
    assert isinstance(again, ReadResult)
    assert again.records


def test_nothing_is_served_once_the_replica_is_promoted_or_begins_anew() -> None:
    two = Pair(20)
    two.ship()
    before = two.follower.reads
    Leading(two.follower, two.disk, two.clock, 2)
    assert isinstance(read(before), Failure), "what a promotion applies is not confirmed yet"
    other = Pair()
    old = other.follower.reads
    anew(other.follower, 0, 77)
    assert isinstance(read(old), Failure)
    assert isinstance(read(other.follower.reads), ReadResult)


def test_a_follower_changes_nothing() -> None:
    two = Pair()
    answers: list[None | Failure] = []
    two.follower.reads.state.put([StateChange("users", b"a", b"b")], answers.append)
    assert code_of(answers[0]) is ErrorCode.STORE_UNAVAILABLE
