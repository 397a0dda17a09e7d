"""Reads with large answers share the turns of the loop."""

from __future__ import annotations

from functools import partial

import pytest

from domain.client.mqtt_session import ReadingResumed
from domain.turn import READ_BYTES
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.waiting.read_turns import LARGE_BYTES, LEAST_BYTES, SHORT_TURNS, UNKNOWN_BYTES, ReadTurns
from tests.connection_driver import RecordingDriver
from tests.neighbours.loop import TurnClock


class Reads:
    """Reads of a fixed size by connections of named hosts; `order` has the host of each that was done."""

    def __init__(self) -> None:
        self.clock = TurnClock()
        self.turns = ReadTurns(self.clock)
        self.order: list[str] = []

    def connection(self, host: str) -> ClientConnection:
        made = ClientConnection("http", RecordingDriver())
        made.host = host
        return made

    def ask(self, connection: ClientConnection, size: int) -> None:
        read = partial(self._read, connection.host, size)
        if self.turns.crowded:
            self.turns.add(connection, read)
        else:
            read()

    def _read(self, host: str, size: int) -> None:
        self.order.append(host)
        self.turns.count(size)

    def turn(self) -> list[str]:
        """The hosts whose reads the next turn does."""
        before = len(self.order)
        self.clock.turn()
        return self.order[before:]


def test_one_large_read_fills_a_turn_and_hosts_take_turns() -> None:
    reads = Reads()
    first, second, other = reads.connection("a"), reads.connection("a"), reads.connection("b")
    for _ in range(3):
        reads.ask(first, READ_BYTES)
        reads.ask(second, READ_BYTES)
    reads.ask(other, 1_000)
    assert reads.order == ["a"]
    assert (first.reads_waiting, second.reads_waiting, other.reads_waiting) == (2, 3, 1)
    assert [reads.turn() for _ in range(6)] == [["a"], ["b", "a"], ["a"], ["a"], ["a"], []]
    assert (first.reads_waiting, reads.turns.waiting, reads.turns.crowded) == (0, 0, False)


def test_large_reads_leave_turns_to_others() -> None:
    reads = Reads()
    one = reads.connection("a")
    for _ in range(3):
        reads.ask(one, LARGE_BYTES)
    short: list[list[str]] = [[]] * SHORT_TURNS
    assert [reads.turn() for _ in range(2 * SHORT_TURNS + 2)] == [*short, ["a"], *short, ["a"]]


def test_a_read_of_another_host_does_not_wait_for_all_reads_of_one() -> None:
    reads = Reads()
    one, other = reads.connection("a"), reads.connection("b")
    for _ in range(50):
        reads.ask(one, READ_BYTES)
    reads.turn()
    reads.ask(other, READ_BYTES)
    assert [reads.turn() for _ in range(3)] == [["a"], ["b"], ["a"]]


def test_small_reads_do_not_wait_until_they_are_many() -> None:
    reads = Reads()
    one = reads.connection("a")
    for _ in range(200):
        reads.ask(one, READ_BYTES // 128)
    assert len(reads.order) == 128
    assert len(reads.turn()) < READ_BYTES // LEAST_BYTES
    while reads.turns.waiting:
        reads.turn()
    assert len(reads.order) == 200


def test_reads_that_find_nothing_are_bounded_in_a_turn() -> None:
    reads = Reads()
    one = reads.connection("a")
    reads.turns.count(READ_BYTES)
    for _ in range(1_000):
        reads.ask(one, 0)
    assert len(reads.turn()) == READ_BYTES // LEAST_BYTES


def test_a_connection_is_read_again_when_its_last_read_is_done() -> None:
    reads = Reads()
    driver = RecordingDriver()
    one = ClientConnection("http", driver)
    reads.turns.count(READ_BYTES)
    reads.ask(one, READ_BYTES)
    reads.ask(one, READ_BYTES)
    reads.turn()
    assert driver.recorded == []
    reads.turn()
    assert [type(event) for event in driver.recorded] == [ReadingResumed]


def test_a_receive_counts_as_the_last_answers_of_its_host() -> None:
    turns = Reads().turns
    for _ in range(READ_BYTES // UNKNOWN_BYTES - 1):
        turns.expect("a")
    assert not turns.crowded
    turns.expect("a")
    assert turns.crowded
    turns = Reads().turns
    turns.came("a", READ_BYTES)
    turns.came("a", 100)
    turns.expect("a")
    assert not turns.crowded
    turns.expect("a")
    assert turns.crowded
    turns = Reads().turns
    turns.came("a", 100)
    for _ in range(1_000):
        turns.expect("a")
    assert not turns.crowded


def test_a_read_that_fails_does_not_hold_up_the_others() -> None:
    reads = Reads()
    one = reads.connection("a")

    def fail() -> None:
        raise OSError("simulated")

    reads.turns.count(READ_BYTES)
    reads.turns.add(one, fail)
    reads.ask(one, 1)
    with pytest.raises(OSError, match="simulated"):
        reads.turn()
    assert reads.turn() == ["a"]
    assert one.reads_waiting == 0
