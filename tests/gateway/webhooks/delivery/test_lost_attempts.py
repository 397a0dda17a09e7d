"""Attempts of a process that was killed before it recorded them."""

from __future__ import annotations

from collections import Counter

from domain.admin.subscription import Attempt, AttemptList, QueryAttempts
from domain.command import Command
from domain.event import Leased
from domain.message.receipt import Receipt
from domain.subscription.subscription import ATTEMPTS_MAX, WebhookSubscription
from gateway.connection.client_connection import ClientConnection
from gateway.webhooks.delivery.lost_attempts import LostAttempts
from tests.gateway.webhooks.held_courier import HeldCourier, process_of
from tests.protocols.http.stage import record
from tests.simulation.kit.clock import VirtualClock


class Log:
    """The attempts of one subscription, `known`; `asked`: how often they were read."""

    def __init__(self, *known: Attempt) -> None:
        self.known = list(known)
        self.asked = 0
        self.noted: list[tuple[str, int, str]] = []
        process = process_of(HeldCourier(), VirtualClock(), self)
        self.counts = process.counters
        self.earlier = LostAttempts(
            WebhookSubscription("s", "t", "https://a.example/"), process,
            lambda topic, attempt: self.noted.append((attempt.message_id, attempt.number, attempt.outcome)),
        )  # fmt: skip

    def handle(self, connection: ClientConnection, command: Command) -> None:
        assert isinstance(command, QueryAttempts)
        self.asked += 1
        connection.answer(AttemptList(command.ticket, self.known))


def attempt(identity: str, number: int, messages: int = 1) -> Attempt:
    return Attempt(0, identity, messages, number, 500, 1, "retried")


def test_an_attempt_that_is_not_in_the_log_is_recorded_as_unknown() -> None:
    log = Log(attempt("other", 1))
    log.earlier.poll("t", "m", 1, 1)
    assert log.noted == [("m", 1, "unknown")]
    assert log.counts == Counter(unknown=1)


def test_one_that_is_there_is_left_as_it_is() -> None:
    log = Log(attempt("m", 1))
    log.earlier.poll("t", "m", 1, 1)
    assert (log.noted, log.asked) == ([], 1)


def test_several_processes_may_have_been_killed() -> None:
    log = Log(attempt("m", 2))
    log.earlier.poll("t", "m", 4, 1)
    assert log.noted == [("m", 1, "unknown"), ("m", 3, "unknown"), ("m", 4, "unknown")]


def test_those_of_this_process_are_known_without_a_question() -> None:
    log = Log()
    stored = record("t", properties=b"UNIQ_KEY\x01m\x02")
    log.earlier.made([Leased(stored, Receipt(0, 0, 0, 0, 0, "b", 0, 0), 1)])
    log.earlier.poll("t", "m", 1, 1)
    assert (log.noted, log.asked) == ([], 0)
    log.earlier.poll("t", "m", 2, 1)
    assert log.asked == 1, "a later one is another matter"


def test_of_a_full_log_only_the_last_attempt_is_looked_for() -> None:
    log = Log(*(attempt(f"x{at}", 1) for at in range(ATTEMPTS_MAX)))
    log.earlier.poll("t", "m", 5, 1)
    assert log.noted == [("m", 5, "unknown")]


def test_attempts_of_several_messages_have_the_id_of_the_first_one() -> None:
    log = Log(attempt("first", 2, messages=5))
    log.earlier.poll("t", "second", 2, 5)
    assert log.noted == []
