"""What a start has to read and to apply is bounded at every moment at which a node can be killed."""

from __future__ import annotations

import random

import pytest

from domain.message import Message
from domain.record import Record
from domain.store_ports import StateChange
from domain.store_request import KeyQuery
from store import checkpoint
from store.compaction import SLICE_CHANGES
from store.config import StoreConfig
from tests.store.driver import Driver, sure
from tests.store.test_checkpoint import snapshot_now

LEAST = 20_000
"""Bytes of state changes for which a new snapshot is written, in these tests."""
ROUND_BYTES = 3_000
"""Bytes of state changes that a client writes in a round, at most; rounds of a checkpoint's second: at most ROUNDS."""
ROUNDS = 25
CONFIG = StoreConfig(
    segment_bytes=100_000, checkpoint_bytes=1 << 40, checkpoint_ms=1 << 40, retention_ms=20_000, retention_check_ms=1_000,
    cache_bytes=0,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_what_a_start_applies_is_bounded_at_every_moment(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients write state, positions move, retention carries all of it forward: a kill at any moment leaves little to apply."""
    monkeypatch.setattr(checkpoint, "_SNAPSHOT_BYTES_MIN", LEAST)
    monkeypatch.setattr(checkpoint, "SLICE_ITEMS", 40)
    chance = random.Random(seed)
    driver = Driver(CONFIG)
    for number in range(120):
        driver.topic(f"t{number}")
    applied: list[int] = []
    expected: dict[bytes, bytes] = {}
    for _ in range(40):
        for _ in range(chance.randrange(60)):
            key, value = b"%d" % chance.randrange(200), chance.randbytes(chance.randrange(100))
            expected[key] = value
            driver.store.state.put([StateChange("n", key, value)], None)
            places = [(f"t{chance.randrange(120)}", 0, 0) for _ in range(chance.randrange(12))]
            driver.store.positions.commit("g", places, None)
            driver.clock.run_for(chance.choice((0, 5, 5, 300)))
        driver.clock.run_for(10)
        size = max([driver.disk.size(f"snapshot/{name}") for name in driver.disk.names("snapshot")], default=0)
        after = driver.killed()
        recovered = after.store.parts.recovered
        applied.append(recovered.state_bytes)
        assert recovered.state_bytes <= 1.25 * max(LEAST, size) + ROUNDS * ROUND_BYTES
        assert {key: after.store.state.get("n", key) for key in expected} == expected
        if chance.random() < 0.2:
            driver = after
    assert max(applied) > LEAST // 2, "the bound was put to the test"
    assert driver.store.figures()["retention_segments_deleted_total"] > 0 or len(applied) == 40


def test_retention_waits_for_the_checkpoint_when_a_start_would_have_too_much_to_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long values are rows in a snapshot, and whole when retention writes them again: several times as much."""
    monkeypatch.setattr(checkpoint, "_SNAPSHOT_BYTES_MIN", 2_000)
    driver = Driver(CONFIG)
    count = 4_000
    for first in range(0, count, 200):
        driver.append([], [StateChange("n", b"%d" % number, b"%d" % number * 100) for number in range(first, first + 200)])
    parts = driver.store.parts
    parts.commit.roll()
    driver.topic("t")
    snapshot_now(driver)
    sizes: list[tuple[int, int]] = []
    while not parts.retention.copied or parts.retention._running:
        driver.clock.run_for(5)
        behind, last = parts.checkpointer.state_behind, parts.checkpointer.last.snapshot
        sizes.append((behind, driver.disk.size(f"snapshot/{last:020d}")))
    assert max([behind - 1.25 * size for behind, size in sizes]) <= SLICE_CHANGES * 420
    assert parts.retention.deleted
    assert parts.retention.copied >= count
    after = driver.killed()
    assert after.store.state.get("n", b"1234") == b"1234" * 100


def test_a_log_without_keys_is_not_read_again_to_find_none() -> None:
    driver = Driver(StoreConfig(checkpoint_bytes=4_000, checkpoint_ms=1_000, segment_bytes=20_000, cache_bytes=0))
    driver.topic("t")
    for number in range(300):
        driver.send("t", b"%d" % number)
        driver.clock.run_for(50)
        if number == 150:
            driver.append([Message("t", b"kept", b"UNIQ_KEY\x01ID\x02", queue_id=0, message_id="ID")])
    snapshot_now(driver)
    for _ in range(2):
        parts = driver.store.parts
        covered = 0
        for name, _ in parts.keys.files(parts.checkpointer.last.position):
            begin, end = map(int, name.removeprefix("keys/").split("-"))
            assert begin <= covered
            covered = max(covered, end)
        assert parts.checkpointer.last.position - covered < 4_000 // 8, "the runs leave no part out"
        driver = driver.killed()
    query = KeyQuery("t", "ID", 0, 1 << 60, 10, 1 << 20, True)
    [found] = sure(driver.call(driver.store.log.find, query))
    assert Record(found).body == b"kept"
