"""Questions and searches share the turns of the loop, by host."""

from __future__ import annotations

from domain.turn import QUESTIONS_NS
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.waiting.long_questions import STEP_NS, LongQuestions, Steps
from tests.connection_driver import StrictDriver
from tests.neighbours.loop import TurnClock


class Searches:
    """Searches of clients, and the order in which their parts are done."""

    def __init__(self) -> None:
        self.clock = TurnClock()
        self.questions = LongQuestions(self.clock, 2 * QUESTIONS_NS)
        self.order: list[str] = []

    def begin(self, name: str, host: str, parts: int) -> ClientConnection:
        connection = ClientConnection("remoting", StrictDriver())
        connection.host = host
        self.add(connection, name, parts)
        return connection

    def add(self, connection: ClientConnection, name: str, parts: int) -> None:
        def part() -> None:
            self.order.append(name)
            self.clock.spend(QUESTIONS_NS)
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


def test_a_long_question_is_answered_in_steps_between_which_other_hosts_have_theirs() -> None:
    clock, order = TurnClock(), list[str]()
    questions = LongQuestions(clock)

    def steps(name: str, count: int) -> Steps:
        for _ in range(count):
            order.append(name)
            yield

    def ask(name: str, host: str, count: int) -> None:
        connection = ClientConnection("remoting", StrictDriver())
        connection.host = host
        questions.ask(connection, steps(name, count))

    in_turn = QUESTIONS_NS // STEP_NS
    ask("long", "10.0.0.1", 3 * in_turn)
    assert order == ["long"] * in_turn, "its share of the turn in which it was asked"
    ask("behind", "10.0.0.1", 1)
    ask("other", "10.0.0.2", 3)
    assert len(order) == in_turn, "nothing more in this turn"
    clock.turn()
    assert order[in_turn : in_turn + 6] == ["long", "other"] * 3
    assert len(order) < 2 * in_turn + 1
    for _ in range(3):
        clock.turn()
    assert order[-2:] == ["long", "behind"]
    assert order.count("long") == 3 * in_turn


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
