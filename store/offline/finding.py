"""Findings of a check of a data directory."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Severity(enum.Enum):
    """Severity of a finding. The value is its name in output."""

    DAMAGE = "damage"
    """What was promised is damaged, or the node does not start: it has to be repaired."""
    REBUILT = "rebuilt"
    """What can be made again from the log is damaged."""
    NOTE = "note"
    """Nothing has to be done."""


class CheckFinding(NamedTuple):
    """One finding.

    severity   how bad it is
    part       log, promise, checkpoint, snapshot, index or keys
    file       name within the data directory
    begin      first byte of the file that it concerns
    end        byte after the last one
    records    number of records that it concerns; -1 when that is unknown or does not apply
    exact      False when `records` is the most that there can be
    cause      what is wrong
    remedy     what a person has to do, or what the next start does
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
