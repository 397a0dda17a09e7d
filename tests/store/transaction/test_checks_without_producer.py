"""Checks that found no producer: each is repeated once when a producer connects, in bounded batches with pauses between."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from store.transaction.checks_without_producer import BATCH_MAX, PAUSE_NS, ChecksWithoutProducer, Name
from tests.simulation.kit.clock import VirtualClock

PAUSE_MS = PAUSE_NS // 1_000_000


class Stage:
    """A virtual clock, its checks, and the batches that were repeated. Checks for groups in `absent` come back."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.batches: list[list[Name]] = []
        self.absent: set[str] = set()
        self.checks = ChecksWithoutProducer(self.clock, self.ask)

    def ask(self, names: Sequence[Name]) -> None:
        """Repeat checks."""
        self.batches.append(list(names))
        for group, message_id in names:
            if group in self.absent:
                self.checks.add(group, message_id)


def test_a_transaction_decided_between_connect_and_check_is_not_checked() -> None:
    stage = Stage()
    stage.checks.add("g", "1")
    stage.checks.present("g")
    stage.checks.forget("g", "1")
    stage.clock.run_for(1_000)
    assert stage.batches == []
    stage.checks.add("g", "2")
    stage.checks.present("g")
    stage.clock.run_for(1_000)
    assert stage.batches == [[("g", "2")]]


def test_many_checks_go_out_in_batches_with_pauses() -> None:
    stage = Stage()
    for number in range(2 * BATCH_MAX + 1):
        stage.checks.add("g", str(number))
    stage.checks.present("g")
    stage.clock.run_for(PAUSE_MS - 1)
    assert [len(batch) for batch in stage.batches] == [BATCH_MAX]
    stage.clock.run_for(PAUSE_MS)
    assert [len(batch) for batch in stage.batches] == [BATCH_MAX, BATCH_MAX]
    stage.clock.run_for(PAUSE_MS)
    assert [len(batch) for batch in stage.batches] == [BATCH_MAX, BATCH_MAX, 1]
    assert [int(message_id) for batch in stage.batches for _, message_id in batch] == list(range(2 * BATCH_MAX + 1))


def test_producers_that_connect_and_vanish_again_do_not_shorten_the_pause() -> None:
    stage = Stage()
    stage.absent.add("g")
    stage.checks.add("g", "1")
    for _ in range(9):
        stage.checks.present("g")
        stage.clock.run_for(PAUSE_MS // 10)
    assert len(stage.batches) == 1
    stage.clock.run_for(PAUSE_MS // 10)
    assert len(stage.batches) == 2


def test_no_check_is_repeated_after_the_stop() -> None:
    stage = Stage()
    stage.checks.add("g", "1")
    stage.checks.present("g")
    stage.checks.stop()
    stage.checks.present("g")
    stage.clock.run_for(1_000)
    assert stage.batches == []


@given(st.lists(st.tuples(st.sampled_from(("add", "forget", "present")), st.sampled_from("gh"), st.sampled_from("123"))))
def test_what_is_repeated_agrees_with_a_naive_table(steps: list[tuple[str, str, str]]) -> None:
    stage = Stage()
    waiting: dict[Name, None] = {}
    expected: list[Name] = []
    for verb, group, message_id in steps:
        name = (group, message_id)
        if verb == "add":
            stage.checks.add(*name)
            waiting[name] = None
        elif verb == "forget":
            stage.checks.forget(*name)
            waiting.pop(name, None)
        else:
            stage.checks.present(group)
            stage.clock.run_for(2 * PAUSE_MS)
            expected += [each for each in waiting if each[0] == group]
            waiting = {each: None for each in waiting if each[0] != group}
    assert [name for batch in stage.batches for name in batch] == expected
    assert len(stage.checks) == len(waiting)
