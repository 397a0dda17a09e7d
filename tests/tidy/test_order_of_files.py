"""The files and folders that tests/conftest.py starts early are there."""

from __future__ import annotations

from tests.conftest import LONGEST, TESTS, WAITING


def test_what_is_started_early_exists() -> None:
    assert [name for name in (*WAITING, *LONGEST) if not (TESTS / name).exists()] == []
    assert len(set(LONGEST)) == len(LONGEST)
