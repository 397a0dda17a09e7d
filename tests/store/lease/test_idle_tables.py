"""The rows of lease tables: sorted, found, taken by prefix, and written and read as columns."""

from __future__ import annotations

import random
from array import array

from store.lease import idle_tables
from store.lease.idle_tables import CHUNK_ROWS, LIVE, Chunk, IdleTables

Fact = tuple[int, int, int, bool]


def fact(found: IdleTables, key: bytes) -> Fact:
    place = found.find(key)
    return found.floor(place), found.pop_ms(place), found.base(place), found.ordered(place)


def walk(found: IdleTables) -> list[Chunk]:
    chunks: list[Chunk] = []
    chunk = found.after(b"")
    while chunk is not None:
        chunks.append(chunk)
        chunk = found.after(chunk.keys[-1])
    return chunks


def test_rows_are_what_was_put_and_not_removed() -> None:
    chance = random.Random(5)
    for most in (20, 3_000):
        found, naive = IdleTables(), dict[bytes, Fact]()
        for _ in range(4_000):
            key = b"t%05d" % chance.randrange(most)
            if chance.random() < 0.3:
                assert found.remove(key) is (naive.pop(key, None) is not None)
            else:
                facts = (chance.randrange(1 << 62), chance.randrange(1 << 45), chance.randrange(1 << 60), chance.random() < 0.5)
                found.put(key, *facts)
                naive[key] = facts
        assert found.count == len(naive)
        assert [key for chunk in walk(found) for key in chunk.keys] == sorted(naive)
        assert {key: fact(found, key) for key in naive} == naive
        assert found.find(b"u") == found.find(b"") == -1
        assert all(len(chunk.keys) <= CHUNK_ROWS for chunk in walk(found))
        prefix = b"t00%d" % chance.randrange(3)
        taken = [key for chunk in found.take(prefix) for key in chunk.keys]
        assert taken == sorted(key for key in naive if key.startswith(prefix))
        assert [key for chunk in walk(found) for key in chunk.keys] == sorted(naive.keys() - set(taken))
        assert found.count == len(naive) - len(taken)


def test_keys_in_order_fill_their_chunks() -> None:
    found = IdleTables()
    for number in range(4 * CHUNK_ROWS):
        found.put(b"%06d" % number, number, 0, 0, False)
    assert [len(chunk.keys) for chunk in walk(found)] == [CHUNK_ROWS] * 4


def test_rows_come_back_from_a_frame_and_live_ones_are_left_out() -> None:
    found = IdleTables()
    for number in range(3 * CHUNK_ROWS):
        found.put(b"%06d" % number, LIVE if number % 100 == 7 else number, 1_000 + number, number // 9, number % 2 == 1)
    loaded = IdleTables()
    for chunk in walk(found):
        loaded.load(idle_tables.decode(chunk.idle().encode()))
    idle = [number for number in range(3 * CHUNK_ROWS) if number % 100 != 7]
    assert loaded.count == len(idle)
    for number in idle:
        assert fact(loaded, b"%06d" % number) == (number, 1_000 + number, number // 9, number % 2 == 1)
    for number in (7, 107):
        assert loaded.find(b"%06d" % number) == -1
    assert idle_tables.decode(Chunk([], *[array("q") for _ in range(3)]).encode()).keys == []


def test_a_frame_that_is_not_behind_all_rows_is_loaded_too() -> None:
    found, other = IdleTables(), IdleTables()
    for number in range(100):
        (found if number % 2 else other).put(b"%03d" % number, number, 0, 0, False)
    for chunk in walk(other):
        found.load(chunk)
    assert [key for chunk in walk(found) for key in chunk.keys] == [b"%03d" % number for number in range(100)]
