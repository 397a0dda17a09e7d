"""Users and policies in memory follow what the store keeps."""

from __future__ import annotations

from domain.access.access import User
from gateway.access.records import AccessRecords
from tests.stored_state import memory_state


def put(records: AccessRecords, name: str, password: str, enabled: bool = True) -> None:
    records.put_user(User(name, password, enabled=enabled), lambda _: None)


def test_the_generation_of_a_password_is_the_same_on_every_node() -> None:
    """A principal that a gateway has checked is checked again by the store."""
    here, there = AccessRecords(memory_state()), AccessRecords(memory_state())
    put(there, "bob", "other")
    put(there, "ann", "secret")
    put(here, "ann", "secret")
    assert here.generation("ann") == there.generation("ann")
    assert 0 < here.generation("ann") < 1 << 63


def test_the_generation_changes_with_the_password_only() -> None:
    records = AccessRecords(memory_state())
    put(records, "ann", "secret")
    put(records, "bob", "secret")
    first = records.generation("ann")
    assert records.generation("bob") != first
    put(records, "ann", "secret", enabled=False)
    assert records.generation("ann") == first
    put(records, "ann", "changed")
    assert records.generation("ann") != first
    records.drop_user("ann", lambda _: None)
    assert records.generation("ann") == 0
