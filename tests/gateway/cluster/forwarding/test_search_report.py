"""When a gateway tells the controllers that it has no store."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from gateway.cluster.forwarding.search_report import AFTER_MS, LOOK_MS, Search, SearchReport
from gateway.link.link import RemotingLink
from gateway.link.request import Request
from protocols.remoting import codes
from tests.simulation.kit.clock import VirtualClock

SEARCH = Search("10.0.0.1:10911", "10.0.0.1:10911: connection refused")


class FakeLink:
    """A controller that answers when `answers` is True."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.answers = True
        self.asked: list[Request] = []
        self.closed = ""

    def ask(self, request: Request, done: Callable[[object], None], timeout_ms: int) -> None:
        self.asked.append(request)
        self.in_flight += not self.answers

    def close(self, reason: str) -> None:
        self.closed = reason


class Gateway:
    """A gateway with two controllers."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.links = [FakeLink(), FakeLink()]
        self.search: Search | None = SEARCH
        self.report = SearchReport("gw-1", "a1", cast(list[RemotingLink], self.links), self.clock, lambda: self.search)
        self.report.start()


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


def test_a_gateway_that_has_never_found_a_store_tells_every_controller_and_for_how_long(gateway: Gateway) -> None:
    gateway.clock.run_for(AFTER_MS)
    assert gateway.report.told == 0, "an election is over sooner"
    gateway.clock.run_for(10_000)
    for link in gateway.links:
        assert {each.code for each in link.asked} == {codes.HEAR_GATEWAY}
        said = [dict(each.fields) for each in link.asked]
        assert [each["waitsMs"] for each in said] == [str(at) for at in range(6_000, 15_000, LOOK_MS)]
        assert {(each["name"], each["seeks"], each["why"]) for each in said} == {("gw-1", *SEARCH)}


def test_a_gateway_with_a_store_says_nothing_and_counts_anew_when_it_is_lost(gateway: Gateway) -> None:
    gateway.search = None
    gateway.clock.run_for(20_000)
    assert gateway.report.told == 0
    gateway.search = SEARCH
    gateway.clock.run_for(AFTER_MS + LOOK_MS)
    assert gateway.links[0].asked[0].fields["waitsMs"] == "6000"


def test_a_controller_that_does_not_answer_gets_one_report(gateway: Gateway) -> None:
    gateway.links[0].answers = False
    gateway.clock.run_for(20_000)
    assert (len(gateway.links[0].asked), len(gateway.links[1].asked) > 3) == (1, True)
    gateway.report.close()
    told = gateway.report.told
    gateway.clock.run_for(20_000)
    assert (gateway.report.told, gateway.links[0].closed) == (told, "this gateway stops")
