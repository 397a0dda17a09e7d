"""Keys by their places, whatever places they take and leave."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from domain.lazy_heap import SPARE, LazyHeap


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(-3, 3), st.booleans()), max_size=120))
def test_the_first_is_the_one_with_the_lowest_place(changes: list[tuple[int, bool, int, bool]]) -> None:
    heap: LazyHeap[str] = LazyHeap()
    places: dict[str, tuple[int, int]] = {}
    for number, (at, is_put, rank, numbered) in enumerate(changes):
        key = f"k{at}"
        if is_put:
            places[key] = (rank, number if numbered else 0)
            heap.put(key, *places[key])
        else:
            places.pop(key, None)
            heap.remove(key)
        expected = min(((*place, key) for key, place in places.items()), default=None)
        assert heap.first() == expected
        assert heap.places == places


def test_places_that_were_left_do_not_add_up() -> None:
    heap: LazyHeap[int] = LazyHeap()
    heap.put(-1, -1)
    for number in range(500):
        heap.put(number % 20, 1_000 - number, number)
        assert len(heap._heap) <= 2 * len(heap.places) + SPARE
    for key in range(20):
        heap.remove(key)
        assert len(heap._heap) <= 2 * len(heap.places) + SPARE
    assert heap.first() == (-1, 0, -1)


def test_a_key_that_takes_a_place_again_is_there_once() -> None:
    heap: LazyHeap[object] = LazyHeap()
    one, other = object(), object()
    for rank in (5, 3, 5, 3):
        heap.put(one, rank, 1)
    heap.put(other, 4, 2)
    assert heap.first() == (3, 1, one)
    heap.remove(one)
    assert heap.first() == (4, 2, other)
    heap.remove(other)
    assert heap.first() is None
