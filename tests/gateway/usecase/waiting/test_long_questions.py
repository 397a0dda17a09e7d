"""Questions and searches share the turns of the loop, by host."""

from __future__ import annotations

from gateway.connection.client_connection import ClientConnection
from gateway.usecase.waiting.long_questions import TURN_NS, LongQuestions
from tests.connection_driver import StrictDriver
from tests.neighbours.loop import TurnClock


class Searches:
    """Searches of clients, and the order in which their parts are done."""

    def __init__(self) -> None:
        self.clock = TurnClock()
        self.questions = LongQuestions(self.clock, 2 * TURN_NS)
        self.order: list[str] = []

    def begin(self, name: str, host: str, parts: int) -> ClientConnection:
        connection = ClientConnection("remoting", StrictDriver())
        connection.host = host
        self.add(connection, name, parts)
        return connection

    def add(self, connection: ClientConnection, name: str, parts: int) -> None:
        def part() -> None:
            self.order.append(name)
            self.clock.spend(TURN_NS)
            if parts > 1:
                self.add(connection, name, parts - 1)

        self.questions.later(connection, part)


def test_searches_take_turns_by_host_and_end_theirs_when_its_time_is_over() -> None:
    searches = Searches()
    for name in ("a", "b", "c"):
        searches.begin(name, "10.0.0.1", 2)
    searches.begin("other", "10.0.0.2", 1)
    assert searches.order == [], "not before the next turn"
    counts: list[int] = []
    while len(searches.order) < 7:
        before = len(searches.order)
        searches.clock.turn()
        counts.append(len(searches.order) - before)
    assert "other" in searches.order[:2]
    assert [name for name in searches.order if name != "other"] == ["a", "b", "c", "a", "b", "c"]
    assert max(counts) == 2
    searches.clock.turn()
    assert len(searches.order) == 7


def test_the_search_of_a_connection_that_has_ended_is_dropped() -> None:
    searches = Searches()
    searches.begin("gone", "10.0.0.1", 2).end()
    searches.begin("other", "10.0.0.1", 1)
    searches.clock.turn()
    assert searches.order == ["other"]


def test_a_part_that_raises_ends_its_search_alone() -> None:
    searches = Searches()
    order = searches.order

    def fail() -> None:
        raise OSError("simulated")

    searches.questions.later(ClientConnection("remoting", StrictDriver()), fail)
    searches.begin("b", "", 1)
    try:
        searches.clock.turn()
    except OSError:
        order.append("raised")
    searches.clock.turn()
    assert order == ["raised", "b"]
