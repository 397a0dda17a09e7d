"""Messages by key: the index compared with a naive one, through crashes, retention, merges and borders of spans."""

from __future__ import annotations

import random
from array import array
from typing import Any

import pytest

from domain.errors import Failure
from domain.message.message import Message
from domain.message.record import Record
from domain.store.store_event import StoreEventKind
from domain.store.store_request import KeyQuery
from domain.topic.topic import Durability
from store.keys import index, row
from store.keys.index import KeyIndex
from store.keys.merge import Merge
from store.keys.run import RowChunk, Run, open_run
from store.keys.runs import SPAN_BYTES
from store.log import batch
from store.log.segment import Segments
from store.reads.reading import Reading
from store.settings import StoreSettings
from tests.simulation.kit.clock import START_MS, VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.platter import Content
from tests.store.driver import Driver, sure

SMALL = StoreSettings(
    segment_bytes=20_000, checkpoint_bytes=2_000, checkpoint_ms=1_000, tail_rows_max=16, index_segment_bytes=4_096,
    cache_bytes=0,
)  # fmt: skip
FOREVER = (1 << 63) - 1
WORDS = ("red", "blue", "green", "r", "é", "a=b")


def properties(identity: str, keys: str) -> bytes:
    """Stored properties of a message."""
    keyed = f"KEYS\x01{keys}\x02" if keys else ""
    return f"TAGS\x01KEYS\x02XKEYS\x01no\x02UNIQ_KEY\x01{identity}\x02{keyed}".encode()


def find(
    driver: Driver, topic: str, key: str, begin: int = 0, end: int = FOREVER, limit: int = 1_000, unique: bool = False
) -> list[bytes]:
    """Bodies of the messages that the store finds."""
    result: list[bytes] | Failure = driver.call(driver.store.log.find, KeyQuery(topic, key, begin, end, limit, 1 << 30, unique))
    return [Record(record).body for record in sure(result)]


