"""Message counters: counts and rates over a minute, an hour and a day of virtual time."""

from __future__ import annotations

import pytest

from domain.admin.broker import QueryRates, Rates
from domain.errors import ErrorCode
from domain.event import Refused
from gateway.usecase.topics_and_groups import counters
from gateway.usecase.topics_and_groups.counters import CountWindow, MessageCounters
from tests.gateway.usecase.bench import Bench
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.simulation.kit.clock import VirtualClock


def ask(place: MessageCounters, name: str, key: str) -> Rates | Refused:
    recorder = EventRecorder()
    place.verbs[QueryRates](recorder.connection, QueryRates(1, name, key))
    [event] = recorder.take()
    assert isinstance(event, Rates | Refused)
    return event


def test_a_window_forgets_what_is_older_than_its_slots() -> None:
    window = CountWindow(2, 3)
    for tick in range(6):
        window.add(1, 10, 1, tick)
    assert window.sum(5, 3) == (6, 60, 6)
    assert window.sum(5, 1) == (2, 20, 2)
    assert window.sum(6, 3) == (4, 40, 4)
    assert window.sum(1_000, 3) == (0, 0, 0)
    window.add(5, 5, 1, 1_000)
    assert window.sum(1_000, 3) == (5, 5, 1)


def test_rates_of_a_minute_an_hour_and_a_day() -> None:
    clock = VirtualClock()
    place = MessageCounters(clock)
    for _ in range(7_200):
        place.arrived("T", 0, [b"12345", b"12345"])
        clock.run_for(1_000)
    found = ask(place, "TOPIC_PUT_NUMS", "T")
    assert isinstance(found, Rates)
    assert found.minute.per_second == pytest.approx(2.0, rel=0.05)
    assert found.hour.per_second == pytest.approx(2.0, rel=0.05)
    assert (found.day.sum, found.day.per_time) == (14_400, 2.0)
    sizes = ask(place, "TOPIC_PUT_SIZE", "T")
    assert isinstance(sizes, Rates)
    assert sizes.day.sum == 72_000
    clock.run_for(120_000)
    later = ask(place, "TOPIC_PUT_NUMS", "T")
    assert isinstance(later, Rates)
    assert (later.minute.sum, later.day.sum) == (0, 14_400)
    clock.run_for(26 * 3_600_000)
    last = ask(place, "TOPIC_PUT_NUMS", "T")
    assert isinstance(last, Rates)
    assert last.day.sum == 0


@pytest.mark.parametrize(("name", "key"), [("TOPIC_PUT_NUMS", "nothing"), ("GROUP_GET_NUMS", "T@nobody"), ("NONE", "T")])
def test_what_was_never_counted_is_refused(name: str, key: str) -> None:
    found = ask(MessageCounters(VirtualClock()), name, key)
    assert isinstance(found, Refused)
    assert found.failure.code is ErrorCode.ARGUMENT_ILLEGAL


def test_yesterday_and_today() -> None:
    clock = VirtualClock()
    place = MessageCounters(clock)
    place.arrived("T", 0, [b"1"] * 5)
    clock.run_for(counters.DAY_MS)
    place.arrived("T", 0, [b"1"] * 7)
    figures = place.figures()
    assert (figures["put_before_yesterday_total"], figures["put_before_today_total"], figures["put_total"]) == (0, 5, 12)
    clock.run_for(counters.DAY_MS)
    figures = place.figures()
    assert (figures["put_before_yesterday_total"], figures["put_before_today_total"], figures["put_total"]) == (5, 12, 12)


def test_counters_are_bounded_and_idle_ones_make_room() -> None:
    clock = VirtualClock()
    place = MessageCounters(clock)
    place.counters_max = 2
    for topic in ("A", "B", "C"):
        place.arrived(topic, 0, [b"1"])
    assert isinstance(ask(place, "TOPIC_PUT_NUMS", "C"), Refused)
    assert place.figures()["put_total"] == 3
    clock.run_for(25 * 3_600_000)
    place.arrived("B", 0, [b"1"])
    place.arrived("C", 0, [b"1"])
    assert isinstance(ask(place, "TOPIC_PUT_NUMS", "C"), Rates)
    assert isinstance(ask(place, "TOPIC_PUT_NUMS", "A"), Refused)


def test_what_a_group_is_given_is_counted(bench: Bench) -> None:
    bench.send("T", "a", "b")
    bench.receive("g", "T")
    bench.clock.run_for(5_000)
    place = bench.handler.counters
    found = ask(place, "GROUP_GET_NUMS", "T@g")
    assert isinstance(found, Rates)
    assert found.minute.sum == 2
    assert place.per_second("g") > 0
    assert place.figures()["got_total"] == 2


def test_a_count_that_somebody_else_keeps_is_told_by_the_second() -> None:
    clock = VirtualClock()
    place, count = MessageCounters(clock), [1_000]
    place.follow("mine", lambda: count[0])
    clock.run_for(60_000)
    assert place.figures()["mine_per_second_10s"] == 0.0, "what was there before is no rate"
    count[0] += 50
    clock.run_for(10_000)
    assert 50 / 20 <= place.figures()["mine_per_second_10s"] <= 50 / 10
    clock.run_for(20_000)
    assert place.figures()["mine_per_second_10s"] == 0.0
