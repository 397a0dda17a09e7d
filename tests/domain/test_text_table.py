"""Tables for people."""

from __future__ import annotations

from domain.admin.text_table import aligned


def test_columns_are_as_wide_as_their_widest_cell_and_no_line_ends_in_blanks() -> None:
    assert aligned([("NAME", "LIFE", ""), ("a", "alive", "x"), ("broker-a", "", "")]) == [
        "NAME      LIFE",
        "a         alive  x",
        "broker-a",
    ]
    assert aligned([]) == []
