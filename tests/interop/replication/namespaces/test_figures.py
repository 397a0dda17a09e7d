"""The table of a run: quantiles are measured values, and every kind has its row."""

from __future__ import annotations

from tests.interop.replication.namespaces.figures import Round, quantile, table


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
