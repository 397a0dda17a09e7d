"""The table of a run: quantiles are measured values, waits are the longest ones, and every kind has its row."""

from __future__ import annotations

from tests.interop.replication.namespaces.figures import Round, quantile, table
from tests.interop.replication.namespaces.probes import Probe, Probes


def probes(*acked: Probe) -> Probes:
    found = Probes({})
    found.acked += acked
    return found


def test_the_longest_wait_is_that_of_the_worst_moment() -> None:
    """A leader serves on for two seconds after a fault, and nobody for the next four."""
    found = probes(
        *(Probe("a", at / 10, at / 10 + 0.01) for at in range(100, 121)), Probe("a", 12.5, 16.0), Probe("a", 15.9, 15.95),
        Probe("a", 16.2, 16.25),
    )  # fmt: skip
    assert round(found.longest_s(10.0, 16.1, ["a"]), 3) == 3.95, "who sends just after 12.0 waits until 15.95"
    assert round(found.longest_s(10.0, 11.0, ["a"]), 3) == 0.11
    assert round(found.longest_s(12.05, 16.1, ["a"]), 3) == 3.9, "from the begin of the time, not from the message before it"


def test_the_wait_at_any_gateway_is_shorter_than_that_at_one() -> None:
    found = probes(Probe("a", 1.0, 1.1), Probe("b", 2.0, 2.1), Probe("a", 3.0, 3.1), Probe("b", 3.0, 3.2))
    assert round(found.longest_s(0.9, 2.5, ["a"]), 3) == 2.1
    assert round(found.longest_s(0.9, 2.5, ["a", "b"]), 3) == 1.1


def test_a_gateway_serves_from_the_first_answer_to_what_was_sent_since() -> None:
    found = probes(Probe("b", 1.0, 1.1), Probe("a", 1.0, 5.0), Probe("a", 4.0, 5.5), Probe("a", 5.0, 6.0))
    assert found.served_s(3.0) == {"a": 2.5}


def test_a_quantile_is_a_measured_value() -> None:
    values = [float(each) for each in range(100, 0, -1)]
    assert [quantile(values, share) for share in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
    assert quantile([3.0], 0.99) == 3.0
    assert quantile([1.0, 2.0], 0.5) == 1.0


def test_each_kind_has_a_row_and_all_of_them_one() -> None:
    rounds = [Round("move", 0.1, 0.2, 0.3, 0.4), Round("kill", 1.0, 2.0, 3.0, 4.0), Round("kill", 1.5, 2.5, 3.5, 4.5)]
    assert table(rounds).splitlines()[2:] == [
        "| kill | 2 | 1.00 / 1.50 s | 2.00 / 2.50 s | 3.00 / 3.50 s | 4.00 / 4.50 s |",
        "| move | 1 | 0.10 / 0.10 s | 0.20 / 0.20 s | 0.30 / 0.30 s | 0.40 / 0.40 s |",
        "| all | 3 | 1.00 / 1.50 s | 2.00 / 2.50 s | 3.00 / 3.50 s | 4.00 / 4.50 s |",
    ]


def test_a_run_without_rounds_has_a_table() -> None:
    assert table([]).splitlines()[2:] == ["| all | 0 |  |  |  |  |"]
