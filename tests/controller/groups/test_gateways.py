"""Gateways of a store group, as a controller hears of them from leaders."""

from __future__ import annotations

from controller.groups import gateways
from controller.groups.gateways import GATEWAYS_KNOWN_MAX, MISSED_MS, SEARCHING_MAX, SEARCHING_MS, KnownGateways
from domain.controller.gateway_search import GatewaySearch
from domain.controller.request import GatewayMissed
from domain.controller.serving import SERVES_NOBODY, UNSAID, GatewayWord, ServingWord
from tests.controller.groups.sample import NAME

ONE, TWO = GatewayWord("a1", "gw-1"), GatewayWord("b2", "gw-2")


def leads(epoch: int, *here: GatewayWord) -> ServingWord:
    return ServingWord(epoch, "", here)


def test_a_gateway_that_the_next_leader_has_not_is_missed_until_it_comes() -> None:
    known = KnownGateways()
    known.heard(NAME, leads(5, ONE, TWO), 1_000)
    assert known.missed(3_000) == [], "nobody leads yet: that is another fault"
    known.heard(NAME, leads(6, ONE), 3_000)
    assert known.missed(4_000) == [GatewayMissed(NAME, "gw-2", 3_000)]
    known.heard(NAME, leads(6, ONE, TWO), 5_000)
    assert known.missed(6_000) == []


def test_a_gateway_that_leaves_a_leader_which_goes_on_was_stopped_and_is_forgotten() -> None:
    known = KnownGateways()
    known.heard(NAME, leads(5, ONE, TWO), 1_000)
    known.heard(NAME, leads(5, ONE), 2_000)
    known.heard(NAME, leads(6, ONE), 3_000)
    assert known.missed(4_000) == []


def test_a_gateway_that_is_silent_is_missed_until_it_is_heard_also_when_its_connection_is_given_up() -> None:
    known = KnownGateways()
    known.heard(NAME, leads(5, ONE, TWO), 1_000)
    known.heard(NAME, leads(5, ONE, TWO._replace(silent_ms=5_200)), 7_000)
    assert known.missed(8_000) == [GatewayMissed(NAME, "gw-2", 6_200)]
    known.heard(NAME, leads(5, ONE), 9_000)
    assert known.missed(9_000) == [GatewayMissed(NAME, "gw-2", 7_200)]
    known.heard(NAME, leads(5, ONE, TWO), 10_000)
    assert known.missed(10_000) == []


def test_a_gateway_that_was_started_again_takes_the_place_of_its_earlier_life() -> None:
    known = KnownGateways()
    known.heard(NAME, leads(5, ONE, TWO), 1_000)
    known.heard(NAME, leads(6, ONE, TWO._replace(life="b3")), 3_000)
    assert known.missed(4_000) == []


def test_replicas_that_serve_nobody_and_leaders_of_earlier_epochs_say_nothing_about_gateways() -> None:
    known = KnownGateways()
    known.heard(NAME, leads(6, ONE), 1_000)
    for word in (SERVES_NOBODY, UNSAID, leads(5, TWO), leads(5)):
        known.heard(NAME, word, 2_000)
    known.heard(NAME, leads(7, ONE), 3_000)
    assert known.missed(4_000) == []


def test_a_gateway_that_does_not_come_back_is_forgotten_in_the_end_and_with_its_group() -> None:
    known = KnownGateways()
    known.heard(NAME, leads(5, ONE), 0)
    known.heard(NAME, leads(6), 1_000)
    assert known.missed(MISSED_MS) == [GatewayMissed(NAME, "gw-1", MISSED_MS)]
    assert known.missed(MISSED_MS + 1) == []
    known.forget(NAME)
    assert known.missed(2_000) == []
    known.heard(NAME, leads(1, ONE), 3_000)
    known.heard(NAME, leads(2), 4_000)
    assert len(known.missed(5_000)) == 1, "a group of the same name begins with epoch 1 again"


def test_a_gateway_that_has_no_store_says_so_itself_and_is_forgotten_soon_after_its_last_word() -> None:
    known, search = KnownGateways(), GatewaySearch("gw-1", "10.0.0.1:10911", "refused", 5_000)
    known.searches("a1", search, "10.0.9.1", 1_000)
    known.searches("b2", search._replace(name="10.0.9.2"), "10.0.9.2", 2_000)
    known.searches("a1", search._replace(waits_ms=7_000), "10.0.9.1", 3_000)
    found = known.searching(4_000)
    assert [(each.name, each.waits_ms) for each in found] == [("10.0.9.2", 7_000), ("gw-1 at 10.0.9.1", 8_000)]
    assert len(known.searching(2_000 + SEARCHING_MS + 1)) == 1
    assert known.searching(3_000 + SEARCHING_MS + 1) == []


def test_gateways_without_a_store_are_kept_within_bounds() -> None:
    known = KnownGateways()
    for number in range(SEARCHING_MAX + 5):
        known.searches(f"{number}", GatewaySearch(f"gw-{number}", "", "", 0), "", number)
    assert [each.name for each in known.searching(100)] == [f"gw-{number}" for number in range(5, SEARCHING_MAX + 5)]


def test_what_leaders_say_is_kept_within_bounds() -> None:
    known = KnownGateways()
    for epoch in range(1, 9):
        here = [GatewayWord(f"{epoch}-{each}", f"gw-{epoch}-{each}") for each in range(32)]
        known.heard(NAME, leads(epoch, *here), epoch)
    known.heard(NAME, leads(10), 10)
    assert len(known.missed(11)) == GATEWAYS_KNOWN_MAX
    for number in range(gateways.GROUPS_KNOWN_MAX + 5):
        known.heard(f"group-{number}", leads(1, ONE), 10)
        known.heard(f"group-{number}", leads(2), 11)
    assert len(known.missed(12)) == GATEWAYS_KNOWN_MAX + gateways.GROUPS_KNOWN_MAX - 1
