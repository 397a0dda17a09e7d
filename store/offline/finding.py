"""Findings of a check of a data directory."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Severity(enum.Enum):
    """Severity of a finding. The value is its name in output."""

    DAMAGE = "damage"
    """Damage of the promised part, or a node that does not start: a repair is needed."""
    REBUILT = "rebuilt"
    """Damage of files that can be built again from the log."""
    NOTE = "note"
    """No action is needed."""


class CheckFinding(NamedTuple):
    """One finding.

    part       log, promise, checkpoint, snapshot, index or keys
    file       name within the data directory
    end        byte after the last one
    records    number of records that it concerns; -1 when that is unknown or does not apply
    exact      False when `records` is the most that there can be
    remedy     advice to the operator, or the work of the next start
    """

    severity: Severity
    part: str
    file: str
    begin: int
    end: int
    records: int
    exact: bool
    cause: str
    remedy: str
