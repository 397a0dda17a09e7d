"""A group of controllers begins once, whatever order they start in and whoever lost its directory."""

from __future__ import annotations

import itertools

import pytest

from controller.member.founding import Founding
from controller.member.identity import MemberIdentity, load, store
from controller.member.replacement import MemberChange, replacement
from controller.raft.configuration import Configuration
from domain.errors import StoreError
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import SeededEntropy

ADDRESSES = ("a:1", "b:1", "c:1")


class Round:
    """Controllers that greet each other. `up`: those that answer."""

    def __init__(self) -> None:
        self.each = {address: Founding(MemberIdentity(number), ADDRESSES) for number, address in enumerate(ADDRESSES, 1)}
        self.up = set(ADDRESSES)

    def wipe(self, address: str, node: int) -> None:
        """A controller loses its directory."""
        self.each[address] = Founding(MemberIdentity(node), ADDRESSES)

    def greet(self, asker: str) -> None:
        """One controller asks all."""
        for address in ADDRESSES:
            if address in self.up:
                self.each[address].notified(self.each[asker].identity)
                self.each[asker].heard(address, self.each[address].identity)
            else:
                self.each[asker].silent(address)

    def founders(self) -> list[frozenset[int]]:
        return [self.each[address].identity.founders for address in ADDRESSES]


@pytest.mark.parametrize("order", list(itertools.permutations(ADDRESSES)))
def test_all_have_the_same_founders_in_whatever_order_they_greet(order: tuple[str, ...]) -> None:
    found = Round()
    for asker in order * 3:
        found.greet(asker)
    assert found.founders() == [frozenset({1, 2, 3})] * 3
    assert all(each.is_founder for each in found.each.values())
    assert found.each["b:1"].address == "b:1"
    assert found.each["b:1"].address_of(3) == "c:1"


@pytest.mark.parametrize("away", ADDRESSES)
def test_nobody_founds_while_one_is_away(away: str) -> None:
    found = Round()
    found.up.discard(away)
    for asker in [each for each in ADDRESSES if each != away] * 3:
        found.greet(asker)
    assert found.founders() == [frozenset()] * 3
    assert all(each.missing == [away] for address, each in found.each.items() if address != away)


@pytest.mark.parametrize("wiped", ADDRESSES)
@pytest.mark.parametrize("away", [None, *ADDRESSES])
def test_who_lost_its_directory_founds_no_second_group(wiped: str, away: str | None) -> None:
    found = Round()
    for asker in ADDRESSES * 2:
        found.greet(asker)
    found.wipe(wiped, 99)
    found.up = {each for each in ADDRESSES if each != away}
    for asker in [each for each in ADDRESSES if each in found.up] * 3:
        found.greet(asker)
    assert found.each[wiped].identity.founders in (frozenset(), frozenset({1, 2, 3}))
    assert not found.each[wiped].is_founder


def test_two_addresses_of_one_controller_are_no_group() -> None:
    one = Founding(MemberIdentity(1), ("a:1", "b:1"))
    assert one.heard("a:1", MemberIdentity(1)) == frozenset()
    assert one.heard("b:1", MemberIdentity(1)) == frozenset()


def test_a_single_controller_founds_its_group() -> None:
    one = Founding(MemberIdentity(7), ("a:1",))
    assert one.heard("a:1", MemberIdentity(7)) == frozenset({7})
    assert one.heard("a:1", MemberIdentity(7)) == frozenset(), "once"


def test_an_identity_is_kept_and_a_new_directory_has_another() -> None:
    clock = VirtualClock()
    disk, chance = MemoryDisk(clock), SeededEntropy(1)
    first = load(disk, chance)
    store(disk, first._replace(founders=frozenset({first.node, 5})))
    again = load(disk.killed(clock), chance)
    assert again == MemberIdentity(first.node, frozenset({first.node, 5}))
    assert load(MemoryDisk(clock), chance).node != first.node


def test_an_identity_of_a_later_version_is_no_damage() -> None:
    disk = MemoryDisk(VirtualClock())
    disk.replace("controller/identity", b'{"version":2,"key":"abc"}')
    with pytest.raises(StoreError, match=r"has version 2: a later version has written it. Nothing is damaged") as raised:
        load(disk, SeededEntropy(1))
    assert "renew" not in str(raised.value)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"version":1,"node":0,"founders":[]}', b'{"version":1,"node":"x","founders":[]}', b"[1]"]
)
def test_an_identity_that_cannot_be_read_is_told_with_what_to_do(data: bytes) -> None:
    disk = MemoryDisk(VirtualClock())
    disk.replace("controller/identity", data)
    with pytest.raises(StoreError, match=r"controller/identity: is damaged .* come back as a new member"):
        load(disk, SeededEntropy(1))


def test_what_a_version_before_cannot_read_is_not_written_while_one_is_there() -> None:
    one = Founding(MemberIdentity(1), ADDRESSES)
    assert one.all_read(1)
    one.heard("b:1", MemberIdentity(2))
    assert one.all_read(1)
    one.notified(MemberIdentity(3, level=0))
    assert not one.all_read(1)
    one.notified(MemberIdentity(3, level=1))
    assert one.all_read(1), "it was upgraded"


THREE = Configuration(frozenset({1, 2, 3}))


@pytest.mark.parametrize(
    ("configuration", "there", "expected"),
    [
        (THREE, {1, 2, 3}, None),
        (THREE, {1, 2, 9}, MemberChange(frozenset({1, 2, 3}), frozenset({9}))),
        (Configuration(THREE.voters, frozenset(), frozenset({9})), {1, 2, 9}, MemberChange(frozenset({1, 2, 9}), frozenset())),
        (Configuration(THREE.voters, frozenset({1, 2, 4}), frozenset()), {1, 2, 9}, None),
        (Configuration(THREE.voters, frozenset(), frozenset({9})), {1, 2, 3}, MemberChange(THREE.voters, frozenset())),
        (Configuration(THREE.voters, frozenset(), frozenset({9})), {1, 2, 8}, MemberChange(THREE.voters, frozenset({9, 8}))),
    ],
)
def test_a_newcomer_takes_the_place_of_who_is_gone(
    configuration: Configuration, there: set[int], expected: MemberChange | None
) -> None:
    assert replacement(configuration, there, True) == expected
    assert replacement(configuration, there, False) is None, "who is away may come back"
