"""Errors of reads of damaged parts of the log; another replica of the store group may have the same bytes."""

from __future__ import annotations

from domain.errors import StoreError


class LogDamageError(StoreError):
    """Bytes of the log differ from those written."""


class LogReadError(OSError):
    """The disk cannot read bytes of the log."""
