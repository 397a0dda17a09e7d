"""Every test of this folder runs beside its store, and with a store behind a link."""

from __future__ import annotations

from tests.calls.far_store import each_distance

__all__ = ["each_distance"]
