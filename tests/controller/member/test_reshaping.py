"""Other numbers of controllers while they run: grown, shrunk, replaced, with changes of store groups going on."""

from __future__ import annotations

import pytest

from controller.groups import command, snapshot
from controller.member.member import ControllerMember
from controller.member.reshaping import begun, reshaped, settled, with_controller, without_controller
from controller.raft.configuration import Configuration
from controller.raft.persisted import Persisted
from domain.controller.answer import GroupAnswer
from domain.controller.change import SetMinInSync
from domain.controller.controller_list import ControllerList, ControllerPlace, SetControllers
from tests.controller.groups.sample import NAME, led
from tests.controller.member.stage import Node, Stage

BOOK = ControllerList(4, tuple(ControllerPlace(f"10.0.0.{each}:1", each) for each in (1, 2, 3)))
HEARD = {f"10.0.0.{each}:1": each for each in (1, 2, 3)}
THREE = Configuration(frozenset({1, 2, 3}))


def address(number: int) -> str:
    return f"10.0.0.{number}:1"


class Growing(Stage):
    """Controllers that are at an address each, and follow the book as they do twice a second."""

    def __init__(self, count: int, seed: int = 1) -> None:
        super().__init__(count, seed)
        self.seeds = [address(each) for each in self.numbers]
        self.clock.call_soon(self._round)

    def _round(self) -> None:
        self.clock.call_at(self.clock.monotonic_ns() + 500_000_000, self._round)
        heard = self.heard()
        for node in self.nodes.values():
            if node.member is not None:
                node.member.follow_book(heard)

    def heard(self) -> dict[str, int]:
        return {address(node.number): node.node for node in self.nodes.values() if node.member is not None}

    def join(self, number: int) -> Node:
        """A new controller starts with an empty directory."""
        node = Node(self, number)
        node.kill()
        node.storage.durable = Persisted()
        node.start()
        self.nodes[number] = node
        self.numbers = range(1, max(self.nodes) + 1)
        return node

    def alter(self, number: int, *, remove: bool = False) -> None:
        """Ask for a change, again while another one is under way, until it is taken."""
        taken: list[GroupAnswer | None] = []

        def ask() -> bool:
            if taken and taken[-1] is not None and taken[-1].refusal is None:
                return True
            member = self.leader().member
            assert member is not None
            change = member.remove_controller if remove else member.add_controller
            try:
                change(address(number), self.seeds, self.heard(), taken.append)
            except ValueError as error:
                if "under way" not in str(error):
                    raise
            self.clock.run_for(100)
            return False

        for _ in range(200):
            if ask():
                return
        raise AssertionError("it is not taken")

    def voters(self) -> tuple[int, ...]:
        member = self.leader().member
        assert member is not None
        return member.voters

    def await_voters(self, *wanted: int) -> None:
        for _ in range(200):
            if self.voters() == wanted and not self._leading_member().changing:
                return
            self.clock.run_for(100)
        raise AssertionError(f"{self.voters()} vote, and {wanted} are to")

    def _leading_member(self) -> ControllerMember:
        member = self.leader().member
        assert member is not None
        return member


def goes_on(stage: Growing, least: int) -> None:
    """A change of a store group is answered, and all members agree on it."""
    assert stage.change(SetMinInSync(NAME, least)).refusal is None
    stage.clock.run_for(1_000)
    for node in stage.nodes.values():
        if node.member is not None and node.node in stage.voters():
            group = node.member.groups.group(NAME)
            assert group is not None
            assert group.least == least


@pytest.mark.parametrize("seed", range(6))
def test_one_grows_to_three_and_five_and_shrinks_again_while_store_groups_go_on(seed: int) -> None:
    stage = Growing(1, seed)
    stage.with_group()
    for number in (2, 3, 4, 5):
        stage.join(number)
        stage.alter(number)
        goes_on(stage, number)
        stage.await_voters(*range(1, number + 1))
    first = stage.leader()
    first.kill()
    assert stage.leader() is not first, "four of five are a majority"
    first.start()
    for number in (1, 3, 4, 5):
        stage.alter(number, remove=True)
        goes_on(stage, number + 1)
        stage.await_voters(*[each for each in (1, 2, 3, 4, 5) if each > number or each == 2])
    assert stage.leader().number == 2, "the last one"
    goes_on(stage, 1)


