"""Values of lease tables that recovery reads: what is left at the end is what the values say one after the other."""

from __future__ import annotations

import random

import pytest

from store.lease import journal
from store.lease.replay import WAITING_MAX, LeaseReplay
from store.lease.table import LeaseTable
from store.lease.tables import LeaseTables
from store.settings import StoreSettings
from tests.store.driver import Driver

PLACE = ("g", "t", 0)
KEY = journal.key(*PLACE)


def replay() -> tuple[LeaseReplay, LeaseTables]:
    """A replay, and the tables that it makes."""
    ledger = Driver(StoreSettings()).store.parts.ledger
    return ledger.replay, ledger.tables


def change(table: LeaseTable, chance: random.Random) -> None:
    """Lease, settle, free or commit something."""
    kind, now = chance.randrange(8), table.pop_ms + chance.randrange(1, 500)
    held = [offset for offset, lease in table.leases.items() if not lease.free]
    if kind < 4:
        pop_ms = table.next_pop_ms(now)
        for _ in range(chance.randrange(1, 4)):
            table.lease(table.head, pop_ms, pop_ms + chance.randrange(1, 5_000))
        if chance.random() < 0.3:
            table.remember_attempt(f"a{chance.randrange(5)}")
    elif kind < 7 and held:
        for offset in held if kind == 6 else [chance.choice(held)]:
            table.settle(offset, table.leases[offset].pop_ms)
    elif kind == 7:
        table.commit(chance.randrange(max(table.floor - 1, 0), table.head + 2))


@pytest.mark.parametrize("seed", range(40))
def test_a_table_is_what_its_values_say_one_after_the_other(seed: int) -> None:
    chance = random.Random(seed)
    ours, tables = replay()
    written, expected = LeaseTable(*PLACE, 0), LeaseTable(*PLACE, 0)
    for _ in range(chance.choice((3, 30, 300))):
        change(written, chance)
        value = journal.changed_value(written)[0]
        journal.apply(expected, value)
        ours.put(KEY, value, 0)
    ours.finish()
    if journal.is_idle(expected):
        assert PLACE not in tables.live
        assert tables.floor(PLACE) == expected.floor
    else:
        assert journal.whole_value(tables.live[PLACE]) == journal.whole_value(expected)


def test_a_table_that_is_settled_later_is_never_made_live() -> None:
    ours, tables = replay()
    for number in range(1_000):
        table = LeaseTable("g", "t", number, 0)
        table.lease(0, 1_000, 2_000)
        ours.put(journal.key("g", "t", number), journal.changed_value(table)[0], 0)
        table.settle(0, 1_000)
        ours.put(journal.key("g", "t", number), journal.changed_value(table)[0], 0)
        assert len(tables.live) == 0
    ours.finish()
    assert (len(tables.live), len(tables), tables.floor(("g", "t", 999))) == (0, 1_000, 1)


def test_a_bounded_number_of_values_of_a_table_wait() -> None:
    ours, tables = replay()
    table = LeaseTable(*PLACE, 0)
    for number in range(10 * WAITING_MAX):
        table.lease(table.head, 1_000 + number, 2_000 + number)
        ours.put(KEY, journal.changed_value(table)[0], 0)
        assert len(ours._waiting[KEY]) <= WAITING_MAX
    ours.finish()
    assert journal.whole_value(tables.live[PLACE]) == journal.whole_value(table)


@pytest.mark.parametrize("key", [KEY, b"t\x00"])
def test_a_removed_table_does_not_come_back_and_others_stay(key: bytes) -> None:
    ours, tables = replay()
    table = LeaseTable(*PLACE, 0)
    table.lease(0, 1_000, 2_000)
    value = journal.whole_value(table)
    ours.put(KEY, value, 0)
    ours.put(journal.key("g", "u", 0), value, 0)
    ours.remove(key)
    ours.finish()
    assert tables.places() == [("g", "u", 0)]
