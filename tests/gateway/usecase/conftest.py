"""Fixtures for tests of this folder: the use cases over a store, and when it answers where that matters."""

from __future__ import annotations

from tests.gateway.usecase.bench import bench
from tests.gateway.usecase.lite.stage import place
from tests.late_store import near_again, near_and_late

__all__ = ["bench", "near_again", "near_and_late", "place"]
