"""Long state values: they stay in the log, memory holds a row, retention writes them again, recovery finds them."""

from __future__ import annotations

import pytest

from domain.errors import StoreError
from domain.store.store_ports import StateChange
from store.state import rows
from store.state.change import LONG_VALUE_BYTES
from store.state.rows import RowCounts
from store.state.view import StateView
from tests.store.deletion.test_retention import MINUTE, fill
from tests.store.driver import Driver
from tests.stored_state import pairs


def long(number: int) -> bytes:
    return b"%d" % number * LONG_VALUE_BYTES


def put(driver: Driver, **values: bytes | None) -> None:
    driver.store.state.put([StateChange("latest", key.encode(), value) for key, value in values.items()], None)
    driver.clock.run_for(300)


def held(driver: Driver) -> dict[bytes, bytes]:
    return dict(pairs(driver.store.state, "latest", b""))


def test_retention_writes_long_values_again_and_they_survive_restarts() -> None:
    driver = Driver.with_topics("noise", config=MINUTE)
    put(driver, a=long(1), b=long(2), c=long(3), short=b"s")
    put(driver, b=long(4), c=None)
    wanted = {b"a": long(1), b"b": long(4), b"short": b"s"}
    for again in ("killed", "restarted", "powered_off"):
        fill(driver, "noise", 4)
        assert driver.store.figures()["retention_segments_deleted_total"] > 3
        assert held(driver) == wanted
        driver = getattr(driver, again)()
        assert held(driver) == wanted
    put(driver, a=b"now short", short=long(5))
    driver = driver.killed_to_its_log()
    assert held(driver) == {b"a": b"now short", b"b": long(4), b"short": long(5)}, "the log alone has all that is needed"
    assert driver.call(driver.store.state.size, "latest") == (
        3,
        sum(len(key) + len(value) for key, value in held(driver).items()),
    )


def test_memory_holds_one_row_for_each_long_value() -> None:
    asked: list[tuple[int, int]] = []

    def read(position: int, size: int) -> bytes:
        asked.append((position, size))
        return b"v" * (size if position == 5_000 else 3)

    view = StateView()
    view.connect(read)
    view.apply(StateChange("latest", b"k", b"v" * 300, 5_000), 4_096)
    view.apply(StateChange("latest", b"gone", b"v" * 300, 9_000), 8_192)
    assert asked == []
    assert view.get("latest", b"k") == b"v" * 300
    assert asked == [(5_000, 300)]
    assert [change.key for found in view.anchored_below(8_192) for change in found] == [b"k"]
    assert [(base, item.key) for found in view.snapshot() for base, item, _ in found or ()] == [(4_096, b"k"), (8_192, b"gone")]
    with pytest.raises(StoreError):
        view.get("latest", b"gone")
    view.apply(StateChange("latest", b"gone", None), 8_192)
    assert (view.count(), view.size("latest")) == (1, (1, 301))


def test_a_slice_of_the_keys_begins_at_a_key_and_is_bounded() -> None:
    view = StateView()
    for number in range(10):
        view.apply(StateChange("latest", b"a/%d" % number, b"v"), 0)
    view.apply(StateChange("latest", b"b", b"v"), 0)
    assert view.keys("latest", b"a/", b"", 3) == [b"a/0", b"a/1", b"a/2"]
    assert view.keys("latest", b"a/", b"a/8\x00", 3) == [b"a/9"]
    assert view.keys("nothing", b"", b"", 3) == []


def test_rows_are_counted_by_segment() -> None:
    counts = RowCounts()
    for base in (0, 0, 100, 200):
        counts.add(base)
    assert (counts.base_of(99), counts.base_of(199), counts.base_of(1_000)) == (0, 100, 200)
    counts.remove(50)
    counts.remove(60)
    assert (counts.any_below(100), counts.any_below(101), counts.total) == (False, True, 2)
    assert rows.unpack(rows.pack(1 << 45, 77)) == (1 << 45, 77)
