"""The newest records in memory: whole batches are kept, and the oldest are forgotten beyond the bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from store.log.recent import TailCache

BATCHES = st.lists(st.lists(st.integers(1, 40), max_size=4), max_size=20)


@given(BATCHES, st.integers(0, 200))
def test_the_cache_holds_the_newest_batches_that_fit(batches: list[list[int]], limit: int) -> None:
    cache = TailCache(limit)
    added: list[tuple[int, dict[int, bytes]]] = []
    position = 0
    for sizes in batches:
        records: dict[int, bytes] = {}
        for size in sizes:
            records[position] = bytes(size)
            position += size
        cache.add(list(records), list(records.values()), sum(sizes))
        added.append((sum(sizes), records))
        kept: dict[int, bytes] = {}
        total = 0
        for bytes_in, newer in reversed(added):
            total += bytes_in
            if total > limit:
                break
            kept |= newer
        assert cache.records == kept
        assert all(place >= cache.first for place in kept)
        assert all(place < cache.first for _, records in added for place in records if place not in kept)
