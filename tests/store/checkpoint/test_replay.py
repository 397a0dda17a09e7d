"""What a start has to read and to apply is bounded at every moment at which a node can be killed."""

from __future__ import annotations

import random
import re
from typing import cast

import pytest

from domain.message.message import Message
from domain.message.record import Record
from domain.store.store_ports import StateChange
from domain.store.store_request import KeyQuery
from domain.topic.topic import Group, Topic
from store.appends.effects import StateEffects
from store.checkpoint import checkpointer
from store.deletion.compaction import SLICE_CHANGES
from store.lease import journal
from store.lease.table import LeaseTable
from store.queue.settings import created_at
from store.settings import StoreSettings
from store.state import change
from store.state.metadata import Catalogue, encode_group, encode_topic
from tests.store.driver import Driver, sure
from tests.stored_state import value_of

LEAST = 20_000
"""Bytes of state changes for which a new snapshot is written, in these tests."""
ROUND_BYTES = 3_000
"""Bytes of state changes that a client writes in a round, at most; rounds of a checkpoint's second: at most ROUNDS."""
ROUNDS = 25
CONFIG = StoreSettings(
    segment_bytes=100_000, checkpoint_bytes=1 << 40, checkpoint_ms=1 << 40, retention_ms=20_000, retention_check_ms=1_000,
    cache_bytes=0,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_what_a_start_applies_is_bounded_at_every_moment(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients write state, positions move, retention carries all of it forward: a kill at any moment leaves little to apply."""
    monkeypatch.setattr(checkpointer, "_SNAPSHOT_BYTES_MIN", LEAST)
    monkeypatch.setattr(checkpointer, "SLICE_ITEMS", 40)
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
        assert {key: value_of(after.store.state, "n", key) for key in expected} == expected
        if chance.random() < 0.2:
            driver = after
    assert max(applied) > LEAST // 2, "the bound was put to the test"
    assert driver.store.figures()["retention_segments_deleted_total"] > 0 or len(applied) == 40


def test_retention_waits_for_the_checkpoint_when_a_start_would_have_too_much_to_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long values are rows in a snapshot, and whole when retention writes them again: several times as much."""
    monkeypatch.setattr(checkpointer, "_SNAPSHOT_BYTES_MIN", 2_000)
    driver = Driver(CONFIG)
    count = 4_000
    for first in range(0, count, 200):
        driver.append([], [StateChange("n", b"%d" % number, b"%d" % number * 100) for number in range(first, first + 200)])
    parts = driver.store.parts
    parts.commit.accepted.roll()
    driver.topic("t")
    driver.checkpoint()
    sizes: list[tuple[int, int]] = []
    while not parts.retention.copied or parts.retention._running:
        driver.clock.run_for(5)
        behind, last = parts.checkpointer.state_behind, parts.checkpointer.last.snapshot
        sizes.append((behind, driver.disk.size(f"snapshot/{last:020d}")))
    assert max([behind - 1.25 * size for behind, size in sizes]) <= SLICE_CHANGES * 420
    assert parts.retention.deleted
    assert parts.retention.copied >= count
    after = driver.killed()
    assert value_of(after.store.state, "n", b"1234") == b"1234" * 100


def test_a_log_without_keys_is_not_read_again_to_find_none() -> None:
    driver = Driver(StoreSettings(checkpoint_bytes=4_000, checkpoint_ms=1_000, segment_bytes=20_000, cache_bytes=0))
    driver.topic("t")
    for number in range(300):
        driver.send("t", b"%d" % number)
        driver.clock.run_for(50)
        if number == 150:
            driver.append([Message("t", b"kept", b"UNIQ_KEY\x01ID\x02", queue_id=0, message_id="ID")])
    driver.checkpoint()
    for _ in range(2):
        parts = driver.store.parts
        covered = 0
        for name, _ in parts.keys.runs.files(parts.checkpointer.last.position):
            begin, end = map(int, name.removeprefix("keys/").split("-"))
            assert begin <= covered
            covered = max(covered, end)
        assert parts.checkpointer.last.position - covered < 4_000 // 8, "the runs leave no part out"
        driver = driver.killed()
    query = KeyQuery("t", "ID", 0, 1 << 60, 10, 1 << 20, True)
    [found] = sure(driver.call(driver.store.log.find, query))
    assert Record(found).body == b"kept"


SPACES = ("@topic", "@group", "@lease", "@empty", "@dropped", "n", "session")


def random_changes(chance: random.Random) -> list[StateChange]:
    """Changes as a log may have them, long values and removals among them."""
    found: list[StateChange] = []
    for _ in range(chance.randrange(1, 30)):
        space, number = chance.choice(SPACES), chance.randrange(6)
        key, value = b"k%d" % number, chance.choice((b"", b"v", b"w" * 159, b"x" * 160, b"y" * 70_000))
        if space == "@topic":
            key, value = b"t%d" % number, encode_topic(Topic(f"t{number}", 1, 1, created_ms=chance.randrange(3)))
        elif space == "@group":
            key, value = b"g%d" % number, encode_group(Group(f"g{number}"))
        elif space == "@lease":
            key, value = journal.key("g", f"t{number}", 0), journal.idle_value(chance.randrange(9), 5, chance.random() < 0.5)
            if chance.random() < 0.3:
                table = LeaseTable("g", f"t{number}", 0, 0)
                table.head = 4
                table.settled.add(1, 3)
                value = journal.whole_value(table)
        elif space == "@empty":
            key, value = b"t%d\x000" % number, b"%d" % chance.randrange(9)
        elif space == "@dropped":
            key, value = b"t%d" % number, b"%d 0" % chance.randrange(5)
        found.append(StateChange(space, key, None if chance.random() < 0.2 else value))
    return found


def test_tables_whose_messages_were_settled_behind_the_checkpoint_are_idle_and_others_live() -> None:
    driver = Driver(CONFIG)
    for number in range(50):
        driver.topic(f"t{number}")
        driver.send(f"t{number}", b"1", b"2")
        driver.settle("g", f"t{number}", *driver.lease("g", f"t{number}").messages)
    driver.send("t7", b"3")
    held = driver.lease("g", "t7").messages
    assert len(held) == 1
    parts = driver.store.parts
    places = parts.ledger.tables.places()
    floors = [parts.ledger.tables.floor(place) for place in places]
    tables = driver.killed().store.parts.ledger.tables
    assert [place for place in places if place in tables.live] == [("g", "t7", 0)]
    assert [tables.floor(place) for place in places] == floors


def content(driver: Driver) -> list[object]:
    parts = driver.store.parts
    found: list[object] = [driver.store.metadata.topics(), driver.store.metadata.groups(), parts.state.bytes]
    found += [(place, parts.ledger.tables.floor(place)) for place in parts.ledger.tables.places()]
    for name in SPACES:
        for key in parts.state.keys(name, b"", b"", 1_000):
            value = parts.state._spaces[name].values.get(key)
            found.append((name, key, value, -1 if isinstance(value, int) else parts.state._spaces[name].values.anchor(key)))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_the_body_of_a_state_record_is_applied_as_its_changes_are(seed: int) -> None:
    chance = random.Random(seed)
    one, other = Driver(CONFIG), Driver(CONFIG)
    effects = [
        StateEffects(driver.store.parts.state, cast(Catalogue, driver.store.metadata), driver.store.parts.index, parts.ledger)
        for driver in (one, other)
        if (parts := driver.store.parts)
    ]
    for _ in range(6):
        changes = random_changes(chance)
        body, position = change.encode(changes), chance.choice((-1, 4_096))
        of_topics = ("@topic", "@dropped")
        items = list(change.decode(body, position))
        for item in [item for item in items if item.space in of_topics] + [
            item for item in items if item.space not in of_topics
        ]:
            effects[0].recovered(item, 0)
        effects[1].replay(body, position, 0, True, False)
        effects[1].replay(body, position, 0, False, True)
    for driver in (one, other):
        driver.store.parts.ledger.replay.finish()
    assert content(one) == content(other)


@pytest.mark.parametrize(
    "value",
    [
        b'{"created_ms":12}', b'{"a":1,"created_ms":7,"z":2}', b"{}", b"", b'{"created_ms":}', b'{"created_ms":5x}',
        b'{"created_ms":5', b'"created_ms":5}', b'{"a":"\\"created_ms\\":5,"}', b'x"created_ms":1,{"created_ms":22}',
        b'{"attributes":{"created_ms":"7"},"created_ms":9}',
    ],
)  # fmt: skip
def test_the_time_of_creation_is_found_as_an_expression_finds_it(value: bytes) -> None:
    found = re.search(rb'(?<=[{,])"created_ms":([0-9]+)(?=[,}])', value)
    assert created_at(value) == ((0, 0) if found is None else found.span(1))
