"""Errors of a reader that has met damage of the log: another replica of the store group may have the same bytes."""

from __future__ import annotations

from domain.errors import StoreError


class LogDamageError(StoreError):
    """Bytes of the log that are not what was written."""


class LogReadError(OSError):
    """Bytes of the log that the disk cannot read."""
