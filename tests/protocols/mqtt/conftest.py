"""Fixtures for tests of this folder in which it matters when the store answers."""

from __future__ import annotations

from tests.late_store import near_again, near_and_late

__all__ = ["near_again", "near_and_late"]
