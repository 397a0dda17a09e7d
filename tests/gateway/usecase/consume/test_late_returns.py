"""Late returns: pulling members without a retry topic get messages whose leases ended behind their offset."""

from __future__ import annotations

from domain.command import Extend, Pull
from domain.errors import Failure
from domain.event import Pulled
from domain.store.store_ports import ReadResult
from domain.store.store_request import PullRequest, ReadRequest
from gateway.usecase.consume.pull_poll import withdraw
from tests.gateway.usecase.bench import Bench
from tests.gateway.usecase.consume.test_sharing import SECOND, Puller, acknowledge, group, names, position, receive, send
from tests.gateway.usecase.event_recorder import EventRecorder, only

__all__ = ["group"]


def behind(group: Bench, count: int = 2) -> tuple[Puller, list[str]]:
    """A puller that has reported the end of the queue, and the names of messages whose leases ended after that."""
    receive(group, count, invisible_ms=1_000)
    puller = Puller(group, retries=False)
    puller.pull()
    puller.report(10)
    group.clock.run_for(2 * SECOND)
    assert position(group) == 0
    return puller, [str(number) for number in range(count)]


def test_they_are_given_to_it_in_an_answer_of_their_own(group: Bench) -> None:
    puller, names_back = behind(group)
    send(group, "new")
    assert puller.pull() == names_back
    assert puller.offset == 10, "it goes on where it was"
    assert puller.pull() == ["new"]
    assert receive(group) == []


def test_an_old_report_does_not_settle_them_and_one_that_went_back_for_them_does(group: Bench) -> None:
    puller, _ = behind(group)
    puller.pull()
    puller.report(10)
    assert position(group) == 0, "as it was before they were given"
    puller.report(0)
    assert position(group) == 0, "the lowest that it holds"
    puller.report(2)
    assert position(group) == 10


def test_a_report_of_something_newer_settles_them(group: Bench) -> None:
    puller, _ = behind(group)
    puller.pull()
    send(group, "new")
    assert puller.pull() == ["new"]
    puller.report(10)
    assert position(group) == 0
    puller.report(11)
    assert position(group) == 11


def test_while_some_are_in_hand_a_lower_report_may_be_about_those(group: Bench) -> None:
    puller, _ = behind(group, 4)
    assert puller.pull(2) == ["0", "1"]
    assert puller.pull(2) == ["2", "3"]
    puller.report(2)
    assert position(group) == 2, "the first two, which went back from 10"
    puller.report(4)
    assert position(group) == 2, "of the others that is not told"
    send(group, "new")
    puller.pull()
    puller.report(11)
    assert position(group) == 11


def test_who_asks_for_less_is_given_them_again(group: Bench) -> None:
    puller, names_back = behind(group)
    assert puller.pull() == names_back
    puller.offset = 5
    assert puller.pull() == names_back
    assert puller.offset == 5
    puller.report(5)
    assert position(group) == 0, "who was set back says nothing of them"
    puller.pull()
    send(group, "new")
    puller.offset = 10
    puller.pull()
    puller.report(11)
    assert position(group) == 11


def test_on_another_connection_they_are_given_again(group: Bench) -> None:
    puller, names_back = behind(group)
    puller.pull()
    puller.recorder = EventRecorder()
    puller.beat()
    assert puller.pull() == names_back
    puller.beat()
    assert puller.pull() == []


def test_with_the_member_they_are_free(group: Bench) -> None:
    puller, names_back = behind(group)
    puller.pull()
    puller.leave()
    assert names(receive(group)) == names_back


def test_receivers_get_them_too_who_asks_first(group: Bench) -> None:
    puller, names_back = behind(group)
    found = receive(group)
    assert names(found) == names_back
    assert puller.pull() == []
    acknowledge(group, found)
    assert position(group) == 10


def test_a_pull_that_waits_gets_them_at_once(group: Bench) -> None:
    held = receive(group, 2)
    puller = Puller(group, retries=False)
    puller.pull()
    puller.report(10)
    puller.pull(wait_ms=15_000)
    group.ask(Extend(1, "g", "t", [message.receipt for message in held], 0))
    assert puller.take(puller.recorder.take()) == ["0", "1"]


def test_what_was_found_too_late_for_an_answer_is_free(group: Bench) -> None:
    puller, names_back = behind(group)
    command = Pull(1, "g", "t", 0, 10, 32, 0, member="one")
    found: list[ReadResult | Failure] = []
    group.store.pulls.pull(PullRequest("g", "one", "", ReadRequest("t", 0, 10, 32, 1 << 20)), found.append)
    group.clock.run_for(20)
    assert isinstance(found[0], ReadResult)
    assert len(found[0].records) == 2
    assert puller.pull() == []
    withdraw(group.store.leases, command, found[0])
    assert puller.pull() == names_back


def test_attempts_are_limited_for_them_too(group: Bench) -> None:
    puller, _ = behind(group)
    for offset in (10, 9, 8):
        puller.offset = offset
        assert len(puller.pull()) == 2
    puller.offset = 7
    assert puller.pull() == [], "three attempts, and one before"
    event = only(Pulled, group.ask(Pull(1, "dead", "%DLQ%g", 0, 0, 32, 0)))
    assert len(event.records) == 2


def test_a_report_that_went_back_for_one_sets_nobody_back_after_a_start(group: Bench) -> None:
    """Messages that receivers have acknowledged stay settled, also when no receiver is left."""
    acknowledge(group, receive(group))
    assert position(group) == 10
    table = group.store.parts.ledger.tables.get(("g", "t", 0))
    assert table is not None
    table.shared = False  # as it is after a start, when nothing is out
    puller = Puller(group, retries=False)
    puller.report(4)
    assert position(group) == 10
    send(group, "new")
    puller.report(11)
    assert position(group) == 11