@pytest.mark.parametrize("seed", range(4))
def test_one_that_is_dead_is_removed_and_another_one_added(seed: int) -> None:
    stage = Growing(3, seed)
    stage.with_group()
    stage.clock.run_for(1_000)
    dead = stage.leader()
    dead.kill()
    stage.alter(dead.number, remove=True)
    left = sorted({1, 2, 3} - {dead.number})
    stage.await_voters(*left)
    stage.join(4)
    stage.alter(4)
    stage.await_voters(*left, 4)
    goes_on(stage, 2)


def test_one_that_lost_its_directory_comes_back_in_a_grown_group() -> None:
    stage = Growing(1)
    stage.with_group()
    for number in (2, 3):
        stage.join(number)
        stage.alter(number)
        stage.await_voters(*range(1, number + 1))
    lost = next(node for node in stage.nodes.values() if node is not stage.leader())
    lost.wipe(77)
    stage.await_voters(*sorted({1, 2, 3} - {lost.number} | {77}))
    assert ControllerPlace(address(lost.number), 77) in stage._leading_member().groups.book.places
    goes_on(stage, 3)


def test_the_book_is_in_snapshots_and_commands() -> None:
    groups = led((1, 2))
    assert snapshot.snapshot(groups)[0] == snapshot.VERSION, "as the version before reads it"
    assert groups.set_controllers(SetControllers(ControllerList(1, BOOK.places))).refusal is None
    assert groups.set_controllers(SetControllers(ControllerList(1, BOOK.places[:1]))).refusal is not None, "not the next one"
    again = snapshot.restore(snapshot.snapshot(groups))
    assert again.book == ControllerList(1, BOOK.places)
    assert list(again) == list(groups)
    assert command.decode(command.encode(SetControllers(BOOK))) == SetControllers(BOOK)


def test_the_first_book_knows_who_is_who_or_is_not_made() -> None:
    seeds = list(HEARD)
    assert begun(ControllerList(), seeds, HEARD, THREE).places == BOOK.places
    two = {where: node for where, node in HEARD.items() if node != 3}
    assert begun(ControllerList(), seeds, two, THREE).places == BOOK.places, "the one that is left is the one that is away"
    with pytest.raises(ValueError, match=r"10\.0\.0\.2:1 and 10\.0\.0\.3:1 does not answer"):
        begun(ControllerList(), seeds, {address(1): 1}, THREE)


def test_what_an_operator_may_not_ask_for_is_refused_in_words() -> None:
    two = ControllerList(1, BOOK.places[:2])
    pair = Configuration(frozenset({1, 2}))
    with pytest.raises(ValueError, match=r"of the 2 that would be left 1 answer, which is no majority"):
        without_controller(BOOK, address(1), {address(1): 1, address(2): 2}, THREE)
    with pytest.raises(ValueError, match="last controller"):
        without_controller(ControllerList(1, BOOK.places[:1]), address(1), HEARD, Configuration(frozenset({1})))
    with pytest.raises(ValueError, match="is no address"):
        with_controller(BOOK, "10.0.0.4", THREE)
    begun_one = with_controller(two, address(3), pair)
    assert begun_one.places[-1] == ControllerPlace(address(3), 0)
    with pytest.raises(ValueError, match="one at a time"):
        with_controller(begun_one, address(4), pair)
    with pytest.raises(ValueError, match="one at a time"):
        without_controller(begun_one, address(1), HEARD, pair)
    assert without_controller(begun_one, address(3), {}, pair).places == two.places, "what was not taken in yet can go"
    with pytest.raises(ValueError, match="is over"):
        with_controller(two, address(4), Configuration(frozenset({1, 2}), frozenset({1, 2, 3})))
    with pytest.raises(ValueError, match="an address of one machine"):
        with_controller(ControllerList(1, (ControllerPlace("127.0.0.1:1", 1),)), address(2), Configuration(frozenset({1})))
    nine = ControllerList(1, tuple(ControllerPlace(address(each), each) for each in range(1, 10)))
    with pytest.raises(ValueError, match="there are 9"):
        with_controller(nine, address(10), Configuration(frozenset(range(1, 10))))
    assert with_controller(BOOK, address(2), THREE) == BOOK, "it is one already"
    assert without_controller(BOOK, address(9), HEARD, THREE) == BOOK


def test_two_addresses_of_one_controller_take_nobodys_place() -> None:
    doubled = {**HEARD, address(3): 2}
    assert reshaped(THREE, BOOK, doubled) is None
    assert settled(THREE, BOOK, doubled) is None
    assert reshaped(THREE, BOOK, HEARD) is None
