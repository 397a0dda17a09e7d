"""Read holds: what is stored for them, and what is refused."""

from __future__ import annotations

import pytest

from domain.admin.topic import Bounds, QueryBounds
from domain.command import HoldQueues
from domain.errors import ErrorCode
from domain.event import Done, Event
from domain.store import read_hold
from tests.gateway.usecase.bench import Bench, code
from tests.gateway.usecase.event_recorder import only
from tests.stored_state import pairs


@pytest.fixture
def place(bench: Bench) -> Bench:
    """Topic T with messages."""
    bench.furnish(4, 3)
    return bench


def holds(place: Bench) -> dict[bytes, tuple[int, dict[int, int]]]:
    return {key: read_hold.decode(value) for key, value in pairs(place.store.state, read_hold.SPACE, b"")}


def ask(
    place: Bench, name: str = "r", hold_ms: int = 60_000, topic: str = "T", epoch: int = -1, **more: dict[int, int]
) -> Event:
    [event] = place.ask(HoldQueues(1, name, topic, more.get("offsets", {0: 3}), hold_ms, epoch))
    return event


def test_a_hold_is_stored_replaced_and_ended(place: Bench) -> None:
    assert isinstance(ask(place), Done)
    [(until_ms, offsets)] = holds(place).values()
    assert offsets == {0: 3}
    ask(place, hold_ms=2 * read_hold.HOLD_MS_MAX, offsets={0: 4})
    [(later_ms, moved)] = holds(place).values()
    assert moved == {0: 4}
    assert later_ms - until_ms < read_hold.HOLD_MS_MAX
    ask(place, hold_ms=0)
    assert holds(place) == {}


def test_holds_that_have_ended_are_removed_with_the_next_new_one(place: Bench) -> None:
    ask(place, name="short", hold_ms=1)
    place.clock.run_for(10)
    ask(place, name="long")
    assert list(holds(place)) == [read_hold.key_of("long", "T")]


def test_holds_are_bounded(place: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_hold, "HOLDS_MAX", 2)
    for name in ("a", "b"):
        assert isinstance(ask(place, name=name), Done)
    assert code([ask(place, name="c")]) is ErrorCode.OVERLOADED
    assert isinstance(ask(place, name="b"), Done)


def test_a_hold_of_what_is_not_there_is_refused(place: Bench) -> None:
    bounds = only(Bounds, place.ask(QueryBounds(1, "T")))
    assert isinstance(ask(place, epoch=bounds.epoch), Done)
    assert code([ask(place, epoch=bounds.epoch - 1)]) is ErrorCode.TOPIC_NOT_FOUND
    assert code([ask(place, topic="none")]) is ErrorCode.TOPIC_NOT_FOUND
    for wrong in ({"name": ""}, {"name": "x" * 65}, {"name": "\x00"}):
        assert code([ask(place, **wrong)]) is ErrorCode.ARGUMENT_ILLEGAL  # type: ignore[arg-type]
    for offsets in ({0: -1}, {-1: 0}, {10_000: 0}):
        assert code([ask(place, offsets=offsets)]) is ErrorCode.ARGUMENT_ILLEGAL