class NaiveIndex:
    """All messages sent, searched one by one."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int, str, str, bytes]] = []

    def send(self, driver: Driver, pick: random.Random) -> None:
        """Some messages in one append."""
        batch: list[tuple[str, str, str, bytes]] = []
        for _ in range(pick.randrange(1, 6)):
            number = len(self.sent) + len(batch)
            keys = " ".join(pick.choices(WORDS, k=pick.randrange(0, 3)))
            batch.append((pick.choice(("t", "u")), f"ID{number}", keys, b"%d" % number))
        placed = sure(
            driver.append(
                [
                    Message(topic, body, properties(identity, keys), queue_id=0, message_id=pick.choice((identity, "")))
                    for topic, identity, keys, body in batch
                ]
            )
        )
        for (topic, identity, keys, body), place in zip(batch, placed, strict=True):
            self.sent.append((topic, place.store_ms, identity, keys, body))

    def find(self, topic: str, key: str, begin: int, end: int, limit: int, unique: bool) -> list[bytes]:
        """Find the same messages by a scan of all."""
        found = [
            body
            for name, ms, identity, keys, body in reversed(self.sent)
            if name == topic and begin <= ms <= end and (identity == key or (not unique and key in keys.split()))
        ]
        return found[:limit]

    def compare(self, driver: Driver, pick: random.Random, count: int) -> None:
        """Compare the answers of both to the same queries."""
        for _ in range(count):
            topic = pick.choice(("t", "u"))
            key = pick.choice((*WORDS, "ID0", f"ID{pick.randrange(len(self.sent) + 1)}", "no", "KEYS", "none"))
            times = sorted(pick.choice(self.sent)[1] + pick.choice((-1, 0, 1)) for _ in range(2)) if self.sent else [0, 0]
            begin, end = pick.choice(((0, FOREVER), (times[0], times[1]), (times[0], FOREVER), (0, times[0])))
            limit, unique = pick.choice((1, 3, 1_000)), pick.random() < 0.3
            asked = (topic, key, begin, end, limit, unique)
            assert find(driver, *asked) == self.find(*asked), asked


@pytest.mark.parametrize("seed", range(12))
def test_the_index_finds_what_a_scan_of_all_messages_finds(seed: int) -> None:
    pick = random.Random(seed)
    driver = Driver.with_topics("t", "u", config=SMALL)
    twin = NaiveIndex()
    for _ in range(60):
        for _ in range(pick.randrange(1, 8)):
            twin.send(driver, pick)
            driver.clock.run_for(pick.choice((0.0, 3.0, 40.0)))
        driver.clock.run_for(pick.choice((0.0, 1_500.0)))
        twin.compare(driver, pick, 4)
        fate = pick.random()
        if fate < 0.08:
            driver = driver.killed()
        elif fate < 0.16:
            driver = driver.powered_off()
        elif fate < 0.24:
            driver = driver.powered_off(lambda name, synced, written: pick.randint(synced, written))
        elif fate < 0.3:
            driver = driver.restarted()
        driver.clock.run_for(10)
    twin.compare(driver, pick, 60)
    figures = driver.store.figures()
    assert 0 < figures["key_runs"] < 16, "runs merge"
    assert figures["key_rows_in_memory"] < 600


def test_a_crash_at_any_write_of_the_index_loses_no_key() -> None:
    def load(driver: Driver) -> int:
        acknowledged = 0
        for number in range(40):
            result = driver.append([Message("t", b"%d" % number, properties(f"ID{number}", "k"), queue_id=0)])
            if isinstance(result, Failure):
                break
            acknowledged += 1
            driver.clock.run_for(300)
        return acknowledged

    whole = Driver(SMALL)
    whole.topic("t", Durability.PAGE)
    begin = sum(size for _, size in whole.disk.writes)
    load(whole)
    assert sum(name.startswith("keys/") for name in whole.disk.files) > 1
    end = sum(size for _, size in whole.disk.writes)
    for torn_at in range(0, end - begin, 97):
        driver = Driver(SMALL)
        driver.topic("t", Durability.PAGE)
        driver.disk.torn_at = torn_at
        acknowledged = load(driver)
        for after in (driver.killed(), driver.killed().restarted()):
            after.clock.run_for(10)
            bodies = after.bodies("t")
            assert len(bodies) >= acknowledged
            assert find(after, "t", "k") == bodies[::-1]
            assert find(after, "t", f"ID{len(bodies) - 1}", unique=True) == bodies[-1:]


def test_lost_or_broken_files_are_rebuilt() -> None:
    driver = Driver.with_topics("t", config=SMALL)
    for number in range(60):
        driver.send("t", b"%d" % number, properties=properties(f"ID{number}", "k"))
        driver.clock.run_for(200)
    expected = [b"%d" % number for number in reversed(range(60))]
    for harm in ("first", "middle", "torn", "all"):
        after = driver.restarted()
        names = sorted(name for name in after.disk.files if name.startswith("keys/"))
        assert len(names) > 3
        if harm == "torn":
            after.disk.files[names[1]] = Content(bytes(after.disk.files[names[1]].data[:-1]))
        for name in {"first": names[:1], "middle": names[1:2], "torn": [], "all": names}[harm]:
            after.disk.remove(name)
        after = after.killed()
        assert find(after, "t", "k") == expected, harm
        after.clock.run_for(3_000)
        assert find(after.restarted(), "t", "k") == expected, harm


def test_retention_deletes_rows_with_their_messages() -> None:
    driver = Driver(StoreSettings(
        retention_ms=60_000, retention_check_ms=1_000, segment_bytes=20_000, checkpoint_ms=5_000, checkpoint_bytes=4_000
    ))  # fmt: skip
    driver.topic("t")
    driver.topic("brief", retention_ms=20_000)
    driver.send("brief", b"gone soon", properties=properties("B", "k"))
    for number in range(200):
        driver.send("t", b"x" * 900, properties=properties(f"ID{number}", "k"))
        driver.clock.run_for(2_000)
    first, end = driver.bounds("t")
    assert first > 100
    assert len(find(driver, "t", "k")) == end - first
    assert find(driver, "t", "ID0") == []
    assert find(driver, "brief", "k") == []
    assert driver.store.figures()["key_runs"] < 40
    oldest = min(int(name[5:25]) for name in driver.disk.files if name.startswith("keys/"))
    assert oldest > 0, "files of what is gone are deleted"
    driver = driver.killed()
    assert len(find(driver, "t", "k")) == end - first


def test_a_deleted_topic_is_not_found_under_its_old_name() -> None:
    driver = Driver.with_topics("t")
    place = driver.send("t", b"old", properties=properties("A", "k"))[0]
    driver.call(driver.store.metadata.delete_topic, "t")
    assert find(driver, "t", "k") == []
    driver.topic("t")
    driver.send("t", b"new", properties=properties("B", "k"))
    for after in (driver, driver.killed()):
        after.clock.run_for(10)
        assert find(after, "t", "k") == [b"new"]
        assert isinstance(after.call(after.store.log.record_at, place.physical_offset), Failure)


def test_messages_that_are_not_readable_yet_are_not_found() -> None:
    driver = Driver.with_topics("t")
    driver.disk.hold_syncs = True
    driver.store.log.append([Message("t", b"x", properties("A", "k"), queue_id=0)], None)
    driver.clock.run_for(50)
    assert find(driver, "t", "k") == []
    driver.disk.release()
    driver.clock.run_for(50)
    assert find(driver, "t", "k") == [b"x"]


def test_an_answer_is_bounded_in_bytes_but_has_at_least_one_message() -> None:
    driver = Driver.with_topics("t")
    for _ in range(3):
        driver.send("t", b"x" * 1_000, properties=properties("A", "k"))
    for most, count in ((1, 1), (2_500, 2), (10_000, 3)):
        result: Any = driver.call(driver.store.log.find, KeyQuery("t", "k", 0, FOREVER, 10, most, False))
        assert len(result) == count


def test_a_message_has_a_bounded_number_of_keys() -> None:
    driver = Driver.with_topics("t")
    driver.send("t", b"x", properties=properties("A", " ".join(f"k{number}" for number in range(1_000))))
    assert driver.store.figures()["key_rows_in_memory"] == row.KEYS_PER_MESSAGE_MAX + 1
    assert find(driver, "t", "k5") == [b"x"]
    assert find(driver, "t", "k500") == []


class BareIndex:
    """A KeyIndex without a store, with messages at chosen positions."""

    def __init__(self, chunk_rows: int) -> None:
        self.clock = VirtualClock(START_MS)
        self.disk = MemoryDisk(self.clock)
        self.errors: list[OSError] = []
        config = StoreSettings(checkpoint_bytes=8_000)
        self.index = KeyIndex(self.disk, self.clock, config, lambda what, error: self.errors.append(error), chunk_rows)
        self.naive: dict[str, list[int]] = {}
        self.end = 0

    def add(self, key: str, count: int, step: int = 100) -> None:
        """Messages with one key, one a batch."""
        for _ in range(count):
            place = self.end
            self.index.add([Message("t", b"", message_id=key)], [place], place // 1_000, place // 1_000, place)
            self.naive.setdefault(key, []).append(place)
            self.end += step

    def checkpoint(self) -> None:
        """Do what a checkpoint does with the index."""
        while not self.index.write_below(self.end):
            self.clock.run_turn()
        done: list[OSError | None] = []
        self.index.runs.sync(done.append)
        self.clock.run_until(lambda: bool(done))
        assert done == [None]
        self.index.runs.checkpointed(self.end)

    def check(self) -> None:
        """Compare the positions of every key, from all sources."""
        for key, expected in self.naive.items():
            hashed, sources = self.index.sources("t", key)
            found: list[int] = []
            for source in sources:
                low, high = source.bound(hashed << 32), source.bound(hashed + 1 << 32)
                start = source.begin // SPAN_BYTES * SPAN_BYTES
                found += [start + (each & row.LOW) for each in reversed(source.rows(low, high - low))]
            assert found == expected[::-1], key


def test_rows_on_both_sides_of_a_span_of_4_gib() -> None:
    loose = BareIndex(chunk_rows=8)
    loose.end = SPAN_BYTES - 1_450
    loose.index._begin = loose.end
    for number in range(40):
        loose.add(f"k{number % 7}", 1)
    loose.check()
    loose.checkpoint()
    loose.check()
    loose.add("k1", 40, step=SPAN_BYTES // 10)
    loose.checkpoint()
    loose.clock.run_for(1_000)
    loose.check()
    spans = {(run.begin // SPAN_BYTES) for run in loose.index.runs.all}
    assert len(spans) == 5
    assert len(loose.index.runs.all) == 5, "complete spans end as one run"
    assert loose.errors == []


def test_one_batch_across_the_border_of_a_span() -> None:
    loose = BareIndex(chunk_rows=8)
    border = SPAN_BYTES
    loose.index._begin = border - 1_000
    places = [border - 200, border - 100, border, border + 100]
    loose.index.add([Message("t", b"", message_id="k")] * 4, places, 1, 1, border - 240)
    loose.naive["k"] = places
    loose.check()
    loose.end = border + 10_000
    loose.checkpoint()
    loose.check()


def test_a_hot_key_and_many_cold_ones_in_long_runs_and_bounded_memory() -> None:
    loose = BareIndex(chunk_rows=64)
    for number in range(3_000):
        loose.add("hot", 5)
        loose.add(f"cold{number}", 1)
        if number % 500 == 0:
            loose.clock.run_for(1_000)
    assert loose.index.memory_rows <= 64 * (2 * index.CHUNKS_MAX + 1)
    loose.checkpoint()
    loose.clock.run_for(5_000)
    assert loose.index.memory_rows < 100
    loose.check()


def test_a_merge_runs_in_slices() -> None:
    clock = VirtualClock(START_MS)
    disk = MemoryDisk(clock)
    pick = random.Random(1)
    rows = [sorted(pick.getrandbits(64) for _ in range(3_000)) for _ in range(9)]
    chunks = [RowChunk(array("Q", part), at, at + 1, at, at) for at, part in enumerate(rows)]
    merge = Merge(disk, chunks)
    steps = 0
    while not merge.step():
        steps += 1
    assert steps > 3
    sizes = [size for _, size in disk.writes]
    assert max(sizes) <= 8_192 * row.ROW_BYTES
    merge.run.file.append(merge.run.footer())
    run = open_run(merge.run.name, merge.run.file)
    assert isinstance(run, Run)
    everything = sorted(each for part in rows for each in part)
    assert list(run.rows(0, run.count)) == everything
    for _ in range(200):
        wanted = pick.choice((pick.getrandbits(64), pick.choice(everything), 0, (1 << 64) - 1))
        assert run.bound(wanted) == sum(each < wanted for each in everything)


def test_a_query_that_reads_only_hash_collisions_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver.with_topics("t")
    driver.append([Message("t", b"x", properties(f"ID{number}", ""), queue_id=0) for number in range(2_000)])
    places = [Record(record).physical_offset for record in driver.read("t", limit=2_000).records]
    hashed = row.hash_of("unknown", row.seed_of("t"))
    strangers = array("Q", [hashed << 32 | place for place in places])
    driver.store.parts.keys._chunks.append(RowChunk(strangers, 0, places[-1] + 1, 0, FOREVER))
    reads: list[int] = []
    at = Reading.at

    def counted(self: Reading, position: int) -> bytes | Failure:
        reads.append(position)
        return at(self, position)

    monkeypatch.setattr(Reading, "at", counted)
    assert find(driver, "t", "unknown") == []
    assert len(reads) == 1_024


def test_an_empty_log_has_no_keys() -> None:
    disk = MemoryDisk(VirtualClock(START_MS))
    keys = KeyIndex(disk, VirtualClock(START_MS), StoreSettings(), lambda what, error: None)
    segments = Segments(disk, "log")
    keys.load(0, segments, segments.end)
    assert (keys.memory_rows, keys.runs.all) == (0, [])


def test_a_damaged_run_costs_a_search_an_error_and_is_built_again_at_the_next_start() -> None:
    driver = Driver.with_topics("t", config=SMALL)
    for number in range(40):
        driver.send("t", b"%d" % number, properties=properties(f"id{number}", "red"))
        driver.clock.run_for(300)
    driver.clock.run_for(3_000)
    name = min(name for name in driver.disk.files if name.startswith("keys/"))
    driver.disk.files[name].data[0] ^= 1
    refused = driver.call(driver.store.log.find, KeyQuery("t", "red", 0, FOREVER, 1_000, 1 << 30, False))
    assert isinstance(refused, Failure)
    assert "damaged" in refused.text
    assert find(driver, "t", "red", limit=1) == [b"39"], "the other runs are searched"
    driver.clock.run_for(1_100)
    assert name not in driver.disk.files
    after = driver.killed()
    after.clock.run_for(10)
    assert find(after, "t", "red") == [b"%d" % number for number in reversed(range(40))]


@pytest.mark.parametrize("behind", [-batch.HEADER_BYTES, 100], ids=["header", "record"])
@pytest.mark.parametrize("number", [0, 8])
def test_an_index_that_is_built_again_steps_over_a_damaged_batch_and_tells_it(number: int, behind: int) -> None:
    driver = Driver.with_topics("t", config=SMALL)
    positions = []
    for each in range(60):
        [placed] = driver.send("t", b"%d" % each + bytes(700), properties=properties(f"id{each}", "red"))
        positions.append(placed.physical_offset)
        driver.clock.run_for(200)
    for _ in range(2):
        driver.checkpoint()  # a start reads the log only from the older snapshot on
        driver.clock.run_for(3_000)
    stored = [find(driver, "t", f"id{each}", unique=True) for each in range(60)]
    disk = driver.killed().disk
    logs = sorted(name for name in disk.files if name.startswith("log/"))
    assert len(logs) > 2
    disk.flip(logs[0], positions[number] + behind)
    for name in [name for name in disk.files if name.startswith("keys/")]:
        disk.remove(name)
    driver.disk = disk
    after = driver.killed()
    found = [find(after, "t", f"id{each}", unique=True) for each in range(60)]
    assert sum("not found by key" in event.cause for event in after.notified(StoreEventKind.DAMAGED)) == 1
    missing = [each for each in range(60) if found[each] != stored[each]]
    in_segment = [each for each in range(number, 60) if positions[each] < len(disk.files[logs[0]].data)]
    assert missing == ([number] if behind > 0 else in_segment), "without the header, the rest of the segment"
